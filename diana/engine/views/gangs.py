"""The gangs of a group, as their origin follows them: those that have not begun, and those that were let go."""

from __future__ import annotations

from itertools import islice

from diana.engine.dispatch import capacity
from diana.engine.handover.gangs import attempts
from diana.engine.handover.gangs.attempt_book import GangAttempts, GangKey
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.site.context import Context
from diana.model.ids import job_id
from diana.model.indexset import CHUNK, IndexSet
from diana.model.job import gang
from diana.model.views.gang import ComponentsAt, GangRun, GangWait
from diana.model.words import counted as in_words

MOST_GANGS = 20
"""Gangs of a group that are told; those that have a place come first."""
MOST_PARTS = 2000
"""Parts of a group, the latest, among which those gangs are looked for that are over."""


def waiting(core: Context, group: Group, job: int = -1) -> tuple[GangWait, ...]:
    """Return the gangs that wait, the first ones of many; that of `job` alone, where one is named."""
    if not group.spec.is_gang or group.state:
        return ()
    book = core.book(GangAttempts)
    wanted, size = group.unplaced - group.holding, group.spec.gang_size
    if job >= 0:
        wanted &= gang.members(group.spec, job // size)
    keys = sorted(key for key in book.claiming if key[0] == group.group and (job < 0 or key[1] == job // size))
    found = [_placed(core, group, key) for key in keys[:MOST_GANGS]]
    for number in gang.gangs_in(group.spec, wanted):
        if len(found) >= MOST_GANGS:
            break
        key = (group.group, number)
        again_s = max(0.0, book.not_before_s.get(key, 0.0) - core.now)
        level = str(gang_queues.level(core, group))
        found.append(GangWait(gang=number, tries=book.tries.get(key, 0), again_s=again_s, level=level))
    return tuple(found[:MOST_GANGS])


def begun(core: Context, group: Group, job: int = -1) -> tuple[GangRun, ...]:
    """Return gangs that were let go, not all of many: those that are not over by their numbers, then the latest of the
    others. That of `job` alone, where one is named."""
    if not group.spec.is_gang:
        return ()
    book, size = core.book(GangAttempts), group.spec.gang_size
    found: dict[int, list[Subgroup]] = {}
    goes_on = sorted(key for key in book.parts if key[0] == group.group and key not in book.claiming)
    for key in goes_on[:MOST_GANGS] if job < 0 else [(group.group, job // size)]:
        some = map(group.subgroups.get, book.parts.get(key, ()))
        found[key[1]] = [one for one in some if one is not None and _was_let_go(group, one)]
    parts = group.subgroups.values()
    for one in parts if job >= 0 else islice(reversed(parts), MOST_PARTS):
        number = one.indices.bounds[0] // size if _was_let_go(group, one) else -1
        if number < 0 or (group.group, number) in book.parts:
            continue
        if number in found or (job < 0 and len(found) < MOST_GANGS):
            found.setdefault(number, []).append(one)
    return tuple(_ran(core, group, number, some) for number, some in found.items() if some)


def _was_let_go(group: Group, one: Subgroup) -> bool:
    return bool(one.indices) and one.step is Step.COMMITTED and one.indices.bounds[0] < group.jobs


def counted(group: Group) -> tuple[int, int, int]:
    """Return the numbers of a group's gangs, of those that wait to be let go, and of those that run: by parts and spans
    of indices, and not by jobs."""
    if not group.spec.is_gang:
        return 0, 0, 0
    size, run, offered = group.spec.gang_size, set[int](), [group.unplaced]
    for one in group.subgroups.values():
        if one.step is Step.OFFERED:
            offered.append(one.indices)
        elif one.open_jobs() and one.indices.bounds[0] < group.jobs:
            run.add(one.indices.bounds[0] // size)
    wait = gang.whole_gangs(group.spec, IndexSet.union(offered))
    running = sum(number * size not in wait for number in run)
    return group.jobs // size, len(wait) // size, running


def spare(group: Group) -> IndexSet:
    """Return the unplaced indices of flexible gangs that have a place: they are divided into fewer components than they
    may have."""
    if group.spec.flexible is None or not group.unplaced:
        return IndexSet()
    offered = [one.indices for one in group.subgroups.values() if one.step is Step.OFFERED]
    return group.unplaced & gang.whole_gangs(group.spec, IndexSet.union(offered))


def ended_with(group: Group, index: int) -> str:
    """Return why a component was cancelled that ended with its gang; empty: no other one of its gang ended ill."""
    others = gang.members(group.spec, index // group.spec.gang_size)
    for jobs, how in ((group.failed, "{} failed"), (group.held, "nobody knows how {} ended")):
        if found := jobs.within(others):
            return f"ended with its gang: {how.format(job_id(group.group, found.bounds[0]))}"
    return ""


def ended_note(group: Group) -> str:
    """Return which component ended with its gang, the first of many, and why; empty: none did. Of a large group the
    first gang in each chunk is looked at that did not end well."""
    for at in range(0, group.jobs if group.spec.is_gang and group.cancelled else 0, CHUNK):
        window = IndexSet.span(at, min(at + CHUNK, group.jobs))
        for kind in (group.failed, group.held):
            if not (ill := kind.within(window)):
                continue
            first = ill.bounds[0] // group.spec.gang_size
            if found := group.cancelled.within(gang.members(group.spec, first)):
                index, others = found.bounds[0], len(found) - 1
                more = f"; likewise {in_words(others, 'more component')}" if others else ""
                return f"{job_id(group.group, index)} {ended_with(group, index)}{more}"
    return ""


def _placed(core: Context, group: Group, key: GangKey) -> GangWait:
    book, some = core.book(GangAttempts), []
    for part in book.parts.get(key, ()):
        one = group.subgroups.get(part)
        if one is None or one.step is not Step.OFFERED or not one.indices:
            continue
        claim = book.claim(part)
        each = gang.of_part(group.spec, one.indices, one.processors).resources.processors
        some.append(
            ComponentsAt(
                site=one.site,
                components=len(one.indices),
                processors=each * len(one.indices),
                state="silent" if claim.state == "waits" and attempts.silent(core, one.site) else claim.state,
                since_s=max(0.0, core.now - claim.since_s),
                expected_s=claim.expected_s,
            )
        )
    over_s = book.over_s.get(key)
    gives_up_s = max(0.0, over_s - core.now) if over_s is not None else 0.0
    some.sort(key=lambda at: (at.state != "holds", at.site))
    return GangWait(gang=key[1], tries=book.tries.get(key, 0), components=tuple(some), gives_up_s=gives_up_s)


def _ran(core: Context, group: Group, number: int, parts: list[Subgroup]) -> GangRun:
    starts = [one.first_start_s for one in parts if one.first_start_s >= 0]
    began_s, since_s = min(starts, default=-1.0), core.book(GangAttempts).gone_s.get((group.group, number), core.now)
    over = not any(one.open_jobs() for one in parts)
    some = []
    for one in parts:
        asked = gang.of_part(group.spec, one.indices, one.processors).resources.processors
        stands, stands_s = _stands(core, one)
        some.append(
            ComponentsAt(
                site=one.site,
                components=len(one.indices),
                processors=asked * len(one.indices),
                state=stands,
                since_s=stands_s,
                behind_s=one.first_start_s - began_s if one.first_start_s >= 0 else -1.0,
            )
        )
    last_s = max(one.last_start_s for one in parts)
    return GangRun(
        gang=number,
        components=tuple(sorted(some, key=lambda at: (at.behind_s, at.site))),
        since_s=0.0 if over else core.now - since_s,
        began_s=began_s,
        spread_s=last_s - began_s if over and last_s >= 0 else -1.0,
        over=over,
    )


def _stands(core: Context, one: Subgroup) -> tuple[str, float]:
    """Return how a part fares that was let go, and for how many seconds its site has been silent."""
    if not one.open_jobs():
        return "done" if one.done == len(one.indices) else "failed" if one.failed else "ended", 0.0
    if attempts.silent(core, one.site):
        peer = core.view.peers.get(one.site)
        return "silent", max(0.0, core.now - peer.last_heard_s) if peer is not None else 0.0
    if one.site == core.site:
        custody = core.state.custodies.get((one.subgroup, one.epoch))
        return "runs" if custody is not None and capacity.running_here(core, custody) else "starts", 0.0
    told = core.view.progress.get(one.subgroup)
    return "runs" if told is not None and told.running else "starts", 0.0
