"""Components of gangs at a cluster: the engine is told which wait at their barriers, and lets them go.

To let go takes a thread of its own: the cluster's may be waiting for the batch system, while components at other sites
begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from diana.adapters.batch.book import HeldRun
from diana.engine.journal.effects import Go
from diana.engine.journal.events import AtBarrier, Run
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job import gang
from diana.ports import Emit


class ClusterBarrier:
    """Belongs to the loop. `check`: blocks, and raises where another machine feeds the cluster."""

    def __init__(self, worker: str, emit: Emit, check: Callable[[], None]) -> None:
        self._worker = worker
        self._emit = emit
        self._check = check
        self._held: dict[tuple[SubgroupId, int, int], HeldRun] = {}
        self._thread = ThreadPoolExecutor(1, f"barrier-{worker}")

    def close(self) -> None:
        """Stop, after what it is at."""
        self._thread.shutdown()

    def tell(self, held: Iterable[HeldRun], *, all_: bool = False) -> None:
        """Tell the engine of runs at their barriers; `all_`: there are no others."""
        if all_:
            self._held.clear()
        together: dict[tuple[SubgroupId, int, str], list[HeldRun]] = {}
        for one in held:
            self._held[one.run.subgroup, one.run.epoch, one.run.index] = one
            host = one.host if gang.is_host(one.host, one.port) else ""
            together.setdefault((one.run.subgroup, one.run.epoch, host), []).append(one)
        for (subgroup, epoch, host), some in together.items():
            runs: tuple[Run, ...] = tuple(one.run for one in some)
            self._emit(
                AtBarrier(worker=self._worker, subgroup=subgroup, epoch=epoch, runs=runs, host=host, port=some[0].port)
            )

    def drop(self, subgroup: SubgroupId, epoch: int, indices: IndexSet) -> None:
        """Let none of these runs go any more: they are killed, or called back."""
        for key in [key for key in self._held if key[:2] == (subgroup, epoch) and key[2] in indices]:
            del self._held[key]

    async def go(self, order: Go) -> None:
        """Let those of the order's runs go that wait. OSError; `ArraysElsewhere`."""
        some: list[tuple[HeldRun, list[tuple[str, str]]]] = []
        for index in order.indices:
            if held := self._held.get((order.subgroup, order.epoch, index)):
                some.append((held, gang.of_rank(order.environment, index % order.size, order.size)))
        if some:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go, some)

    def _let_go(self, some: list[tuple[HeldRun, list[tuple[str, str]]]]) -> None:
        self._check()
        for held, environment in some:
            held.barrier.let_go(held.task, environment)
