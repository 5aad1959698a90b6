"""Flows over routes of several links, with max-min fair rates, under virtual time.

Rates change only when a flow begins or ends, and only in the part of the network it hangs together with. All flows of
one path have one rate, so a part keeps per path (a lane) how many bytes each flow of it was served, and a heap of the
values at which flows end: what a change costs grows with paths, not with flows. All that begins or ends at one instant
is solved once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from diana.sim.kernel.clock import Clock
from diana.sim.scenario.topology import Path
from diana.sim.twins.fair import max_min


class Flow:
    """One transfer on its way; a handle for `FlowNetwork.stop`."""

    __slots__ = ("arguments", "done", "ends_at_bytes", "lane", "live", "number", "size_bytes")

    def __init__(
        self, number: int, lane: _Lane, size_bytes: float, done: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        self.number = number
        self.lane = lane
        self.size_bytes = size_bytes
        self.ends_at_bytes = -1.0
        """Bytes that its lane has served each flow by the time this one ends; negative: it has not begun."""
        self.done = done
        self.arguments = arguments
        self.live = True


class _Lane:
    """All flows of one path."""

    __slots__ = ("flows", "heap", "path", "row")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.flows = 0
        """Flows that move now; `heap` may still hold some that were stopped."""
        self.heap: list[tuple[float, int, Flow]] = []
        self.row = -1
        """Row in its part; -1: in none yet."""

    def head_bytes(self) -> float:
        """Bytes that the lane has served each flow when the next one ends; infinite: there is none."""
        heap = self.heap
        while heap and not heap[0][2].live:
            heappop(heap)
        return heap[0][0] if heap else np.inf


class _Part:
    """Lanes that hang together by links; at least those that do now, for lanes without flows stay a while."""

    __slots__ = ("capacity", "flows", "head", "lanes", "link", "owner", "rate", "round", "seen_s", "served")

    def __init__(self, lanes: list[_Lane], bytes_per_s: Sequence[float], now_s: float) -> None:
        self.lanes = lanes
        links = list(dict.fromkeys(link for lane in lanes for link in lane.path))
        local = {link: number for number, link in enumerate(links)}
        self.link = np.array([local[link] for lane in lanes for link in lane.path], dtype=np.int64)
        self.owner = np.repeat(np.arange(len(lanes), dtype=np.int64), [len(lane.path) for lane in lanes])
        self.capacity = np.array([bytes_per_s[link] for link in links], dtype=np.float64)
        self.flows = np.zeros(len(lanes))
        self.served = np.zeros(len(lanes))
        self.rate = np.zeros(len(lanes))
        self.head = np.full(len(lanes), np.inf)
        self.seen_s = now_s
        self.round = 0

    def advance(self, now_s: float) -> None:
        if now_s > self.seen_s:
            self.served += self.rate * (now_s - self.seen_s)
            self.seen_s = now_s

    def next_row(self) -> tuple[int, float]:
        """The lane whose flow ends next, and in how many seconds; infinite: none flows."""
        left_s = np.full(len(self.lanes), np.inf)
        np.divide(np.maximum(self.head - self.served, 0.0), self.rate, out=left_s, where=self.rate > 0)
        row = int(left_s.argmin())
        return row, float(left_s[row])


class FlowNetwork:
    """`bytes_per_s`: of each directed link, more than 0. Callbacks come in the order in which their flows were
    started."""

    def __init__(self, clock: Clock, bytes_per_s: Sequence[float]) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._lanes: dict[Path, _Lane] = {}
        self._part_of: dict[int, _Part] = {}
        """Part by link."""
        self._fresh: dict[Path, _Lane] = {}
        """Lanes with flows and in no part yet."""
        self._touched: dict[int, _Part] = {}
        """Parts whose rates no longer hold, by one of their links."""
        self._flushing = False
        self._started = 0
        self.solved = 0
        """Number of times that rates were computed."""

    def start(
        self, path: Path, size_bytes: float, done: Callable[..., None], *arguments: Any, latency_s: float = 0.0
    ) -> Flow:
        """Move `size_bytes` over `path`, beginning after `latency_s`, once per flow; then call `done(*arguments)`."""
        lane = self._lanes.get(path)
        if lane is None:
            lane = self._lanes[path] = _Lane(path)
        self._started += 1
        flow = Flow(self._started, lane, size_bytes, done, arguments)
        if latency_s > 0:
            self._clock.after(latency_s, self._enter, flow)
        else:
            self._enter(flow)
        return flow

    def stop(self, flow: Flow) -> None:
        """Stop a flow: nobody is told, and the bytes it has moved are lost. A flow that ended is left alone."""
        if not flow.live:
            return
        flow.live = False
        lane = flow.lane
        if flow.ends_at_bytes < 0:
            return
        lane.flows -= 1
        if lane.row >= 0:
            part = self._part_of[lane.path[0]]
            part.flows[lane.row] = lane.flows
            part.head[lane.row] = lane.head_bytes()
            self._touch(part)

    def _enter(self, flow: Flow) -> None:
        if not flow.live:
            return
        lane = flow.lane
        lane.flows += 1
        served = 0.0
        part = self._part_of[lane.path[0]] if lane.row >= 0 else None
        if part is not None:
            part.advance(self._clock.now_s)
            # Small values keep their digits.
            served = float(part.served[lane.row]) if lane.flows > 1 else 0.0
        flow.ends_at_bytes = served + flow.size_bytes
        heappush(lane.heap, (flow.ends_at_bytes, flow.number, flow))
        if part is None:
            self._fresh[lane.path] = lane
            self._arm_flush()
        else:
            part.served[lane.row] = served
            part.flows[lane.row] = lane.flows
            part.head[lane.row] = lane.head_bytes()
            self._touch(part)

    def _touch(self, part: _Part) -> None:
        self._touched[part.lanes[0].path[0]] = part
        self._arm_flush()

    def _arm_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._clock.after(0.0, self._flush)

    def _flush(self) -> None:
        """New rates for all that this instant changed."""
        self._flushing = False
        now_s = self._clock.now_s
        fresh, self._fresh = self._fresh, {}
        joined = {}
        for lane in fresh.values():
            for link in lane.path:
                if (part := self._part_of.get(link)) is not None:
                    joined[part.lanes[0].path[0]] = part
        touched, self._touched = self._touched, {}
        if fresh:
            for part in self._rebuilt(list(joined.values()), list(fresh.values()), now_s):
                touched[part.lanes[0].path[0]] = part
        for part in touched.values():
            if part.round < 0:
                continue
            idle = int((part.flows == 0).sum())
            if 8 < len(part.lanes) < 2 * idle:
                for smaller in self._rebuilt([part], [], now_s):
                    self._solve(smaller, now_s)
            else:
                self._solve(part, now_s)

    def _rebuilt(self, parts: list[_Part], fresh: list[_Lane], now_s: float) -> list[_Part]:
        """These parts and lanes, parted anew by what hangs together; lanes without flows are let go when they are
        many."""
        served: dict[Path, float] = {}
        lanes: list[_Lane] = []
        for part in parts:
            part.advance(now_s)
            part.round = -1
            for link in {link for lane in part.lanes for link in lane.path}:
                del self._part_of[link]
            live = part.flows > 0
            some = bool(2 * live.sum() >= len(part.lanes))
            for lane, moves, done in zip(part.lanes, live.tolist(), part.served.tolist(), strict=True):
                if moves or some:
                    lanes.append(lane)
                    served[lane.path] = done
                else:
                    lane.row = -1
        made = []
        for group in _connected([*lanes, *fresh]):
            part = _Part(group, self._bytes_per_s, now_s)
            for row, lane in enumerate(group):
                lane.row = row
                part.served[row] = served.get(lane.path, 0.0)
                part.head[row] = lane.head_bytes()
                part.flows[row] = lane.flows
                self._part_of.update(dict.fromkeys(lane.path, part))
            made.append(part)
        return made

    def _solve(self, part: _Part, now_s: float) -> None:
        part.advance(now_s)
        self.solved += 1
        part.rate = max_min(part.capacity, part.link, part.owner, part.flows)
        self._arm(part)

    def _arm(self, part: _Part) -> None:
        part.round += 1
        row, left_s = part.next_row()
        if left_s < np.inf:
            self._clock.after(left_s, self._due, part, part.round, row)

    def _due(self, part: _Part, round_: int, row: int) -> None:
        if part.round != round_:
            return
        part.advance(self._clock.now_s)
        # The flow this was set for ends, whatever rounding says, and with it all that have no byte left.
        part.served[row] = part.head[row]
        ended: list[Flow] = []
        for at in np.flatnonzero(part.head <= part.served).tolist():
            lane = part.lanes[at]
            while lane.head_bytes() <= part.served[at]:
                _, _, flow = heappop(lane.heap)
                flow.live = False
                lane.flows -= 1
                ended.append(flow)
            part.flows[at] = lane.flows
            part.head[at] = lane.head_bytes()
        self._touch(part)
        for flow in sorted(ended, key=lambda f: f.number):
            flow.done(*flow.arguments)

    def rates(self) -> dict[Path, float]:
        """Bytes per second of a flow of each path on which some move now."""
        if self._flushing:
            self._flush()
        parts = {id(part): part for part in self._part_of.values()}
        return {
            lane.path: float(part.rate[row])
            for part in parts.values()
            for row, lane in enumerate(part.lanes)
            if part.flows[row] > 0
        }


def _connected(lanes: Iterable[_Lane]) -> list[list[_Lane]]:
    """Groups that share no link with each other, in the order of their first lanes."""
    above: dict[int, int] = {}

    def top(link: int) -> int:
        while (up := above.setdefault(link, link)) != link:
            above[link] = above[up]
            link = up
        return link

    lanes = list(lanes)
    for lane in lanes:
        first = top(lane.path[0])
        for link in lane.path[1:]:
            above[top(link)] = first
    groups: dict[int, list[_Lane]] = {}
    for lane in lanes:
        groups.setdefault(top(lane.path[0]), []).append(lane)
    return list(groups.values())
