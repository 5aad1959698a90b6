"""The operator's drain: a site takes no new work, from peers or for its own users. Jobs that have
started run on to their end; waiting ones are called back by their origins (`placement/pull_back.py`)."""

from __future__ import annotations

from diana.engine.dispatch import maintenance
from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import DrainSite
from diana.engine.journal.records import DrainChanged
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action, authorise


def drain(core: Context, event: DrainSite) -> None:
    """Drain the site, or end that. The answer's count is 0 if nothing changed."""
    why = authorise(event.principal, Action.DRAIN)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    if event.on and event.to_wall_s:
        maintenance.plan(core, event)
        return
    dropped = not event.on and maintenance.drop(core)
    # Without a reason the one given before stands.
    reason = (event.reason or core.state.drained or "drained") if event.on else ""
    changes = reason != core.state.drained
    if changes:
        core.persist(DrainChanged(on=event.on, reason=reason, at_s=core.now))
        # Groups that waited for room may fit again, and others should hear of it now.
        core.to_place.update(name for name in core.totals.unplaced() if not core.state.groups[name].state)
        core.after(SiteTimer("summary"), 0.0)
    core.reply(Reply(event.request, Ok(count=int(changes or dropped))))
