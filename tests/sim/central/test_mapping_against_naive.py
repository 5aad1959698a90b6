"""Min-min and sufferage map as the plain loops of the paper do, though they work out anew only what changed."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.sim.central.jobs import Items, Kind, Machines
from diana.sim.central.mapping import JobMapper, Mapped


class Case(NamedTuple):
    slots: list[int]
    speed: list[float]
    fetch_s: list[list[float]]
    """By item, then by machine; 0: it is there."""
    kinds: list[tuple[int, tuple[int, ...]]]
    """(processors, items)."""
    jobs: list[tuple[int, int, int]]
    """(kind, work in seconds, when it comes)."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    machines = draw(st.integers(1, 4))
    items = draw(st.integers(0, 2))
    kinds = draw(
        st.lists(
            st.tuples(st.integers(1, 2), st.sets(st.integers(0, items - 1)) if items else st.just(set[int]())),
            min_size=1,
            max_size=3,
        )
    )
    return Case(
        slots=[draw(st.integers(2, 3)) for _ in range(machines)],
        speed=[draw(st.sampled_from((1.0, 2.0))) for _ in range(machines)],
        fetch_s=[[0.0, *(float(draw(st.integers(1, 9))) for _ in range(machines - 1))] for _ in range(items)],
        kinds=[(processors, tuple(sorted(some))) for processors, some in kinds],
        jobs=draw(
            st.lists(
                st.tuples(st.integers(0, len(kinds) - 1), st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=8
            )
        ),
    )


class Naive:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.free = [[0.0] * slots for slots in case.slots]
        self.there = [[-inf if s == 0 else inf for s in row] for row in case.fetch_s]

    def end(self, job: int, machine: int, now_s: float) -> tuple[float, float]:
        kind, work, _ = self.case.jobs[job]
        processors, items = self.case.kinds[kind]
        starts = [now_s, sorted(self.free[machine])[processors - 1]]
        starts += [min(self.there[i][machine], now_s + self.case.fetch_s[i][machine]) for i in items]
        return max(starts), max(starts) + work / self.case.speed[machine]

    def take(self, job: int, machine: int, now_s: float) -> tuple[int, int, float, float]:
        start_s, end_s = self.end(job, machine, now_s)
        processors, items = self.case.kinds[self.case.jobs[job][0]]
        for item in items:
            self.there[item][machine] = min(self.there[item][machine], now_s + self.case.fetch_s[item][machine])
        early = sorted(one for one in self.free[machine] if one <= start_s)
        late = [one for one in self.free[machine] if one > start_s]
        self.free[machine] = [*early[: len(early) - processors], *late, *[end_s] * processors]
        return job, machine, start_s, end_s

    def map(self, policy: str, jobs: list[int], now_s: float) -> list[tuple[int, int, float, float]]:
        out, left = [], list(jobs)
        while left:
            rows = []
            for job in left:
                ends = [self.end(job, machine, now_s)[1] for machine in range(len(self.free))]
                best = ends.index(min(ends))
                others = [*ends[:best], *ends[best + 1 :]]
                key = ends[best] if policy == "min_min" else ends[best] - min(others, default=inf)
                rows.append((key, job, best))
            _, job, best = min(rows)
            out.append(self.take(job, best, now_s))
            left.remove(job)
        return out


def plain(mapped: list[Mapped]) -> list[tuple[int, int, float, float]]:
    return [(one.job, one.machine, one.start_s, one.end_s) for one in mapped]


@pytest.mark.wide
@settings(deadline=None, max_examples=300)
@given(cases(), st.sampled_from(("min_min", "sufferage")))
def test_the_mapper_maps_as_the_plain_loops_do(case: Case, policy: str) -> None:
    machines = Machines(
        np.arange(len(case.slots), dtype=np.int32),
        np.array(case.slots, np.int32),
        np.array(case.speed),
        tuple("abcd"[: len(case.slots)]),
    )
    items = Items(machines.site)
    for row in case.fetch_s:
        items.add(1.0, np.array(row))
    kinds = [Kind(processors, 1.0 / machines.speed, some) for processors, some in case.kinds]
    mapper = JobMapper(machines, kinds, items, [kind for kind, _, _ in case.jobs], [float(w) for _, w, _ in case.jobs])
    naive = Naive(case)
    for now_s in range(4):
        new = [number for number, (_, _, at_s) in enumerate(case.jobs) if at_s == now_s]
        got = plain(getattr(mapper, policy)(new, float(now_s)))
        assert got == naive.map(policy, new, float(now_s))
