"""The parts of a decision: recorded, and offered to their sites or begun at home."""

from __future__ import annotations

from typing import Any

from diana.engine.data import checkpoints
from diana.engine.dispatch import promised_capacity
from diana.engine.guard import guard
from diana.engine.handover import inputs, origin
from diana.engine.journal.records import GroupPlaced, Part
from diana.engine.journal.state import Group
from diana.engine.placement import pull_back, recall
from diana.engine.placement.draft import parallel_left
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.reservations import Reservations
from diana.engine.site.context import Context
from diana.model.ids import SiteId, subgroup_id
from diana.model.indexset import IndexSet
from diana.policy.allocation import splitting
from diana.policy.allocation.allotment import allot


def place(
    core: Context,
    group: Group,
    plan: splitting.Plan,
    most: int,
    manifest: Manifest,
    *,
    unguarded: bool,
) -> None:
    """Place the parts of a plan, at most so many of them under `max_parallel`: those that find no room now are placed
    when another is over."""
    chosen = plan.parts[:most] if group.spec.max_parallel else plan.parts
    broken = unguarded and bool(pull_back.broken(core, group.group))
    parallel = parallel_left(group, group.spec) if group.spec.max_parallel else 0
    pieces = [(p.site, some) for p in chosen for some in _by_export(group, p.indices)]
    shares = allot(parallel, [len(indices) for _, indices in pieces])
    parts = []
    for at, ((site, indices), share) in enumerate(zip(pieces, shares, strict=True)):
        room, behind = _room(core, group, site, indices)
        parts.append(
            part_of(
                group,
                at,
                site,
                indices,
                manifest,
                max_parallel=share,
                exported=indices.issubset(group.exported),
                room=room,
                behind=behind,
                unguarded=broken or (unguarded and guard.shuns(core, group.group, site)),
            )
        )
    core.waiting_notes.pop(group.group, None)
    decision = recall.told(group, IndexSet.union(part.indices for part in parts), plan.decision)
    foretold = core.book(Reservations).foretold.pop(group.group, None)
    core.persist(GroupPlaced(group=group.group, decision=decision, parts=tuple(parts), foretold=foretold))
    for part in parts:
        if part.site == core.site:
            inputs.begin(core, core.state.custodies[(part.subgroup, part.epoch)])
        else:
            origin.offer(core, group, group.subgroups[part.subgroup])
    core.notify(group.group)


def part_of(group: Group, at: int, site: SiteId, indices: IndexSet, manifest: Manifest, **more: Any) -> Part:
    """Return the part numbered `at` of a placement, with the inputs that it reads. `more`: further fields of it."""
    files, sources, readers = manifest.for_part(site, indices)
    return Part(
        subgroup=subgroup_id(group.group, group.next_number + at),
        epoch=group.epoch + 1 + at,
        site=site,
        indices=indices,
        files=files,
        sources=sources,
        readers=readers,
        attempt_base=group.attempt_base(indices),
        saved=checkpoints.of(group, indices),
        memory_bytes=group.memory_bytes,
        **more,
    )


def _room(core: Context, group: Group, site: SiteId, indices: IndexSet) -> tuple[int, bool]:
    """(number of the room kept for them at the site, 0: none; True if it is behind all that waits there). Room at home
    is taken by this."""
    room, behind = recall.room_for(group, indices)
    processors = len(indices) * group.spec.resources.processors
    if room and site == core.site and not promised_capacity.take(core, site, room, processors, behind):
        return 0, behind
    return room, behind


def _by_export(group: Group, indices: IndexSet) -> list[IndexSet]:
    """Divide jobs that were exported from others: a subgroup was exported as a whole or not at all."""
    return [some for some in (indices - group.exported, indices & group.exported) if some]
