"""Quotes: a draft asks a short list of the view's sites for them before it is decided, and others' drafts are answered
here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from diana.engine.dispatch import quote_answer
from diana.engine.journal.events import LookedUp
from diana.engine.journal.state import Group
from diana.engine.matching.match import Match, allowed
from diana.engine.messages.messages import Quote, QuoteRequest
from diana.engine.placement import baseline_shortlist, decide, recall, set_plans
from diana.engine.placement.draft import Draft, Drafts, Placement, parallel_left, quote_request
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.site import dependencies, journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer, RequestTimer
from diana.model.data import dataset_of
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.resources import of_job
from diana.model.job.spec import ComponentSpec
from diana.model.trust.principal import Principal
from diana.policy.allocation.few import ToldRoom, few
from diana.policy.gang.policies import request_for
from diana.policy.gang.requests import Component
from diana.policy.gang.short_list import MOST_ASKED, short_list
from diana.policy.membership import mark
from diana.policy.requirements.group import alone
from diana.policy.trust.authorise import Action, authorise

SHORT_LIST = 16
"""Peers asked for quotes, besides those that hold data of the group."""
MOST_HOLDERS = 64
"""Peers asked because they hold data."""
SMALL_GRID = 64
"""Most peers with which all that may take the group are looked at."""
MOST_KINDS = 16
"""Kinds of components of a gang for which sites are looked for."""
ROUNDS = 3
"""Times that a silent site is asked before a submission is refused."""


def replace(core: Context, group: Group) -> None:
    """Place what is unplaced of the group, unless that is under way."""
    core.timers.cancel(GroupTimer("place", group.group))
    waiting = group.placeable()
    if waiting and group.not_before_s > core.now and not group.state:
        core.after(GroupTimer("place", group.group), group.not_before_s - core.now)
        return
    if not _may_place(core, group, waiting):
        if group.spec.is_gang:
            gang_queues.leave(core, group.group)
        return
    if group.group in core.book(Drafts).groups:
        return
    if group.spec.is_gang and not gang_queues.has_turn(core, group):
        return
    indices, to = (waiting, None) if group.spec.is_gang else recall.next_of(group, waiting)
    purpose = Placement(group.group, to)
    draft = Draft(core.ticket(), group.spec, indices, group.refs, owner=group.owner, purpose=purpose)
    core.book(Drafts).groups.add(group.group)
    ask(core, draft)


def _may_place(core: Context, group: Group, waiting: IndexSet) -> bool:
    if group.state or group.on_hold or not waiting or not parallel_left(group, group.spec):
        return False
    return not (dependencies.waits(core, group) or journal_doubt.waiting_for(core))


def ask(core: Context, draft: Draft) -> None:
    sought = draft.sought()
    if sought:
        draft.waiting.add(core.site)
    _ask(core, draft, _short_list(core, draft))
    if sought:
        core.look_up(sought, lambda held: _looked_up(core, draft, held), owner=draft.owner)
    elif not draft.waiting:
        _decide(core, draft)


def _ask(core: Context, draft: Draft, sites: list[SiteId]) -> None:
    core.book(Drafts).open[draft.number] = draft
    draft.rounds += 1
    request = quote_request(draft)
    for site in sites:
        draft.waiting.add(site)
        draft.asked.add(site)
        core.send(site, request)
    if draft.waiting:
        core.after(RequestTimer("quotes", draft.number), core.state.settings.quote_wait_s)


def _decide(core: Context, draft: Draft) -> None:
    decide.decide(core, draft, partial(_ask_again, core, draft))


def _ask_again(core: Context, draft: Draft) -> bool:
    """Ask silent sites again about a submission that no site can take; False: there is none, or they were asked often
    enough. A question is lost where a stream ends, and its site may be back at once."""
    if draft.group or draft.rounds >= ROUNDS:
        return False
    silent = [site for site in _short_list(core, draft) if site not in draft.quotes]
    if not silent:
        return False
    draft.forget(silent)
    _ask(core, draft, silent)
    return True


def _looked_up(core: Context, draft: Draft, held: LookedUp) -> None:
    if draft.number in core.book(Drafts).open:
        draft.held = held
        _heard(core, draft, core.site)


def _heard(core: Context, draft: Draft, site: SiteId) -> None:
    draft.waiting.discard(site)
    if not draft.waiting:
        _decide(core, draft)


def _short_list(core: Context, draft: Draft) -> list[SiteId]:
    """Return the peers to ask: all in a small grid; else those where it would end first by their summaries, few where
    these are idle, and those that hold data. Where the group wants something of all its sites together, those that have
    jobs of it tell their values, too."""
    listed = _that_may_take(core, draft)
    if not draft.spec.set_requirements or draft.spec.is_gang:
        return listed
    beside = set_plans.held(core, draft).difference(listed)
    return [*listed, *(s for s in core.view.alive(core.now, core.state.settings.suspect_after_s) if s in beside)]


def _that_may_take(core: Context, draft: Draft) -> list[SiteId]:
    names = {dataset_of(ref) for ref, _ in draft.refs} - {""}
    if draft.meant:
        holders = sorted(core.roster.holders(names))[:MOST_HOLDERS]
        return sorted({*draft.meant, *holders} & core.view.peers.keys())
    plans = core.state.settings.placement == "diana" or draft.spec.is_gang
    match = draft.match(core)
    if len(core.view.peers) <= SMALL_GRID and plans:
        alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
        some = alive if names else [site for site in alive if allowed(draft.spec, site)]
        if len(some) <= SHORT_LIST:
            return some

    def answers(site: SiteId) -> bool:
        peer = core.view.peers.get(site)
        return peer is not None and peer.answers(core.now, core.state.settings.suspect_after_s)

    if not plans:
        holding = sorted(site for site in core.roster.holders(names) if answers(site))[:MOST_HOLDERS]
        return baseline_shortlist.asked(core, draft, holding)
    demand = draft.demand(core.state.settings)
    best = core.roster.best(demand, SHORT_LIST, lambda site: match.may_take(site) and answers(site), every=match.picks)
    if not (names or draft.refs or draft.spec.is_gang or draft.spec.rank or match.requirements):
        best = _few(core, draft, best)
    if draft.spec.is_gang:
        best += _for_gang(core, draft, lambda site: match.may_take(site) and answers(site))
    fixed = (each.site for each in draft.spec.components if each.site)
    named = {SiteId(name) for name in (*draft.spec.sites[:SHORT_LIST], *fixed)}
    holding = sorted(site for site in core.roster.holders(names) if answers(site))[:MOST_HOLDERS]
    return sorted({*best, *holding, *(site for site in named if answers(site) and site != core.site)})


def _for_gang(core: Context, draft: Draft, wanted: Callable[[SiteId], bool]) -> list[SiteId]:
    """Return the sites that are asked about a gang: for each kind of components that not all sites may run those that
    may, and for all of it together."""
    table, request = core.roster.table(), request_for(draft.spec)
    kinds: dict[tuple[object, ...], tuple[ComponentSpec, list[Component]]] = {}
    if isinstance(request, Sequence):
        least = of_job(draft.spec.least_of_site())
        for own, component in zip(draft.spec.by_rank(), request, strict=True):
            if component.amounts != least or own.requirements:
                kinds.setdefault((component.amounts, own.requirements), (own, []))[1].append(component)

    def that_may(own: ComponentSpec, some: list[Component]) -> list[SiteId]:
        may_take = Match(core, alone(draft.spec, own)).may_take
        return short_list(table, some, lambda site: may_take(site) and wanted(site))

    found = [site for own, some in islice(kinds.values(), MOST_KINDS) for site in that_may(own, some)]
    found += short_list(table, request, wanted)
    return list(dict.fromkeys(found))[:MOST_ASKED]


def _few(core: Context, draft: Draft, listed: list[SiteId]) -> list[SiteId]:
    """Return those of the list that are asked about a group without data."""
    told = [(site, core.view.peers[site].summary) for site in listed]
    rows = [ToldRoom(site, each.free_slots, each.queued_jobs) for site, each in told if each is not None]
    processors = len(draft.indices) * draft.spec.resources.processors
    return few(rows, processors, mark(f"{core.site}{draft.number}"))


def answer_quote(core: Context, sender: SiteId, message: QuoteRequest) -> None:
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why:
        core.warn(why)
        return
    # URLs are looked up for this site's own groups alone.
    refs = tuple(ref for ref in message.refs if ref.startswith("dataset:"))
    if refs:
        core.look_up(refs, lambda held: core.send(sender, quote_answer.quote(core, message, held, holders=(sender,))))
    else:
        core.send(sender, quote_answer.quote(core, message, holders=(sender,)))


def on_quote(core: Context, sender: SiteId, quote: Quote) -> None:
    draft = core.book(Drafts).open.get(quote.quote)
    if draft is None or sender not in draft.waiting:
        return
    more = draft.take(sender, quote, core.now)
    if more is not None:
        core.send(sender, quote_request(draft, more))
        core.after(RequestTimer("quotes", draft.number), core.state.settings.quote_wait_s)
    elif sender in draft.quotes:
        _heard(core, draft, sender)


def quotes_due(core: Context, number: int) -> None:
    draft = core.book(Drafts).open.get(number)
    if draft is None:
        return
    if core.site in draft.waiting and any(ref.startswith("url:") for ref, _ in draft.refs):
        # Someone else's server may take longer than a peer may; that it does not answer is told as well.
        draft.waiting = {core.site}
        return
    _decide(core, draft)
