"""The placement of a group's gangs, one after the other: each whole, or none of it (SPEC K2, K5)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from diana.engine.handover import origin
from diana.engine.handover.gangs import attempts
from diana.engine.handover.gangs.attempt_book import GangAttempts, GangKey
from diana.engine.journal.effects import Refusal
from diana.engine.journal.records import GroupPlaced, JobsCancelled
from diana.engine.journal.state import Group
from diana.engine.placement import recall
from diana.engine.placement.draft import Draft
from diana.engine.placement.gangs import planning
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.parts import part_of
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer
from diana.model.ids import SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.job import gang
from diana.model.job.spec import ComponentSpec
from diana.model.views.decision import Decision
from diana.policy.gang import holding


class GangTry(NamedTuple):
    placed: bool
    why: str
    """Why it has no place now; empty: it has one, or none waits."""
    refused: Decision | None = None
    """Each site against each condition, where it has no place; None: it has no conditions."""


def place_next(core: Context, group: Group, draft: Draft, manifest: Manifest) -> GangTry:
    """Place the next gang of the group."""
    _cancel_torn(core, group)
    book, key = core.book(GangAttempts), _next(core, group)
    if key is None:
        _look_again(core, group)
        return GangTry(False, "")
    draft.indices = gang.members(group.spec, key[1])
    answer = planning.decide(core, draft, manifest, book.avoided(key))
    early = book.not_before_s.get(key, 0.0) > core.now
    if early:
        book.look_s[key] = core.now + holding.EARLY_EVERY_S
        if isinstance(answer, Refusal) or not _at_once(answer):
            _look_again(core, group)
            return GangTry(False, "")
    if isinstance(answer, Refusal):
        return GangTry(False, answer.text, answer.decision)
    place(core, group, key[1], answer, manifest)
    if early:
        book.early.add(key)
    return GangTry(True, "")


def _at_once(decision: Decision) -> bool:
    """True if all components have room now."""
    return decision.gang is not None and all(one.wait_s <= 0 for one in decision.gang.components)


def place(core: Context, group: Group, number: int, decision: Decision, manifest: Manifest) -> None:
    """Place a gang as decided: alike components at one site are one part."""
    assert decision.gang is not None
    first, spec, ranks = number * group.spec.gang_size, group.spec, group.spec.by_rank()
    alike: dict[tuple[SiteId, ComponentSpec], list[int]] = {}
    for one in decision.gang.components:
        index = first + one.component
        own = ranks[one.component] if ranks else ComponentSpec(processors=one.processors)
        alike.setdefault((one.site, own), []).append(index)
    parts = []
    for at, ((site, own), members) in enumerate(alike.items()):
        indices, divided = IndexSet.of(members), own.processors if spec.flexible is not None else 0
        # Unguarded, since the guard of one site cannot have a component wait until others have shown that they run.
        parts.append(part_of(group, at, site, indices, manifest, unguarded=True, processors=divided))
    core.waiting_notes.pop(group.group, None)
    told = recall.told(group, gang.members(spec, number), decision)
    core.persist(GroupPlaced(group=group.group, decision=told, parts=tuple(parts)))
    expected_s = {one.site: one.wait_s for one in decision.gang.components}
    attempts.placed(core, group, [part.subgroup for part in parts], expected_s)
    for part in parts:
        origin.offer(core, group, group.subgroups[part.subgroup])
    if group.unplaced:
        core.to_place.add(group.group)
    core.notify(group.group)


def _waiting(core: Context, group: Group) -> Iterator[GangKey]:
    """Yield the gangs that wait whole, and of which nothing runs any more."""
    closing = _closing(core, group)
    for number in gang.gangs_in(group.spec, group.placeable()):
        if closing.isdisjoint(gang.members(group.spec, number)):
            yield group.group, number


def _next(core: Context, group: Group) -> GangKey | None:
    """Return the first gang that was not tried just now, else one that pauses and is looked at."""
    book, early = core.book(GangAttempts), None
    for key in _waiting(core, group):
        if book.not_before_s.get(key, 0.0) <= core.now:
            return key
        if early is None and book.look_s.get(key, inf) <= core.now:
            early = key
    return early


def _look_again(core: Context, group: Group) -> None:
    """Look again when the first of the gangs that were given up may be tried anew, or has room by chance."""
    due = [core.book(GangAttempts).looked_at_s(key) for key in _waiting(core, group)]
    if due:
        core.timers.set(GroupTimer("place", group.group), min(due))


def _closing(core: Context, group: Group) -> IndexSet:
    """Return the components that sites have not surely ended, of attempts that broke."""
    some = (
        old.cancel
        for parts in core.state.disowned.values()
        for part, old in parts.items()
        if group_of(part) == group.group and not old.closed
    )
    return IndexSet.union(some)


def _cancel_torn(core: Context, group: Group) -> None:
    """Cancel components that wait though others of their gang have a result: it can never start whole again."""
    torn = gang.ragged(group.spec, group.unplaced)
    settled = IndexSet.of(index for index in torn if group.settled(gang.whole_gangs(group.spec, IndexSet.of([index]))))
    if settled:
        core.persist(JobsCancelled(group=group.group, indices=settled))
        core.count("jobs_cancelled", len(settled))
        core.to_check.add(group.group)
