"""The full recount (PROMISES section 4): a site's memory, group by group, against the records that became durable. Its
cost grows with what the site holds, so it is made at restarts, at heal and at the end only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diana.engine.journal.state import SiteState
from diana.model.ids import GroupId, SiteId, origin_of
from diana.model.indexset import IndexSet
from diana.sim.checks.aftermath import Aftermath
from diana.sim.checks.findings import Finding
from diana.sim.checks.stories import GroupStory


def recount(
    site: SiteId, state: SiteState, groups: Mapping[GroupId, GroupStory], aftermath: Aftermath
) -> Iterator[Finding]:
    for name, group in groups.items():
        if origin_of(name) != site:
            continue
        held = state.groups.get(name)
        if name in aftermath.touched:
            if held is None and name not in aftermath.gone:
                yield Finding("I3", name, -1, "in the copy that was put back, gone now")
            continue
        if held is None:
            yield Finding("I3", name, -1, "durable once, gone now")
            continue
        jobs = IndexSet.span(0, group.jobs)
        ended = sum(len(s.within(jobs)) for s in (held.done, held.failed, held.cancelled, held.held))
        live = len(held.unplaced) + sum(p.open_jobs() for p in held.subgroups.values() if p.indices.issubset(jobs))
        if ended + live + len(held.unused) != group.jobs:
            yield Finding("I9", name, -1, f"{ended} ended and {live} live jobs do not make {group.jobs}")
        if ended != len(group.accepted.within(jobs)):
            yield Finding("I9", name, -1, f"{ended} jobs ended here, {len(group.accepted)} were made durable")
        if held.unplaced != group.unplaced:
            yield Finding("I4", name, -1, f"{held.unplaced} is unplaced here, {group.unplaced} was made durable")
