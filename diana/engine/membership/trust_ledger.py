"""The VO's ledger at one site: statements are said, kept, applied and spread (PROMISES 5.2; SPEC D8).

Each site holds them all. Peers compare a digest with every summary they send each other; where it differs they name
what they have and give what the other lacks. A new statement goes to all linked peers at once, so that it is
everywhere within a few hops.
"""

from __future__ import annotations

import msgspec

from diana import errors
from diana.engine.handover import origin
from diana.engine.journal.effects import Refusal, Reply, TrustChanged
from diana.engine.journal.events import NameSite, SayStatement
from diana.engine.journal.records import StatementKept
from diana.engine.journal.state import Step
from diana.engine.membership import hearsay
from diana.engine.membership.table import MembershipTable
from diana.engine.messages.messages import LedgerNews
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust import ledger as said
from diana.model.trust.ledger import NAMED, POLICY, Signed, Statement
from diana.model.views.ledger import Banned, LedgerView
from diana.model.views.views import Named, Ok
from diana.policy.trust import naming
from diana.policy.trust.authorise import Action, authorise

MOST_STATEMENTS = 4096
"""Statements kept, one about each thing; more are refused."""
MOST_BY_SIGNER = 1024
"""Statements kept of one signer, so that none can fill the ledger and so keep a ban of itself out of it."""
MOST_KEPT_PAGES = 1024
"""Pages of names kept, which are counted apart: they keep no ban out."""
MOST_IN_MESSAGE = 64
ASK_EVERY_S = 2.0
"""Seconds between two times that a peer whose digest differs is told what is known here, at least."""
ASK_SELDOM_S = 300.0
"""The same in the end, where it changes nothing: two sites that trust different signers keep different ledgers."""


class TrustBook:
    """Settings under the ledger, and the sites that were told of it lately. Volatile."""

    def __init__(self, own: Settings) -> None:
        self.own_settings = own
        """The settings as the site's operator set them, before the VO's policy."""
        self.policy_changed = False
        """True if the VO's policy changed since the settings were made of both."""
        self.told: dict[SiteId, tuple[float, float, tuple[str, str]]] = {}
        """Site -> when it was last told of the ledger here, how long until again, and of which two digests."""


def say(core: Context, event: SayStatement) -> None:
    """Say an operator's word for the whole VO; this site must be a signer."""
    why = authorise(event.principal, Action.RULE_VO)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    if said.of_itself(event.about, core.site):
        text = f"{event.about} is this very site; say it at another one that is a signer"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    before = core.state.ledger.get(event.about)
    if event.kind == "lift" and (before is None or before.statement.kind != "revoke"):
        core.reply(Reply(event.request, Refusal(code="usage", text=f"{event.about} is not banned")))
        return
    if before is None and (full := _full(core, core.site, event.about)):
        core.reply(Reply(event.request, Refusal(code="usage", text=full)))
        return
    bans_again = event.kind == "revoke" and before is not None and before.statement.kind == "revoke"
    statement = Statement(
        kind=event.kind,
        about=event.about,
        # Without a reason the one given before stands.
        reason=event.reason or (before.statement.reason if before is not None and bans_again else ""),
        values=event.values,
        wall_s=event.wall_s,
        signer=core.site,
    )
    try:
        for signed in (_signed(core, statement), *_said_again(core, statement)):
            _keep(core, signed, None)
    except (errors.UsageError, ValueError) as error:
        core.reply(Reply(event.request, Refusal(code="usage", text=str(error))))
        return
    core.reply(Reply(event.request, Ok(count=1)))


def _signed(core: Context, statement: Statement) -> Signed:
    """Sign a statement, dated after the one it replaces. ValueError or UsageError: it cannot be said."""
    before = core.state.ledger.get(statement.about)
    if before is not None:
        later_s = max(statement.wall_s, before.statement.wall_s + 1.0)
        statement = msgspec.structs.replace(statement, wall_s=later_s)
    payload = said.payload_of(statement)
    signed = Signed(payload, *core.keyring.sign_statement(payload))
    signed.statement  # noqa: B018  refuses what would be refused elsewhere
    return signed


