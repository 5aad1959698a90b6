"""View -> short list -> quotes: what a draft hears before it is decided, and what this site says to others' drafts."""

from __future__ import annotations

from diana.engine import load, placing
from diana.engine.context import Context
from diana.engine.draft import Draft, allowed, parallel_left, quote_request
from diana.engine.events import LookedUp
from diana.engine.messages import Quote, QuoteRequest
from diana.engine.state import Group
from diana.model.ids import SiteId
from diana.model.principal import Principal
from diana.policy.authorise import Action, authorise

SHORT_LIST = 16
"""Peers asked for quotes, besides those that hold data of the group."""


def replace(core: Context, group: Group) -> None:
    """Place what is unplaced of the group, unless that is under way."""
    core.timers.cancel(("place", group.group))
    waiting = group.unplaced - group.holding
    if group.state or group.on_hold or not waiting or not parallel_left(group, group.spec):
        return
    if any(d.group == group.group for d in core.drafts.values()):
        return
    draft = Draft(core.ticket(), group.spec, waiting, group.refs)
    draft.group = group.group
    draft.owner = group.owner
    ask(core, draft)


def ask(core: Context, draft: Draft) -> None:
    core.drafts[draft.number] = draft
    sought = draft.sought()
    if sought:
        draft.waiting.add(core.site)
        core.look_up(sought, lambda held: _looked_up(core, draft, held))
    for site in _short_list(core, draft):
        draft.waiting.add(site)
        core.send(site, quote_request(draft))
    if draft.waiting:
        core.after(("quotes", str(draft.number)), core.state.settings.quote_wait_s)
    else:
        placing.decide(core, draft)


def _looked_up(core: Context, draft: Draft, held: LookedUp) -> None:
    if draft.number in core.drafts:
        draft.held = held
        _heard(core, draft, core.site)


def _heard(core: Context, draft: Draft, site: SiteId) -> None:
    draft.waiting.discard(site)
    if not draft.waiting:
        placing.decide(core, draft)


def _short_list(core: Context, draft: Draft) -> list[SiteId]:
    """All peers in a small grid; else those with the least wait by their summaries and those that hold data."""
    alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
    names = {ref.partition(":")[2].partition("/")[0] for ref, _ in draft.refs if ref.startswith("dataset:")}
    if not names:
        alive = [s for s in alive if allowed(draft.spec, s)]
    if len(alive) <= SHORT_LIST:
        return alive
    waits: list[tuple[float, SiteId]] = []
    holders: set[SiteId] = set()
    for site in alive:
        summary = core.view.peers[site].summary
        if summary is None:
            continue
        if names & set(summary.datasets):
            holders.add(site)
        if summary.accepting and summary.slots and summary.speed > 0 and allowed(draft.spec, site):
            waits.append((summary.work_ahead_s / (summary.slots * summary.speed), site))
    return sorted(holders | {site for _, site in sorted(waits)[:SHORT_LIST]})


def answer_quote(core: Context, sender: SiteId, message: QuoteRequest) -> None:
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why:
        core.warn(why)
        return
    if message.refs:
        core.look_up(message.refs, lambda held: core.send(sender, load.quote(core, message, held)))
    else:
        core.send(sender, load.quote(core, message))


def on_quote(core: Context, sender: SiteId, quote: Quote) -> None:
    draft = core.drafts.get(quote.quote)
    if draft is None or sender not in draft.waiting:
        return
    draft.quotes[sender] = (quote, core.now)
    _heard(core, draft, sender)


def quotes_due(core: Context, number: str) -> None:
    draft = core.drafts.get(int(number))
    if draft is not None:
        placing.decide(core, draft)
