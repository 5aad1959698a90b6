"""The beginning of an export, at the origin: it hears which jobs a congested site would let go, and asks other sites
whether they would end earlier there (SPEC D7; paper sections IX, X). `moves.py` decides when the quotes are in."""

from __future__ import annotations

from functools import partial
from math import inf

from diana.engine.journal.state import Group
from diana.engine.matching.match import Match
from diana.engine.messages.messages import Summary
from diana.engine.messages.migration import Surplus, SurplusGroup
from diana.engine.migration import moves
from diana.engine.migration.exports import may_move, shares_freed, still_there
from diana.engine.migration.table import Export, LongerPause, MigrationBook
from diana.engine.placement import pull_back, quote_round
from diana.engine.placement.draft import Draft, Pricing
from diana.engine.site.context import Context
from diana.model.ids import SiteId, SubgroupId, origin_of
from diana.model.indexset import IndexSet
from diana.policy.migration.plan import split_off
from diana.policy.pricing.demand import Demand

MOST_ASKED = 16
"""Sites asked, those that look best by their summaries."""
MOST_REASON = 200
"""Characters kept of a reason that a peer sent."""
AGAIN_S = 4.0
"""Seconds before a group is priced again for the same site."""
INVITED_AGAIN_S = 1.0
"""The same after an invitation."""


def on_surplus(core: Context, sender: SiteId, message: Surplus) -> None:
    if message.unfit:
        mine = (told.group for told in message.groups if origin_of(told.group) == core.site)
        pull_back.unfit(core, sender, mine, message.reason[:MOST_REASON])
        return
    if core.state.settings.placement != "diana":
        return
    inviters = _believed(core, message.invited[:MOST_ASKED])
    for told in message.groups:
        if origin_of(told.group) != core.site or not _sane(told):
            core.warn(f"{sender} would let go {told.group}, which is another site's or makes no sense")
            continue
        group = core.state.groups.get(told.group)
        if group is not None:
            _ask(core, group, sender, told, message.reason, inviters)


def _sane(told: SurplusGroup) -> bool:
    alike = len(told.parts) == len(told.epochs) == len(told.jobs) > 0
    return (
        alike
        and min(told.jobs) > 0
        and told.jobs_ahead >= 0
        and 0 <= told.ends_s < inf
        and 0 <= told.processors_per_s < inf
    )


def _believed(core: Context, invited: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
    """Return those of the sites that invited work, by a peer's word, that are in reach and did not refuse any of
    late."""
    book, after_s = core.book(MigrationBook), core.state.settings.suspect_after_s
    out = []
    for site in sorted(set(invited)):
        peer = core.view.peers.get(site)
        in_reach = site == core.site or (peer is not None and peer.answers(core.now, after_s))
        if in_reach and site not in core.view.banned and book.vain.get(site, LongerPause()).until_s <= core.now:
            out.append(site)
    return tuple(out)


def _ask(
    core: Context, group: Group, site: SiteId, told: SurplusGroup, reason: str, inviters: tuple[SiteId, ...]
) -> None:
    settings = core.state.settings
    if settings.migration == "off" or group.state or group.on_hold:
        return
    book = core.book(MigrationBook)
    again_s = INVITED_AGAIN_S if inviters else AGAIN_S
    if group.group in book.priced or book.looked(group.group, site, core.now, again_s):
        return
    parts = tuple(_movable(group, site, told))
    if not parts or not book.moves_left(settings, core.now):
        return
    if group.spec.max_parallel and not shares_freed(group, [(group.subgroups[part], some) for part, some in parts]):
        core.count("surplus_kept")
        return
    match = Match(core, group.spec)
    invited = tuple(one for one in inviters if one != site and match.may_take(one))
    among = tuple(dict.fromkeys((*promising(core, group, site, told, match), *invited)))
    if not among:
        core.count("surplus_kept")
        return
    indices = IndexSet.union(some for _, some in parts)
    decided = partial(moves.decide, core, group.group, Export(told, site, parts, among, reason, invited))
    pricing = Pricing(group.group, frozenset((*among, site)), decided, behind=settings.migration != "paper")
    draft = Draft(core.ticket(), group.spec, indices, group.refs, owner=group.owner, purpose=pricing)
    book.priced.add(group.group)
    quote_round.ask(core, draft)


def _movable(group: Group, site: SiteId, told: SurplusGroup) -> list[tuple[SubgroupId, IndexSet]]:
    """Return the jobs the site names that the origin knows to be there: the last ones of each part, since the site
    starts the first ones first."""
    out = []
    for part, epoch, jobs in zip(told.parts, told.epochs, told.jobs, strict=True):
        subgroup = group.subgroups.get(part)
        if subgroup is not None and (subgroup.site, subgroup.epoch) == (site, epoch) and may_move(subgroup):
            waiting = still_there(group, subgroup)
            some = split_off(waiting, jobs)[1]
            if some:
                out.append((part, some))
    return out


def promising(core: Context, group: Group, site: SiteId, told: SurplusGroup, match: Match) -> tuple[SiteId, ...]:
    """Return the sites whose summaries leave hope that a job ends there earlier by the least gain, which paper mode
    does not ask for; best first, then by name."""
    settings = core.state.settings
    found = []
    for peer in _candidates(core, group):
        summary = core.view.peers[peer].summary
        if peer == site or peer in core.view.banned or not match.may_take(peer):
            continue
        if summary is not None and _usable(summary):
            found.append((_soonest_s(summary, group.spec.resources.work_s or settings.default_work_s), peer))
    if site != core.site and match.may_take(core.site) and core.workers.slots() and not core.drained():
        found.append((0.0, core.site))
    latest_s = inf if settings.migration == "paper" else told.ends_s - settings.migration_gain_s
    return tuple(peer for soonest_s, peer in sorted(found)[:MOST_ASKED] if soonest_s <= latest_s)


def _candidates(core: Context, group: Group) -> list[SiteId]:
    settings = core.state.settings
    alive = core.view.alive(core.now, settings.suspect_after_s)
    if len(alive) <= quote_round.SMALL_GRID:
        return alive
    resources = group.spec.resources
    one = Demand(
        indices=IndexSet.span(0, 1),
        processors=resources.processors,
        work_s=resources.work_s or settings.default_work_s,
        max_subgroup=1,
    )
    return core.roster.best(one, MOST_ASKED + 1, set(alive).__contains__)


def _usable(summary: Summary) -> bool:
    return summary.accepting and summary.slots > 0 and 0 < summary.speed < inf and 0 <= summary.work_ahead_s < inf


def _soonest_s(summary: Summary, work_s: float) -> float:
    """Return the least seconds until a job would be through there: its own run, after half a running job where no slot
    is free. Quotes tell it better, with what waits; this only leaves out hopeless sites."""
    jobs = max(1, summary.queued_jobs + summary.running_jobs)
    runs_out_s = 0.0 if summary.free_slots else summary.work_ahead_s / jobs / 2
    return (work_s + runs_out_s) / summary.speed
