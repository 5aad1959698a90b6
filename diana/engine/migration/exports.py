"""The jobs of a group that may leave the site they wait at (SPEC D7)."""

from __future__ import annotations

from diana.engine.journal.state import Group, Step, Subgroup
from diana.model.indexset import IndexSet


def may_move(subgroup: Subgroup) -> bool:
    """True if the part was taken by its site, which is in reach, and was never exported before."""
    return subgroup.step is Step.COMMITTED and not subgroup.unreachable and not subgroup.exported


def shares_freed(group: Group, going: list[tuple[Subgroup, IndexSet]]) -> int:
    """Return how much of the group's `max_parallel` is free once these jobs are given back. A part keeps its share
    while it has the jobs for it, so it is nothing while that many stay: who is called back then waits for no slot but
    for a share, and gave up a place in a queue for it."""
    kept = sum(min(part.max_parallel, part.open_jobs() - len(some)) for part, some in going)
    return sum(min(part.max_parallel, part.open_jobs()) for part, _ in going) - kept


def still_there(group: Group, subgroup: Subgroup) -> IndexSet:
    """Return the part's jobs that have no result, were never exported and have no other order; the merge, which stays,
    is left out."""
    ordered = subgroup.cancelling | subgroup.holding | subgroup.recalled
    jobs = subgroup.indices & IndexSet.span(0, group.jobs)
    return group.open_of(jobs) - ordered - group.exported
