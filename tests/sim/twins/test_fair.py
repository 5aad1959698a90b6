"""Max-min fair rates and the flow network: the conditions that define it, a naive solver, and SPEC section 7's case."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.sim.kernel.clock import Clock
from diana.sim.scenario.topology import Path
from diana.sim.twins.fair import Floats, max_min
from diana.sim.twins.flow_network import Flow, FlowNetwork
from diana.sim.twins.pipes import STREAMS, Pipe, Routed

SPEC_LINKS = (100e6, 100e6, 100e6)
A_TO_C, B_TO_C = (0, 2), (1, 2)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], list[Path], list[int]]:
    """Capacities, paths, flows of each path."""
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.5, 100.0, 1e9]), min_size=1, max_size=6))
    link = st.integers(0, len(capacity) - 1)
    path = st.lists(link, min_size=1, max_size=len(capacity), unique=True).map(tuple)
    paths = draw(st.lists(path, min_size=1, max_size=8))
    flows = draw(st.lists(st.integers(0, 5), min_size=len(paths), max_size=len(paths)))
    return capacity, paths, flows


def solved(capacity: list[float], paths: list[Path], flows: list[int]) -> Floats:
    link = np.array([one for path in paths for one in path], dtype=np.int64)
    lane = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    return max_min(np.array(capacity), link, lane, np.array(flows, dtype=np.float64))


def naive(capacity: list[float], paths: list[Path]) -> list[float]:
    """Raise all rates together; who meets a full link stops."""
    rate, growing = [0.0] * len(paths), set(range(len(paths)))
    while growing:
        room = {
            link: (whole - sum(rate[i] for i, path in enumerate(paths) if link in path))
            / sum(link in paths[i] for i in growing)
            for link, whole in enumerate(capacity)
            if any(link in paths[i] for i in growing)
        }
        step = min(room.values())
        for i in growing:
            rate[i] += step
        full = {link for link, left in room.items() if left <= step * (1 + 1e-9) + 1e-12 * capacity[link]}
        growing = {i for i in growing if not full & set(paths[i])}
    return rate


@given(cases())
def test_no_link_is_over_capacity_and_every_flow_has_a_bottleneck(
    case: tuple[list[float], list[Path], list[int]],
) -> None:
    capacity, paths, flows = case
    rate = solved(*case)
    used = [
        sum(n * rate[i] for i, (p, n) in enumerate(zip(paths, flows, strict=True)) if k in p)
        for k in range(len(capacity))
    ]
    assert all(u <= whole * (1 + 1e-9) for u, whole in zip(used, capacity, strict=True))
    for i, (path, n) in enumerate(zip(paths, flows, strict=True)):
        if not n:
            assert rate[i] == 0
            continue
        assert any(
            used[k] >= capacity[k] * (1 - 1e-9)
            and rate[i] * (1 + 1e-9) >= max(rate[j] for j, other in enumerate(paths) if k in other and flows[j])
            for k in path
        )


@given(cases())
def test_the_solver_agrees_with_a_naive_one(case: tuple[list[float], list[Path], list[int]]) -> None:
    capacity, paths, flows = case
    single = [path for path, n in zip(paths, flows, strict=True) for _ in range(n)]
    wanted = [rate for rate, n in zip(solved(*case).tolist(), flows, strict=True) for _ in range(n)]
    assert naive(capacity, single) == pytest.approx(wanted, rel=1e-6)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_flows_changes_no_rate(case: tuple[list[float], list[Path], list[int]], rng: Random) -> None:
    capacity, paths, flows = case
    order = list(range(len(paths)))
    rng.shuffle(order)
    shuffled = solved(capacity, [paths[i] for i in order], [flows[i] for i in order])
    assert shuffled.tolist() == pytest.approx([solved(*case)[i] for i in order], rel=1e-12)


class Run:
    """A flow network, and when which of its flows ended."""

    def __init__(self, capacity: tuple[float, ...] | list[float]) -> None:
        self.clock = Clock()
        self.network = FlowNetwork(self.clock, capacity)
        self.ended_s: dict[int, float] = {}

    def start(self, name: int, path: Path, size_bytes: float, latency_s: float = 0.0) -> Flow:
        return self.network.start(path, size_bytes, self._ended, name, latency_s=latency_s)

    def _ended(self, name: int) -> None:
        assert name not in self.ended_s
        self.ended_s[name] = self.clock.now_s

    def to_end(self) -> dict[int, float]:
        while self.clock.step():
            pass
        return self.ended_s


def test_two_flows_over_a_shared_link_end_as_in_simgrid() -> None:
    run = Run(SPEC_LINKS)
    run.start(0, A_TO_C, 1000e6, latency_s=0.02)
    run.start(1, B_TO_C, 500e6, latency_s=0.02)
    assert run.to_end() == {1: pytest.approx(10.020, abs=1e-9), 0: pytest.approx(15.020, abs=1e-9)}


def test_a_flow_that_comes_later_halves_the_rate_and_gives_it_back() -> None:
    run = Run([100.0])
    run.start(0, (0,), 1000.0)
    run.clock.at(2.0, run.start, 1, (0,), 300.0)
    run.clock.run_until(3.0)
    assert run.network.rates() == {(0,): 50.0}
    assert run.to_end() == {1: pytest.approx(8.0), 0: pytest.approx(13.0)}


def test_a_flow_that_is_stopped_leaves_its_share_and_nobody_is_told() -> None:
    run = Run(SPEC_LINKS)
    run.start(0, A_TO_C, 1000e6)
    other = run.start(1, B_TO_C, 500e6)
    late = run.start(2, B_TO_C, 500e6, latency_s=1.0)
    run.clock.at(0.5, run.network.stop, late)
    run.clock.at(4.0, run.network.stop, other)
    run.clock.at(5.0, run.network.stop, other)
    assert run.to_end() == {0: pytest.approx(12.0)}


def test_what_hangs_together_by_no_link_is_not_solved_again() -> None:
    run = Run([10.0] * 8)
    for link in range(8):
        run.start(link, (link,), 100.0)
    run.clock.run_until(1.0)
    before = run.network.solved
    run.start(8, (3,), 10.0)
    run.clock.run_until(1.0)
    assert (before, run.network.solved) == (8, 9)


def test_flows_of_one_instant_are_solved_once_and_an_empty_one_ends_at_once() -> None:
    run = Run([10.0, 10.0])
    for name in range(100):
        run.start(name, ((0, 1), (1,))[name % 2], 0.0 if name == 7 else 100.0)
    run.clock.run_until(0.0)
    assert run.network.solved == 2 and run.ended_s == {7: 0.0}
    assert set(run.to_end()) == set(range(100))


@settings(deadline=None)
@given(cases(), st.lists(st.tuples(st.integers(0, 7), st.floats(0, 9), st.floats(0, 500), st.booleans()), max_size=25))
def test_bytes_are_conserved_and_no_link_ever_moves_more_than_it_can(
    case: tuple[list[float], list[Path], list[int]], wanted: list[tuple[int, float, float, bool]]
) -> None:
    """Between any two events rates times time add up to what was to move, also when some flows are stopped."""
    capacity, paths, _ = case
    run = Run(capacity)
    lane_of, moved, stopped = {}, dict.fromkeys(range(len(wanted)), 0.0), set()
    begun: set[int] = set()

    def begin(name: int, path: Path, size: float, stops: bool) -> None:
        begun.add(name)
        lane_of[name] = path
        flow = run.start(name, path, size)
        if stops:
            run.clock.after(1.0, halt, name, flow)

    def halt(name: int, flow: Flow) -> None:
        if name not in run.ended_s:
            stopped.add(name)
        run.network.stop(flow)

    for name, (which, at_s, size, stops) in enumerate(wanted):
        run.clock.at(at_s, begin, name, paths[which % len(paths)], size, stops)
    now_s, more = 0.0, True
    while more:
        rates = run.network.rates()
        live = begun - run.ended_s.keys() - stopped
        for link, whole in enumerate(capacity):
            assert sum(rates[lane_of[name]] for name in live if link in lane_of[name]) <= whole * (1 + 1e-9)
        more = run.clock.step()
        for name in live:
            moved[name] += rates[lane_of[name]] * (run.clock.now_s - now_s)
        now_s = run.clock.now_s
    assert run.ended_s.keys() | stopped == set(range(len(wanted)))
    for name in run.ended_s:
        assert moved[name] == pytest.approx(wanted[name][2], rel=1e-6, abs=1e-3)


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 10_000)), max_size=12))
def test_a_route_of_one_link_moves_bytes_as_a_pipe_does(wanted: list[tuple[float, int]]) -> None:
    """The pair of sites with a link of its own is the special case of a route."""
    ends: list[dict[int, float]] = []
    for routed in (False, True):
        clock, ended = Clock(), dict[int, float]()
        mover = Routed(FlowNetwork(clock, [1000.0]), (0,)) if routed else Pipe(clock, 1000.0)

        def done(name: int, clock: Clock = clock, ended: dict[int, float] = ended) -> None:
            ended[name] = clock.now_s

        for name, (at_s, size) in enumerate(wanted):
            clock.at(at_s, mover.move, size, done, name)
        while clock.step():
            pass
        ends.append(ended)
    assert sorted(ends[0].values()) == pytest.approx(sorted(ends[1].values()), abs=1e-6)


def test_over_a_route_too_a_site_opens_two_streams_and_forgets_what_is_void() -> None:
    clock, ended = Clock(), dict[str, float]()
    routed = Routed(FlowNetwork(clock, SPEC_LINKS), A_TO_C)
    for name in "abcd":
        routed.move(100_000_000, lambda name: ended.update({name: clock.now_s}), name)
    clock.at(1.0, routed.forget, lambda name: name in "ac")
    clock.run_until(60.0)
    assert STREAMS == 2 and ended == {"b": pytest.approx(2.0), "d": pytest.approx(2.5)}


def test_a_flow_that_is_forgotten_in_the_moment_it_ends_tells_nobody() -> None:
    """Two end at once, and the end of the first takes a site down whose flows are forgotten."""
    clock = Clock()
    mover = Routed(FlowNetwork(clock, [1000.0]), (0,))
    ended: list[str] = []

    def end(name: str) -> None:
        ended.append(name)
        mover.forget(lambda other: other != name)

    for name in ("one", "two"):
        mover.move(1000, end, name)
    clock.run_until(10.0)
    assert ended == ["one"]