def _said_again(core: Context, statement: Statement) -> list[Signed]:
    """Return the standing statements of a signer that is being revoked, signed by this site: whoever joins later takes
    nothing from a revoked signer."""
    kind, _, name = statement.about.partition(":")
    if statement.kind != "revoke" or kind not in ("site", "signer"):
        return []
    old = [one.statement for _, one in sorted(core.state.ledger.items())]
    again = [
        msgspec.structs.replace(one, signer=core.site)
        for one in old
        if one.signer == name and one.about != statement.about and one.kind != "named"
    ]
    names, made = naming.orphaned(core.state.ledger, name)
    again += naming.additions(core.state.ledger, core.site, names, made, wall_s=statement.wall_s)
    return [_signed(core, one) for one in again]


def name_site(core: Context, event: NameSite) -> None:
    """Look a site's name up, or give it out: durable before the answer, and told to all linked peers."""
    kept, name = core.state.ledger, event.name
    by = naming.given_by(kept, name)
    taken = f"given out by {', '.join(by)}" if by else ""
    if not event.give:
        taken = taken or (f"site {name} is known" if name == core.site or name in core.view.peers else "")
    elif core.site in by or event.again:
        taken = ""
    if event.give and not taken:
        made = {name} if event.signer and name not in naming.signers(kept) else set()
        try:
            for page in naming.additions(kept, core.site, made if by else {name}, made, wall_s=event.wall_s):
                _keep(core, _signed(core, page), None)
        except (errors.UsageError, ValueError) as error:
            core.reply(Reply(event.request, Refusal(code="usage", text=str(error))))
            return
    banned = {who.partition(":")[2] for who, _, _ in revoked(core) if who.startswith(("site:", "signer:"))}
    core.reply(Reply(event.request, Named(taken=taken, signers=naming.signers(kept, banned))))


def _keep(core: Context, signed: Signed, source: SiteId | None) -> None:
    core.persist(StatementKept(signed=signed))
    for site in sorted(core.book(MembershipTable).linked):
        if site != source:
            core.send(site, LedgerNews(statements=(signed,)))
    if signed.statement.kind != "named":
        apply(core, signed.statement)


def apply(core: Context, statement: Statement | None = None) -> None:
    """Have the rest of the site act on what stands now; None: on all of it, at start."""
    if statement is None or statement.about != POLICY:
        core.emit(TrustChanged(revoked(core)))
    if statement is None or statement.about == POLICY:
        core.book(TrustBook).policy_changed = True
    _ban(core)


def _ban(core: Context) -> None:
    """Take back offers to newly banned sites; work they have stays there, unreachable, until the ban is lifted
    or an operator gives the site up (`groups/retry.py`): nobody can tell whether it runs."""
    banned = frozenset(SiteId(who.removeprefix("site:")) for who, _, _ in revoked(core) if who.startswith("site:"))
    new, core.view.banned = banned - core.view.banned, banned
    for site in sorted(new):
        core.roster.touch(site)
        for group, subgroup in core.parties.handed_to(site):
            if subgroup.step is Step.OFFERED and not subgroup.unreachable:
                origin.take_back(core, group, subgroup, f"{site} is banned: {why_banned(core, site)}")
    hearsay.clear(core, new)


def revoked(core: Context) -> tuple[tuple[str, float, str], ...]:
    """Return (who, since when, why) of all that stands revoked, in order."""
    standing = (one.statement for _, one in sorted(core.state.ledger.items()))
    return tuple((one.about, one.wall_s, one.reason) for one in standing if one.kind == "revoke")


def why_banned(core: Context, site: SiteId) -> str:
    """Return the reason why the VO revoked the site; empty: it did not."""
    found = core.state.ledger.get(f"site:{site}")
    if found is None or found.statement.kind != "revoke":
        return ""
    return found.statement.reason or "no reason given"


def view(core: Context) -> LedgerView:
    """Return the policy and the bans that stand, for people."""
    policy = core.state.ledger.get(POLICY)
    values = policy.statement.values if policy else {}
    return LedgerView(
        values=values,
        by=policy.statement.signer if policy else "",
        since_wall_s=policy.statement.wall_s if policy else 0.0,
        here=tuple(
            key for key in sorted(values) if getattr(core.book(TrustBook).own_settings, key) != getattr(Settings(), key)
        ),
        banned=tuple(
            Banned(who=one.about, since_wall_s=one.wall_s, reason=one.reason, by=one.signer)
            for one in (kept.statement for _, kept in sorted(core.state.ledger.items()))
            if one.kind == "revoke"
        ),
        drained=core.drained(),
    )


