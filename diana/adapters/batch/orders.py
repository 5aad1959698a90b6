"""Makes orders for arrays, one each, from what the engine orders."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from diana.adapters.batch.array.script import longer_grace_s, varies
from diana.adapters.batch.systems.system import ClusterCapacity
from diana.adapters.lrm.plans import Plans
from diana.adapters.lrm.prepare import PreparedOrder, Preparer, Unready
from diana.adapters.lrm.render import Renderer
from diana.adapters.lrm.software import Software
from diana.adapters.lrm.spawner.protocol import Order
from diana.engine.journal.effects import Start
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.resources import ResourceRequest, lacking, of_job
from diana.model.job.software import MPI
from diana.model.job.spec import GroupSpec

_log = logging.getLogger("diana.batch")
_VARYING_TASKS = 1000
"""Most tasks of an array whose runs have text of their own: each task reads all of it."""


class Orders:
    def __init__(self, plans: Plans, preparer: Preparer, cluster: str) -> None:
        self._plans = plans
        self._preparer = preparer
        self._cluster = cluster

    def use(self, software: Software) -> None:
        self._plans.use(software)

    def of(self, start: Start, indices: list[int], has: ClusterCapacity | None) -> tuple[list[Order], list[Unready]]:
        """Return orders for arrays of at most as many tasks as they may have, and runs that cannot start. Blocks."""
        most = has.most_tasks if has is not None else _VARYING_TASKS
        attempts = dict(start.attempts)
        try:
            if why := self._too_much(start, has):
                raise ValueError(why)
            renderer, grace_s = self._plans.renderer(start), self._preparer.grace_s(start.spec)
            if not self._plans.needs_disk(start):
                name = (start.subgroup, start.epoch)
                whole = renderer.order(
                    *name, indices, attempts, directory=start.directory, lease=start.lease, grace_s=grace_s
                )
                if not varies(whole):
                    return [_part(whole, at, most) for at in range(0, len(indices), most)], []
        except (ValueError, LookupError) as fault:
            return [], self._preparer.refuse(start, indices, str(fault)).unready
        orders: list[Order] = []
        unready: list[Unready] = []
        most = min(most, _VARYING_TASKS)
        for at in range(0, len(indices), most):
            prepared = self._prepared(start, renderer, indices[at : at + most])
            orders += [prepared.order] if prepared.order is not None else []
            unready += prepared.unready
        return orders, unready

    def _prepared(self, start: Start, renderer: Renderer, indices: list[int]) -> PreparedOrder:
        try:
            return self._preparer.prepare(start, renderer, indices)
        except ValueError as fault:
            return self._preparer.refuse(start, indices, str(fault))
        except Exception as fault:
            # Only these jobs are refused: others must not wait for them for ever.
            _log.critical("%s: jobs could not be prepared", start.subgroup, exc_info=True)
            return self._preparer.refuse(start, indices, f"internal error ({fault!r}); see the node's log")

    def _too_much(self, start: Start, has: ClusterCapacity | None) -> str:
        """Return what a job wants that no machine there has; empty: nothing. Some batch systems would let it wait
        for ever."""
        wants = start.spec.resources
        if has is None:
            return ""
        request = ResourceRequest(wants.processors, of_job(wants), (MPI,) if start.spec.mpi else ())
        for lack in lacking(request, has.offer):
            return f"cluster {self._cluster} {lack.why}"
        longer_s = longer_grace_s(self._preparer.grace_s(start.spec))
        if 0 < has.time_limit_s < wants.time_limit_s + longer_s:
            with_grace = f" with {longer_s:g} s of grace more" if longer_s else ""
            limit = f"its time limit is {wants.time_limit_s:g} s{with_grace}"
            return f"on cluster {self._cluster} a job has at most {has.time_limit_s:g} s, {limit}"
        return ""


def together(starts: list[Start]) -> list[Start]:
    """Join orders for the same subgroup."""
    found: dict[tuple[SubgroupId, int, str, str, float, GroupSpec], Start] = {}
    for start in starts:
        key = (start.subgroup, start.epoch, start.directory, start.lease, start.barrier_s, start.spec)
        before = found.get(key)
        if before is None:
            found[key] = start
        else:
            found[key] = replace(
                start,
                indices=IndexSet.union((before.indices, start.indices)),
                attempts=(*before.attempts, *start.attempts),
                saved=(*before.saved, *start.saved),
            )
    return list(found.values())


def _part(whole: Order, at: int, most: int) -> Order:
    """Return some of an order whose runs differ by their index alone."""
    return replace(whole, indices=whole.indices[at : at + most], attempts=whole.attempts[at : at + most])
