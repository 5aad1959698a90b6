"""A site's answer to "what would these jobs meet at your place": capacity, run time, wait at the asker's priority."""

from __future__ import annotations

from collections.abc import Iterable

from diana.engine.dispatch import capacity, forecast, gang_quota, licences, turns, use
from diana.engine.dispatch.capacity import Obstacle, PromisedCapacity
from diana.engine.journal.events import LookedUp
from diana.engine.machines.kinds import kinds
from diana.engine.messages.messages import (
    MOST_COMPONENT_KINDS,
    ComponentKind,
    LinkEstimate,
    Quote,
    QuoteRequest,
)
from diana.engine.site.context import Context
from diana.model.data import dataset_of
from diana.model.ids import SiteId
from diana.model.job import resources, software
from diana.model.job.resources import ResourceRequest

MOST_HOLDERS = 128
"""Links told because they lead to the asked data, or to the asker."""
MOST_REACHED = 256
"""A site with more streams than this does not name them."""
MOST_OTHERS = 16
"""Links told besides, those measured last: holders nobody here knows of may be among them."""


def quote(
    core: Context,
    asked: QuoteRequest,
    held: LookedUp | None = None,
    *,
    for_peer: bool = True,
    holders: Iterable[SiteId] = (),
) -> Quote:
    """Make this site's quote. `held`: the asked refs that this site holds. `holders`: sites the asked data may come
    from, the asker among them, besides those whose summaries name it."""
    settings = core.state.settings
    obstacles = capacity.obstacles(core, asked, for_peer=for_peer, in_part=True)
    quota = gang_quota.most(core) if asked.coming else None
    if quota is not None and (why := gang_quota.beyond(core, asked.processors)):
        obstacles.append(Obstacle(why, f"cpus <= {quota}" if quota else ""))
    room, slots = capacity.room(core, asked), core.workers.slots()
    # Processors promised to others are as good as taken.
    free_slots = max(0, capacity.free_slots(core) - core.book(PromisedCapacity).rooms.total(core.now))
    # A gang that would not end before the site closes finds nothing idle until it opens again.
    closes = asked.coming and asked.is_sane and forecast.opens_s(core, asked, forecast.each_s(core, asked)) > 0
    run = forecast.learned(core, asked)
    request, workers = asked.request, core.workers
    lanes = workers.lanes(request) if asked.jobs >= 1 and asked.is_sane else 0
    if lanes and resources.shared(request.amounts):
        lanes = min(lanes, licences.at_once(core, request))
    wait = (
        forecast.wait(core, asked, run.mean_s if run.seen else forecast.guessed_s(core, asked), lanes)
        if lanes
        else forecast.NO_WAIT
    )
    reserves = settings.binding == "late"
    named = (name for name in forecast.asked_by_name(core, asked) if name != resources.GPUS) if lanes else ()
    counts = {name: use.counts(core, name) for name in named}
    about = software.asked(asked.offers)
    offers = _had(core, about)
    return Quote(
        quote=asked.quote,
        part=asked.part,
        rejected=obstacles[0].why if obstacles else "",
        near_miss=obstacles[0].mend if len(obstacles) == 1 else "",
        slots=slots,
        free_slots=0 if closes else free_slots,
        speed=settings.speed,
        work_ahead_s=capacity.work_ahead_s(core),
        files=held.found if held else (),
        cached=held.cached if held else (),
        unknown_refs=held.unknown if held else (),
        links=_links(core, asked, holders),
        run_low_s=run.low_s,
        run_s=run.mid_s,
        run_high_s=run.high_s,
        run_mean_s=run.mean_s,
        runs_seen=run.seen,
        wait_s=wait.wait_s,
        wait_low_s=wait.low_s,
        wait_high_s=wait.high_s,
        jobs_ahead=wait.jobs_ahead,
        priority=wait.priority,
        queued_jobs=capacity.queued_jobs(core),
        busy_fraction=1.0 - free_slots / slots if slots else 1.0,
        uplink_bytes_per_s=settings.uplink_bytes_per_s,
        max_jobs=room if room < asked.jobs else 0,
        reach=_reach(core) if _looks_at_links(asked) else (),
        software=_had(core, software.asked(asked.software)),
        offers=offers,
        lacks=tuple(sorted({*about} - {*offers})),
        reserves=reserves,
        startable=turns.startable(core, asked) if reserves and lanes else 0,
        widest=workers.widest(request) if quota is None else min(workers.widest(request), quota),
        gang_most=quota or 0,
        gang_held=0 if quota is None else core.totals.gang_processors(),
        free_gpus=workers.idle(resources.GPUS),
        memory_bytes=workers.offer().most.get(resources.MEMORY, 0),
        gpus=workers.whole(resources.GPUS),
        domain=settings.domain,
        properties=settings.properties,
        coming=forecast.coming(core, asked) if asked.coming and lanes else (),
        kinds=kinds(workers, settings) if asked.kinds else (),
        free={name: free for name, (free, _) in counts.items()},
        whole={name: whole for name, (_, whole) in counts.items()},
        unfit=tuple(_unfit(core, request, one) for one in asked.components[:MOST_COMPONENT_KINDS]),
    )


def _unfit(core: Context, every: ResourceRequest, kind: ComponentKind) -> str:
    """`every`: the least component, with the capabilities and the time that all ask."""
    if kind.processors < 1:
        return "is asked for less than nothing"
    return capacity.unfit(core, every._replace(processors=kind.processors, amounts=resources.of(kind.amounts)))


def _had(core: Context, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those names that machines here can do, licences and declared resources among them."""
    return software.had(resources.texts(core.workers.offer()), names) if names else ()


def _looks_at_links(asked: QuoteRequest) -> bool:
    """True if the asker prices links between others: data of other sites move, or its jobs are gangs or require
    something of links. Else the link to the asker is all that counts."""
    return bool(asked.refs or asked.urls or asked.coming or asked.kinds)


def _links(core: Context, asked: QuoteRequest, holders: Iterable[SiteId]) -> tuple[LinkEstimate, ...]:
    """Return the link estimates to tell, in order of the site."""
    names = {dataset_of(ref) for ref in asked.refs} - {""}
    book = core.view.book
    some = dict.fromkeys(holders)
    some.update(dict.fromkeys(sorted(core.roster.holders(names)) if names else ()))
    known = (book.estimate(site) for site in list(some)[:MOST_HOLDERS] if site in core.view.peers)
    told = {one.site: one for one in known if one is not None}
    if _looks_at_links(asked):
        told.update((one.site, one) for one in book.freshest(MOST_OTHERS))
    return tuple(told[site] for site in sorted(told))


def _reach(core: Context) -> tuple[SiteId, ...]:
    if len(core.view.peers) > MOST_REACHED:
        return ()
    peers, detours = core.view.peers, core.view.detours
    return tuple(sorted(site for site, peer in peers.items() if peer.up or (peer.here and site not in detours)))
