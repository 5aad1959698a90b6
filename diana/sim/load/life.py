"""The life of a job in the simulation: how long it truly runs, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from diana.engine.journal.events import Run
from diana.model.job.spec import GroupSpec


class JobLife(msgspec.Struct, frozen=True):
    """The fate that the workload has in store for one job."""

    run_s: float
    exit_code: int = 0
    output_bytes: int = 0
    slowdown: tuple[float, ...] = ()
    """Factors of `run_s` where its gang runs over 1, 2, 3, ... sites; none: it is as fast over many."""


LifeOf = Callable[[Run, GroupSpec], JobLife]


def black_hole(run: Run, spec: GroupSpec) -> JobLife:
    """The life of any job at a site that is broken."""
    return JobLife(0.01, exit_code=1)
