"""The witness of other sites: one register each, which says who leads there, journaled (PROMISES section 2, Standby).

A site's two machines may both be alive and not hear each other; the one whose change is recorded here first leads.
Nothing but compare-and-set is promised, so nothing here looks at what the machines want.
"""

from __future__ import annotations

from diana.engine.journal.effects import Refusal, RegisterIs, Reply
from diana.engine.journal.events import RegisterAsked
from diana.engine.journal.records import RegisterChanged
from diana.engine.site.context import Context
from diana.model.trust.principal import Principal
from diana.model.trust.register import changed
from diana.policy.trust.authorise import Action, authorise

MOST_REGISTERS = 10_000
"""Sites this one is witness for: a site more is refused."""


def asked(core: Context, event: RegisterAsked) -> None:
    """Read or change a site's register. Answered with the register as it is after that, durable."""
    why = authorise(Principal.peer(event.by), Action.WITNESS, event.site)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    if event.site == core.site:
        text = f"site {core.site} is no witness of its own; name another site's as witness in its site.toml"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    now = core.state.registers.get(event.site)
    after = now if event.register is None else changed(now, event.expect_term, event.register)
    if after is not None and after != now:
        if now is None and len(core.state.registers) >= MOST_REGISTERS:
            text = f"site {core.site} is witness for {MOST_REGISTERS:,} sites already; name another"
            core.reply(Reply(event.request, Refusal(code="usage", text=text)))
            return
        core.persist(RegisterChanged(site=event.site, register=after))
    core.reply(Reply(event.request, RegisterIs(after)))
