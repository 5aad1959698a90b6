"""The stager's twin: files move over links whose flows share the bandwidth evenly; a site keeps what it fetched.

Its bounds are the real one's: orders at once, two streams from each other site.

A transfer whose source is down or cut off waits and tries the next source; it never fails by that alone.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from diana.engine.journal.effects import Gather, LookUp, RegisterOutputs, StageIn
from diana.engine.journal.events import LookedUp, OutputsInCatalogue, StageDone
from diana.model.data import DataFile, RegisteredDataset, dataset_of
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.ports import Emit
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.twins.network import Network
from diana.sim.twins.pipes import Pipes

RETRY_S = 1.0
REGISTER_S = 0.5
"""Seconds that finding and hashing a group's outputs takes."""
ORDERS = 16
"""Orders that fetch at once at a site; the real one's default."""

_Wanted = tuple[str, int, tuple[SiteId, ...]]
"""(ref, bytes, sources); an empty ref is a batch of outputs."""


class _Task:
    """One ticket: how much is still wanted, what has moved."""

    __slots__ = ("key", "left", "moved", "ticket", "wanted")

    def __init__(self, ticket: int, wanted: list[_Wanted], key: FactsKey | None) -> None:
        self.ticket = ticket
        self.wanted = wanted
        self.left = len(wanted)
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
        self._waiting: deque[_Task] = deque()
        self._working: set[int] = set()
        """Tickets that are worked on."""
        self._coming: dict[str, tuple[_Task, list[tuple[_Task, _Wanted]]]] = {}
        """Ref on its way -> the task that brings it, and the others that want it."""
        self.disk: set[str] = set()
        """Refs that were fetched or are registered here; a whole dataset stands for all its files."""
        self._units: dict[str, DataFile] = {}
        """Datasets and files that are registered here, by ref."""
        self._fetched: dict[str, DataFile] = {}
        """Replicas, by ref."""
        self._wanted: dict[str, DataFile] = {}
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
        self._waiting.clear()
        self._working.clear()
        self._coming.clear()
        self._pipes.forget(self._site, lambda task, *_: not self._current(task))

    def register(self, dataset: RegisteredDataset, files: Iterable[DataFile]) -> None:
        for unit in (dataset.unit, *files):
            self._units[unit.ref] = unit
            self.disk.add(unit.ref)

    # --- port ------------------------------------------------------------------------------------------

    def look_up(self, order: LookUp) -> None:
        found = tuple(self._units[ref] for ref in order.refs if ref in self._units)
        cached = tuple(self._fetched[ref] for ref in order.refs if ref in self._fetched)
        others = [ref for ref in order.refs if ref not in self._units]
        known = {dataset_of(ref) for ref in self._units}
        unknown = tuple(ref for ref in others if dataset_of(ref) in known)
        self._clock.after(0.0, self._told, LookedUp(ticket=order.ticket, found=found, cached=cached, unknown=unknown))

    def _told(self, answer: LookedUp) -> None:
        if self._emit is not None:
            self._emit(answer)

    def stage_in(self, order: StageIn) -> None:
        wanted = [(f.file.ref, f.file.size_bytes, f.sources) for f in order.files]
        self._wanted.update({f.file.ref: f.file for f in order.files if f.file.ref not in self._units})
        self._begin(_Task(order.ticket, wanted, None))

    def gather(self, order: Gather, facts: Facts, replaced: Sequence[OutputFile] = ()) -> None:
        here = order.source == self._site or order.key in self.gathered
        size = sum(f.size_bytes for f in facts.outputs)
        self._begin(_Task(order.ticket, [] if here else [("", size, (order.source,))], order.key))

    def register_outputs(self, order: RegisterOutputs, outputs: Callable[[], Iterator[OutputFile]]) -> None:
        """Names by which they lie in the group's folder become those in the dataset; told again nothing changes."""
        named = sorted(outputs(), key=lambda o: o.name)
        files = [DataFile(f"dataset:{order.dataset}/{o.name}", o.size_bytes, o.sha256) for o in named]
        content = "\n".join(f"{f.size_bytes} {f.sha256} {f.ref}" for f in files)
        made = RegisteredDataset(
            name=order.dataset,
            digest=hashlib.sha256(content.encode()).hexdigest(),
            files=len(files),
            size_bytes=sum(f.size_bytes for f in files),
        )
        task = self._tasks[order.ticket] = _Task(order.ticket, [], None)
        self._clock.after(REGISTER_S, self._registered, task, made, files)

    def _registered(self, task: _Task, made: RegisteredDataset, files: list[DataFile]) -> None:
        if self._current(task) and self._emit is not None:
            del self._tasks[task.ticket]
            self.register(made, files)
            self._emit(OutputsInCatalogue(ticket=task.ticket, dataset=made))

    def cancel(self, ticket: int) -> None:
        task = self._tasks.pop(ticket, None)
        if task is not None:
            self._pipes.forget(self._site, lambda moving, *_: moving is task)
            self._over(task)

    def drop_outputs(self, key: FactsKey, facts: Facts, dataset: str = "") -> None:
        self.dropped.add(key)

    def drop_subgroup(self, subgroup: SubgroupId) -> None:
        """Inputs stay cached."""

    def drop_group(self, group: GroupId, *, outputs: bool = False) -> None:
        self.gathered = {k for k in self.gathered if k.group != group}
        self.dropped = {k for k in self.dropped if k.group != group}

    # --- moving ----------------------------------------------------------------------------------------

    def _begin(self, task: _Task) -> None:
        self._tasks[task.ticket] = task
        if self._faults.happens("stage_error", self._site, about="gather" if task.key else "stage in"):
            self._clock.after(0.01, self._done, task, "a transfer failed (ordered by the simulation)")
        elif task.key is None and all(self._here(ref) for ref, _, _ in task.wanted):
            # Nothing is to be fetched: it takes no place among the orders that fetch.
            self._clock.after(0.001, self._fetch_all, task)
        else:
            self._waiting.append(task)
            self._clock.after(0.001, self._work)

    def _here(self, ref: str) -> bool:
        return ref in self.disk or f"dataset:{dataset_of(ref)}" in self.disk

    def _work(self) -> None:
        """Begin what may begin, in the order in which it was ordered."""
        while self._waiting and len(self._working) < ORDERS:
            task = self._waiting.popleft()
            if self._current(task):
                self._working.add(task.ticket)
                self._fetch_all(task)

    def _current(self, task: _Task) -> bool:
        return self._tasks.get(task.ticket) is task

    def _fetch_all(self, task: _Task) -> None:
        for wanted in task.wanted:
            self._fetch(task, wanted)
        if not task.wanted:
            self._done(task, "")

    def _fetch(self, task: _Task, wanted: _Wanted) -> None:
        """Move one file from the first source at hand, unless it is here or on its way."""
        if not self._current(task):
            return
        ref, _, sources = wanted
        if ref and self._here(ref):
            self._got(task)
        elif not sources:
            self._done(task, f"{ref}: no site has it")
        elif ref in self._coming:
            self._coming[ref][1].append((task, wanted))
        elif (source := next((s for s in sources if self._network.reachable(self._site, s)), None)) is None:
            self._clock.after(RETRY_S, self._fetch, task, wanted)
        else:
            if ref:
                self._coming[ref] = (task, [])
            rtt_s = 2 * self._network.link(source, self._site).latency_s
            self._clock.after(rtt_s, self._move, task, wanted, source)

    def _move(self, task: _Task, wanted: _Wanted, source: SiteId) -> None:
        if self._current(task):
            self._pipes.between(source, self._site).move(wanted[1], self._arrived, task, wanted, source)

    def _arrived(self, task: _Task, wanted: _Wanted, source: SiteId) -> None:
        if not self._current(task):
            return
        ref, size, _ = wanted
        _, others = self._coming.pop(ref, (task, []))
        if not self._network.reachable(self._site, source):
            self._fetch(task, wanted)
        elif task.key is not None and task.key in self.peers[source].dropped:
            self._done(task, f"outputs of {task.key.subgroup} batch {task.key.batch} are gone at {source}")
        else:
            if ref:
                self.disk.add(ref)
                if dataset_of(ref) and ref in self._wanted:
                    self._fetched[ref] = self._wanted.pop(ref)
            self.bytes_in += size
            task.moved += size
            self._got(task)
        for other, its in others:
            self._fetch(other, its)

    def _got(self, task: _Task) -> None:
        task.left -= 1
        if not task.left:
            self._done(task, "")

    def _done(self, task: _Task, error: str) -> None:
        if not self._current(task):
            return
        del self._tasks[task.ticket]
        if task.key is not None and not error:
            self.gathered.add(task.key)
        if error:
            self._pipes.forget(self._site, lambda moving, *_: moving is task)
        self._over(task)
        if self._emit is not None:
            self._emit(StageDone(ticket=task.ticket, bytes_moved=task.moved, error=error))

    def _over(self, task: _Task) -> None:
        """Make room for the next, and let others fetch what this one did not bring."""
        if task.ticket in self._working:
            self._working.remove(task.ticket)
            self._clock.after(0.0, self._work)
        for ref, _, _ in task.wanted:
            if ref in self._coming and self._coming[ref][0] is task:
                for other, its in self._coming.pop(ref)[1]:
                    self._fetch(other, its)