def effective(core: Context, own: Settings) -> Settings:
    """The site's settings under the VO's policy."""
    found = core.state.ledger.get(POLICY)
    return said.under(own, found.statement.values) if found is not None else own


# --- spreading --------------------------------------------------------------------------------------------


def digest(core: Context) -> str:
    """Return the digest of all statements; empty: nothing was ever said."""
    return said.digest([one.ident for one in core.state.ledger.values()]) if core.state.ledger else ""


def compare(core: Context, sender: SiteId, its_digest: str) -> None:
    """Compare a peer's digest, with each summary first hand. A peer whose digest differs is told what is here."""
    mine = digest(core)
    if its_digest == mine:
        core.book(TrustBook).told.pop(sender, None)
        return
    pair = (its_digest, mine)
    told_s, wait_s, said_of = core.book(TrustBook).told.get(sender, (float("-inf"), 0.0, pair))
    if core.now - told_s < (wait_s if pair == said_of else ASK_EVERY_S):
        return
    wait_s = min(2.0 * wait_s, ASK_SELDOM_S) if pair == said_of and wait_s else ASK_EVERY_S
    core.book(TrustBook).told[sender] = (core.now, wait_s, pair)
    core.send(sender, LedgerNews(has=_idents(core), told=True))


def on_news(core: Context, sender: SiteId, message: LedgerNews) -> None:
    for signed in message.statements[:MOST_IN_MESSAGE]:
        _heard(core, sender, signed)
    known = {one.ident: one for one in core.state.ledger.values()}
    wanted = [known[ident] for ident in message.asks[:MOST_IN_MESSAGE] if ident in known]
    lacks: tuple[str, ...] = ()
    if message.told:
        has = frozenset(message.has)
        wanted += [one for ident, one in sorted(known.items()) if ident not in has]
        lacks = tuple(sorted(has - known.keys()))[:MOST_IN_MESSAGE]
    if wanted or lacks:
        core.send(sender, LedgerNews(statements=tuple(wanted[:MOST_IN_MESSAGE]), asks=lacks))


def _heard(core: Context, sender: SiteId, signed: Signed) -> None:
    try:
        statement = signed.statement
    except ValueError as error:
        core.warn(f"{sender} sent a statement that is none: {error}")
        return
    before = core.state.ledger.get(statement.about)
    outdone = before is not None and not signed.after(before)
    own_page = statement.kind == "named" and statement.signer == core.site
    if outdone and not (own_page and before is not None and not before.after(signed)):
        return
    if before is None and (full := _full(core, statement.signer, statement.about)):
        core.warn(f"a statement about {statement.about} by {statement.signer} is not kept: {full}")
        return
    why = core.keyring.check_statement(
        signed.payload, signed.chain, signed.signature, statement.signer, statement.wall_s
    )
    if why:
        core.warn(f"{sender} sent a statement about {statement.about}: {why}")
        return
    if not outdone or before is None:
        _keep(core, signed, sender)
        return
    # This journal is an older copy, or another, than the one in which these names were kept.
    try:
        _keep(core, _signed(core, naming.united(before.statement, statement)), None)
    except (errors.UsageError, ValueError) as error:
        core.warn(f"names given out here before are not told again: {error}")


def _full(core: Context, signer: SiteId, about: str) -> str:
    """Return why the ledger takes nothing about anything new by this signer; empty: it does."""
    words = [one for known, one in core.state.ledger.items() if not known.startswith(NAMED)]
    if about.startswith(NAMED):
        pages = len(core.state.ledger) - len(words)
        return f"the ledger holds {pages:,} pages of names" if pages >= MOST_KEPT_PAGES else ""
    if len(words) >= MOST_STATEMENTS:
        return f"the ledger holds {MOST_STATEMENTS:,} statements"
    by_it = sum(one.statement.signer == signer for one in words)
    return f"{MOST_BY_SIGNER:,} statements by {signer} stand" if by_it >= MOST_BY_SIGNER else ""


def _idents(core: Context) -> tuple[str, ...]:
    return tuple(sorted(one.ident for one in core.state.ledger.values()))
