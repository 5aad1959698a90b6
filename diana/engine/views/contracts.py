"""Contracts of a group's running jobs, as its origin follows them."""

from __future__ import annotations

from diana.engine.journal.state import Group
from diana.engine.migration import rescheduling
from diana.engine.site.context import Context
from diana.model.views.contract import JobContract

MOST_SHOWN = 100
"""Jobs of a group that are told; the slowest come first."""


def told(core: Context, group: Group) -> tuple[JobContract, ...]:
    rows = [
        JobContract(
            index=one.told.index,
            attempt=one.told.attempt,
            site=one.part.site,
            done=one.told.done,
            total=one.told.total,
            last_ratio=one.kept.last,
            mean_ratio=one.kept.mean,
            state=one.kept.state,
            remaining_s=one.kept.remaining_s,
            relaxed=one.relaxed,
        )
        for one in rescheduling.running(core, group)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.mean_ratio, row.index))[:MOST_SHOWN])
