"""The stager's twin: files move over links whose flows share the bandwidth evenly; a site keeps what it fetched.

A transfer whose source is down or cut off waits and tries the next source; it never fails by that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from diana.engine.effects import Gather, LookUp, StageIn
from diana.engine.events import LookedUp, StageDone
from diana.model.data import DataFile, Dataset, dataset_of
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.ports import Emit
from diana.sim.clock import Clock
from diana.sim.faults import Faults
from diana.sim.network import Network

RETRY_S = 1.0


class Pipe:
    """One direction of a link. All flows have the same rate, so each ends when the bytes one flow has had since the
    pipe was built (`_level`) reach its own mark: a heap of marks, whatever the number of flows."""

    __slots__ = ("_bytes_per_s", "_clock", "_flows", "_level", "_round", "_seen_s", "_sequence")

    def __init__(self, clock: Clock, bytes_per_s: float) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._flows: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._level = 0.0
        self._seen_s = 0.0
        self._sequence = 0
        self._round = 0

    def move(self, size_bytes: int, done: Callable[..., None], *arguments: Any) -> None:
        self._advance()
        self._sequence += 1
        heappush(self._flows, (self._level + size_bytes, self._sequence, done, arguments))
        self._arm()

    def _advance(self) -> None:
        now_s = self._clock.now_s
        if self._flows:
            self._level += (now_s - self._seen_s) * self._bytes_per_s / len(self._flows)
        self._seen_s = now_s

    def _arm(self) -> None:
        self._round += 1
        if self._flows:
            left = max(0.0, self._flows[0][0] - self._level)
            self._clock.after(left * len(self._flows) / self._bytes_per_s, self._due, self._round)

    def _due(self, round_: int) -> None:
        if round_ != self._round:
            return
        self._advance()
        _, _, done, arguments = heappop(self._flows)
        self._arm()
        done(*arguments)


class Pipes:
    """All links' directions, made when first used."""

    __slots__ = ("_clock", "_network", "_pipes")

    def __init__(self, clock: Clock, network: Network) -> None:
        self._clock = clock
        self._network = network
        self._pipes: dict[tuple[SiteId, SiteId], Pipe] = {}

    def between(self, source: SiteId, to: SiteId) -> Pipe:
        pipe = self._pipes.get((source, to))
        if pipe is None:
            pipe = self._pipes[(source, to)] = Pipe(self._clock, self._network.link(source, to).bytes_per_s)
        return pipe


class _Task:
    """One ticket: what is still wanted, what has moved."""

    __slots__ = ("at", "key", "moved", "ticket", "wanted")

    def __init__(self, ticket: int, wanted: list[tuple[str, int, tuple[SiteId, ...]]], key: FactsKey | None) -> None:
        self.ticket = ticket
        self.wanted = wanted
        """(ref, bytes, sources); an empty ref is a batch of outputs."""
        self.at = 0
        self.moved = 0
        self.key = key


class SimStager:
    """Stager of one site. `disk` and `gathered` outlive a crash of the node; what was on its way does not."""

    def __init__(self, clock: Clock, site: SiteId, pipes: Pipes, network: Network, faults: Faults) -> None:
        self._clock = clock
        self._site = site
        self._pipes = pipes
        self._network = network
        self._faults = faults
        self._emit: Emit | None = None
        self._tasks: dict[int, _Task] = {}
        self.disk: set[str] = set()
        """Refs that were fetched or are registered here; a whole dataset stands for all its files."""
        self._units: dict[str, DataFile] = {}
        """What is registered here, by ref."""
        self.gathered: set[FactsKey] = set()
        self.dropped: set[FactsKey] = set()
        self.bytes_in = 0
        self.peers: dict[SiteId, SimStager] = {}
        """The other sites' stagers, given by whoever builds them."""

    def attach(self, emit: Emit) -> None:
        self._emit = emit

    def detach(self) -> None:
        self._emit = None
        self._tasks.clear()

    def register(self, dataset: Dataset, files: Iterable[DataFile]) -> None:
        for unit in (dataset.unit, *files):
            self._units[unit.ref] = unit
            self.disk.add(unit.ref)

    # --- port ------------------------------------------------------------------------------------------

    def look_up(self, order: LookUp) -> None:
        found = tuple(self._units[ref] for ref in order.refs if ref in self._units)
        others = [ref for ref in order.refs if ref not in self._units]
        known = {dataset_of(ref) for ref in self._units}
        unknown = tuple(ref for ref in others if dataset_of(ref) in known)
        self._clock.after(0.0, self._told, LookedUp(ticket=order.ticket, found=found, unknown=unknown))

    def _told(self, answer: LookedUp) -> None:
        if self._emit is not None:
            self._emit(answer)

    def stage_in(self, order: StageIn) -> None:
        wanted = [(f.file.ref, f.file.size_bytes, f.sources) for f in order.files]
        self._begin(_Task(order.ticket, wanted, None))

    def gather(self, order: Gather, facts: Facts) -> None:
        here = order.source == self._site or order.key in self.gathered
        size = sum(f.size_bytes for f in facts.outputs)
        self._begin(_Task(order.ticket, [] if here else [("", size, (order.source,))], order.key))

    def cancel(self, ticket: int) -> None:
        self._tasks.pop(ticket, None)

    def drop_outputs(self, key: FactsKey, facts: Facts) -> None:
        self.dropped.add(key)

    def drop_subgroup(self, subgroup: SubgroupId) -> None:
        """Inputs stay cached."""

    def drop_group(self, group: GroupId) -> None:
        self.gathered = {k for k in self.gathered if k.group != group}
        self.dropped = {k for k in self.dropped if k.group != group}

    # --- moving ----------------------------------------------------------------------------------------

    def _begin(self, task: _Task) -> None:
        self._tasks[task.ticket] = task
        if self._faults.happens("stage_error"):
            self._clock.after(0.01, self._done, task, "a transfer failed (ordered by the simulation)")
        else:
            self._clock.after(0.001, self._next, task)

    def _current(self, task: _Task) -> bool:
        return self._tasks.get(task.ticket) is task

    def _next(self, task: _Task) -> None:
        """Start moving the first file that is not here; end the task when none is left."""
        if not self._current(task):
            return
        while task.at < len(task.wanted):
            ref, size, sources = task.wanted[task.at]
            if ref and (ref in self.disk or f"dataset:{dataset_of(ref)}" in self.disk):
                task.at += 1
                continue
            if not sources:
                self._done(task, f"{ref}: no site has it")
                return
            source = next((s for s in sources if self._network.reachable(self._site, s)), None)
            if source is None:
                self._clock.after(RETRY_S, self._next, task)
            else:
                self._pipes.between(source, self._site).move(size, self._arrived, task, source)
            return
        self._done(task, "")

    def _arrived(self, task: _Task, source: SiteId) -> None:
        if not self._current(task):
            return
        ref, size, _ = task.wanted[task.at]
        if self._network.reachable(self._site, source):
            if task.key is not None and task.key in self.peers[source].dropped:
                self._done(task, f"outputs of {task.key.subgroup} batch {task.key.batch} are gone at {source}")
                return
            if ref:
                self.disk.add(ref)
            self.bytes_in += size
            task.moved += size
            task.at += 1
        self._next(task)

    def _done(self, task: _Task, error: str) -> None:
        if not self._current(task):
            return
        del self._tasks[task.ticket]
        if task.key is not None and not error:
            self.gathered.add(task.key)
        if self._emit is not None:
            self._emit(StageDone(ticket=task.ticket, bytes_moved=task.moved, error=error))
