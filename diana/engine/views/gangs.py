"""The gangs of a group that have not begun, as their origin follows them."""

from __future__ import annotations

from diana.engine.handover.gangs import attempts
from diana.engine.handover.gangs.attempt_book import GangAttempts, GangKey
from diana.engine.journal.state import Group, Step
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.site.context import Context
from diana.model.ids import job_id
from diana.model.indexset import CHUNK, IndexSet
from diana.model.job import gang
from diana.model.views.gang import ComponentsAt, GangWait
from diana.model.words import counted as in_words

MOST_GANGS = 20
"""Gangs of a group that are told; those that have a place come first."""


def waiting(core: Context, group: Group) -> tuple[GangWait, ...]:
    """Return the gangs that wait, the first ones of many."""
    if not group.spec.is_gang or group.state:
        return ()
    book = core.book(GangAttempts)
    found = [_placed(core, group, key) for key in sorted(book.claiming) if key[0] == group.group]
    for number in gang.gangs_in(group.spec, group.unplaced - group.holding):
        if len(found) >= MOST_GANGS:
            break
        key = (group.group, number)
        again_s = max(0.0, book.not_before_s.get(key, 0.0) - core.now)
        level = str(gang_queues.level(core, group))
        found.append(GangWait(gang=number, tries=book.tries.get(key, 0), again_s=again_s, level=level))
    return tuple(found[:MOST_GANGS])


def counted(group: Group) -> tuple[int, int, int]:
    """Return the numbers of a group's gangs, of those that wait to be let go, and of those that run: by parts and spans
    of indices, and not by jobs."""
    if not group.spec.is_gang:
        return 0, 0, 0
    size, run = group.spec.gang_size, set[int]()
    offered = [one.indices for one in group.subgroups.values() if one.step is Step.OFFERED]
    wait = gang.whole_gangs(group.spec, IndexSet.union([group.unplaced, *offered]))
    for one in group.subgroups.values():
        if one.step is Step.COMMITTED and one.open_jobs() and one.indices.bounds[0] < group.jobs:
            run.add(one.indices.bounds[0] // size)
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
