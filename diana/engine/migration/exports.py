"""The jobs of a group that may leave the site they wait at (SPEC D7)."""

from __future__ import annotations

from diana.engine.journal.state import Group, Step, Subgroup
from diana.model.indexset import IndexSet


def may_move(subgroup: Subgroup) -> bool:
    """True if the part was taken by its site, which is in reach, and was never exported before."""
    return subgroup.step is Step.COMMITTED and not subgroup.unreachable and not subgroup.exported


def still_there(group: Group, subgroup: Subgroup) -> IndexSet:
    """Return the part's jobs that have no result, were never exported and have no other order; the merge, which stays,
    is left out."""
    ordered = subgroup.cancelling | subgroup.holding | subgroup.recalled
    jobs = subgroup.indices & IndexSet.span(0, group.jobs)
    return group.open_of(jobs) - ordered - group.exported
