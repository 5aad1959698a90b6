"""Many seeds over all cores. A run depends on nothing but its seed, so neither do the reports, nor their order."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

import msgspec

from diana.sim.report.report import Report
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import Watch, simulate

AT_ONCE = 4
"""Seeds a process takes in one go."""


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def reports(scenario: Scenario, seeds: range, workers: int = 0, watch: Watch | None = None) -> Iterator[Report]:
    """Reports in the order of the seeds. `workers`: processes, 0: one per core. All reports but the first bring what
    `diana simulate` adds up, not the groups' plans and decisions. `watch` sees the world of the first seed."""
    workers = min(workers or cores(), 1 + (len(seeds) - 1) // AT_ONCE)
    if workers <= 1:
        yield simulate(scenario, seeds[0], watch=watch)
        for seed in seeds[1:]:
            yield slim(simulate(scenario, seed))
        return
    with _processes().Pool(workers, _work_on, (scenario,)) as pool:
        rest = pool.imap(_encoded, seeds[1:], AT_ONCE)
        yield simulate(scenario, seeds[0], watch=watch)
        for encoded in rest:
            yield msgspec.msgpack.decode(encoded, type=Report)


def each(do: Callable[[_Task], _Result], tasks: Sequence[_Task], workers: int = 0) -> Iterator[_Result]:
    """Results of `do` for every task, in their order; all can be pickled. A result depends on its task alone."""
    workers = min(workers or cores(), len(tasks))
    if workers <= 1:
        yield from map(do, tasks)
        return
    with _processes().Pool(workers, _work_with, (do,)) as pool:
        yield from pool.imap(_done, tasks)


def _processes() -> BaseContext:
    """Forked, so that what they work on need not be sent; a process with threads of gRPC's own, which hold locks when
    it forks, starts them anew."""
    return multiprocessing.get_context("spawn" if "grpc" in sys.modules else "fork")


_do: Callable[[Any], Any]
"""Function that a process of the pool calls for each task."""


def _work_with(do: Callable[[Any], Any]) -> None:
    global _do
    _do = do
    gc.freeze()
    gc.disable()


def _done(task: Any) -> Any:
    result = _do(task)
    gc.collect()
    return result


_scenario: Scenario
"""Scenario that a process of the pool runs."""


def _work_on(scenario: Scenario) -> None:
    global _scenario
    _scenario = scenario
    # A world is one heap of cycles that dies as a whole: looking for garbage while it lives costs a tenth of the time.
    gc.freeze()
    gc.disable()


def _encoded(seed: int) -> bytes:
    encoded = msgspec.msgpack.encode(slim(simulate(_scenario, seed)))
    if seed % AT_ONCE == 0:
        gc.collect()
    return encoded


def slim(report: Report) -> Report:
    """Drop from a report what only the first seed's report shows, and return it."""
    report.decisions, report.plans, report.arrivals = {}, [], []
    return report
