"""The node's loop: waiting events -> engine.handle -> one transaction -> effects in order.

Group commit: all events that wait are handled, their records committed together, then their effects released. The
next batch is handled while the disk works. Nothing, a client's read included, leaves before what it rests on is
durable, because everything the engine says goes through the same line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from time import perf_counter
from typing import Protocol

from diana.engine.engine import Engine
from diana.engine.journal import codec
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Group
from diana.errors import Overloaded, StoreFull
from diana.model.facts import OutputFile
from diana.model.ids import GroupId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.model.trust.invitation import Invitation
from diana.node.loop.callers import Callers
from diana.node.loop.clock import SiteClock
from diana.node.loop.intake import RETRY_S, Intake
from diana.node.loop.meanwhile import Meanwhile, Stalled
from diana.node.loop.release import Passage, Release
from diana.node.loop.store_thread import StoreThread
from diana.node.metrics.samples import Timings
from diana.node.ways_in.door import GroupWatch, ReplyBody
from diana.ports import Batch, Journal, Store

MOST_EVENTS = 512
"""Handled before their records are committed."""
MOST_HANDLING_S = 0.01
"""Seconds spent on handling: who is answered next does not wait for all who came before."""
MOST_BATCHES = 4
"""Handled batches that wait for the disk."""
MOST_GATED = 64
"""Transactions that wait for the standby."""
PASSAGE_S = 2.0
"""Most seconds that a read waits for the standby while the disk has no room."""
SNAPSHOT_RECORDS = 20_000
SNAPSHOT_BYTES = 4 << 20
"""Records since the last snapshot (or read at start), and their bytes, before the next is taken: either bounds the time
a restart takes."""

_log = logging.getLogger("diana.node")


class _Turn:
    """The effects, records and facts that one round of events asks for."""

    __slots__ = ("at_s", "effects", "facts", "records", "snapshot")

    def __init__(self, at_s: float, effects: list[fx.Effect]) -> None:
        self.at_s = at_s
        self.effects = effects
        self.records = [codec.encode(e.record) for e in effects if isinstance(e, fx.Persist)]
        self.facts = [(e.key, e.facts) for e in effects if isinstance(e, fx.KeepFacts)]
        self.snapshot: bytes | None = None


class Gate(Protocol):
    """The gate of a site with a standby: its machine of replicas decides what may leave."""

    def appending(self, batch: Batch) -> Batch:
        """The batch as it is to be written now, under the leader's term."""
        ...

    def written(self, seq: int) -> None:
        """The record `seq` is durable here."""
        ...

    async def open(self, seq: int) -> None:
        """Returns when what rests on the records up to `seq` may leave, at that very moment."""
        ...


class Runner:
    """Drives one engine over one store. `node/ways_in/door.py` says what the client service sees of it."""

    def __init__(
        self,
        engine: Engine,
        store: StoreThread,
        clock: SiteClock,
        replayed: Sequence[bytes] = (),
        gate: Gate | None = None,
        remake: Callable[[Journal], Engine] | None = None,
    ) -> None:
        """`replayed`: the records the engine was restored from, besides a snapshot. `gate`: where the site has a
        standby. `remake`: makes an engine for reads out of the store, for as long as the disk has no room."""
        self._engine = engine
        self._store = store
        self._clock = clock
        self.callers = Callers()
        self._release: Release
        """Present from `open` on."""
        self._intake = Intake()
        self._turns: asyncio.Queue[_Turn] = asyncio.Queue(MOST_BATCHES)
        self._next_request = 1
        self._withdrawn: set[int] = set()
        """Requests taken back before the engine saw them, whose callers have not heard it yet."""
        self._since_snapshot = [len(replayed), sum(map(len, replayed))]
        self._gate = gate
        self._gated: asyncio.Queue[tuple[list[_Turn], int]] = asyncio.Queue(MOST_GATED)
        """Committed here, waiting for the standby: further transactions are shipped meanwhile."""
        self._handled = self._committed = self._released = 0
        self.commits = Timings()
        """Durations of the journal's transactions, fsync included."""
        self._seq = store.store.log_end().seq
        self._remake = remake
        self._meanwhile: Meanwhile | None = None
        """Present while the disk has no room."""
        store.on_full = self._full

    # --- the door --------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        return self._store.store

    def subgroups(self) -> list[SubgroupId]:
        """The subgroups this site executes, whose files are therefore needed."""
        return [subgroup for subgroup, _ in self._engine.state.custodies]

    def settings(self) -> Settings:
        """The settings in force."""
        return self._engine.state.settings

    def executes(self, subgroup: SubgroupId, epoch: int) -> bool:
        return (subgroup, epoch) in self._engine.state.custodies

    def elsewhere(self, machine: str, subgroup: SubgroupId, epoch: int, indices: Sequence[int]) -> bool:
        """True if any of these jobs runs on another machine than this one."""
        return self._engine.runs_elsewhere(machine, subgroup, epoch, indices)

    def run_of(self, subgroup: SubgroupId, epoch: int, index: int) -> tuple[str, int] | None:
        """The worker of this site that the job was given to, and the attempt; None: it is with none."""
        return self._engine.run_of(subgroup, epoch, index)

    def groups(self) -> set[GroupId]:
        """The groups about which anybody may ask this site for something."""
        state = self._engine.state
        return {*state.groups, *(group_of(part) for part, _ in (*state.custodies, *state.tombstones))}

    def group(self, name: GroupId) -> Group | None:
        """A group that was submitted here, as it stands now: to be read at once."""
        return self._engine.state.groups.get(name)

    def known_as(self, machine: str) -> str:
        """Identity of the data directory that the name of that machine of this site belongs to; empty: none yet, or
        none any more."""
        known = self._engine.state.machines.get(machine)
        return known.identity if known is not None else ""

    def holds_as(self, worker: str) -> str:
        """`known_as` for a worker that has jobs whose ends are not told; empty: it has none."""
        return self.known_as(worker) if self._engine.holds_runs_of(worker) else ""

    def invitations(self) -> dict[str, Invitation]:
        """The invitations this site gave out."""
        return self._engine.state.invitations

    def given_up(self, machine: str) -> bool:
        """True if an operator removed that machine of the site."""
        return self._engine.gave_up(machine)

    def retried(self, group: GroupId) -> IndexSet:
        """The group's jobs that were tried again: other outputs may stand under the names of theirs."""
        return self._engine.state.groups[group].retried

    def owner_of(self, group: GroupId) -> str:
        return self._engine.state.groups[group].owner

    def outputs_of(self, group: GroupId) -> Iterator[OutputFile]:
        """The group's outputs that count, by name and content; from the store. Blocks, in whatever thread."""
        parts = self._engine.state.groups[group].subgroups
        old = {part: subgroup.superseded for part, subgroup in parts.copy().items()}
        for key, facts in self._store.store.facts(group):
            gone = old.get(key.subgroup, IndexSet())
            yield from (output for output in facts.outputs if output.index not in gone)

    def now_s(self) -> float:
        return self._clock.now_s()

    async def request(self, make: Callable[[int], ev.Event]) -> ReplyBody:
        number, self._next_request = self._next_request, self._next_request + 1
        event = make(number)
        if self._meanwhile is not None:
            return await self._answer_meanwhile(event, maybe_taken=False)
        answer = self.callers.expect(number)
        try:
            self._intake.put(event)
            return await answer
        except Stalled:
            return await self._answer_meanwhile(event, maybe_taken=number not in self._withdrawn)
        finally:
            self._withdrawn.discard(number)
            self.callers.forget(number)

    def _full(self, full: str) -> None:
        """The disk has no room, or has it again. Who waits for an answer gets one from the store."""
        if not full or self._remake is None:
            self._meanwhile = None
            return
        self._meanwhile = Meanwhile(self.store, full, self._remake, self._clock.now_s)
        self._intake.withdraw(self._asked)
        self.callers.fail(Stalled(full))

    def _asked(self, event: ev.Event) -> bool:
        """Whether somebody who is told to come again waits for this; then it is not to be done behind their back."""
        number = getattr(event, "request", 0)
        if number:
            self._withdrawn.add(number)
        return bool(number)

    async def _answer_meanwhile(self, event: ev.Event, *, maybe_taken: bool) -> ReplyBody:
        meanwhile = self._meanwhile
        if meanwhile is None:
            raise Overloaded(f"the disk was full for a moment; try again in {RETRY_S:g} s", RETRY_S)
        if self._gate is not None:
            try:
                async with asyncio.timeout(PASSAGE_S):
                    await self._gate.open(self._seq)
            except TimeoutError:
                raise Overloaded("the standby does not answer; try again shortly", RETRY_S) from None
        return await meanwhile.answer(event, maybe_taken=maybe_taken)

    @asynccontextmanager
    async def watch(self, group: GroupId) -> AsyncIterator[GroupWatch]:
        with self.callers.watching(group) as watch:
            yield watch

    @property
    def seq(self) -> int:
        """Sequence number of the last record written."""
        return self._seq

    def backlog(self) -> tuple[int, int]:
        """(events that wait for the engine, rounds of them that wait for the disk or the standby)."""
        return len(self._intake), self._handled - self._released

    def hold(self, on: bool) -> None:
        """Take nothing new from outside while the site is handed over to its standby."""
        self._intake.closed = "the site is handed over to its standby" if on else ""

    def term_rose(self, term: int) -> None:
        """The site goes on under another term: what is ordered from now on carries it."""
        self._engine.term_rose(term)

    # --- adapters ----------------------------------------------------------------------------------

    def emit_own(self, event: ev.Event) -> None:
        """Take an event of this node's LRM, stager and probe."""
        self._intake.push(event)

    def emit_peer(self, event: ev.Event) -> None:
        """Take an event of the transport: raises Overloaded when a message would not fit; comings and goings
        always do."""
        self._intake.put(event) if isinstance(event, ev.Received) else self._intake.push(event)

    # --- life ------------------------------------------------------------------------------------------

    async def open(self, effects: list[fx.Effect], release: Release) -> None:
        """Make the effects of `Engine.start` durable and release them; then the loop runs. `release`: of these effects
        and all that follow."""
        self._release = release
        turn = _Turn(self._clock.now_s(), effects)
        self._handled += 1
        self._count(turn)
        await self._commit([turn])
        if self._gate is None:
            await self._leave([turn], self._seq)
        else:
            await self._gated.put(([turn], self._seq))

    async def run(self) -> None:
        """Run until cancelled, or until the store or the engine fails (then the error is raised)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._handle())
            group.create_task(self._finish())
            if self._gate is not None:
                group.create_task(self._pass(self._gate))

    async def bind_all(self, grace_s: float) -> None:
        """Have jobs that wait for their turn bound to sites, and wait for that, but not for long."""
        if not self._engine.is_binding():
            return
        self.emit_own(ev.BindAll())
        waited = 0.0
        while self._engine.is_binding() and waited < grace_s:
            await asyncio.sleep(0.05)
            waited += 0.05

    async def drain(self, grace_s: float = 2.0) -> None:
        """Wait, not for long, until all that was handled is durable and released."""
        waited = 0.0
        while (self._handled != self._released or len(self._intake)) and waited < grace_s:
            await asyncio.sleep(0.01)
            waited += 0.01

    async def close(self) -> None:
        """Take a last snapshot after `run`, so that the next start is quick; only if all that was handled is
        durable."""
        if self._since_snapshot[0] and self._handled == self._committed:
            await self._take_snapshot(self._engine.snapshot(), self._seq)

    async def _handle(self) -> None:
        engine = self._engine
        while True:
            deadline = engine.deadline()
            wait_s = None if deadline is None else deadline - self._clock.now_s()
            if wait_s is None or wait_s > 0:
                await self._intake.wait(wait_s)
            now = self._clock.now_s()
            effects: list[fx.Effect] = []
            for event in self._next_events(deadline is not None and deadline <= now):
                try:
                    effects += engine.handle(event, now)
                except Exception:
                    _log.critical("the engine failed on %.2000r", event, exc_info=True)
                    raise
            if effects:
                turn = _Turn(now, effects)
                self._handled += 1
                self._count(turn)
                await self._turns.put(turn)
            # Fairness: the adapters and clients get their turn even under endless events.
            await asyncio.sleep(0)

    def _next_events(self, due: bool) -> Iterator[ev.Event]:
        """The events of one turn, as far as time allows. `due`: the engine waits for a Tick."""
        clock = asyncio.get_running_loop().time
        until_s, taken = clock() + MOST_HANDLING_S, 0
        if due:
            yield ev.Tick()
        while taken < MOST_EVENTS and len(self._intake):
            with closing(self._intake.turn(MOST_EVENTS - taken)) as events:
                for event in events:
                    yield event
                    taken += 1
                    if clock() > until_s:
                        return

    def _count(self, turn: _Turn) -> None:
        """The state right now is that of the records up to this turn: the moment a snapshot can be taken."""
        self._since_snapshot[0] += len(turn.records)
        self._since_snapshot[1] += sum(map(len, turn.records))
        if self._since_snapshot[0] > SNAPSHOT_RECORDS or self._since_snapshot[1] > SNAPSHOT_BYTES:
            turn.snapshot = self._engine.snapshot()
            self._since_snapshot = [0, 0]

    async def _finish(self) -> None:
        while True:
            turns = [await self._turns.get()]
            while turns[-1].snapshot is None and not self._turns.empty():
                turns.append(self._turns.get_nowait())
            await self._commit(turns)
            if self._gate is None:
                await self._leave(turns, self._seq)
            else:
                await self._gated.put((turns, self._seq))

    async def _pass(self, gate: Gate) -> None:
        """Let what rests on a transaction leave while the gate is open for it: each effect asks anew, because reading
        what it sends may take longer than a lease."""
        while True:
            turns, seq = await self._gated.get()
            await self._leave(turns, seq, partial(gate.open, seq))

    async def _commit(self, turns: list[_Turn]) -> None:
        stored = tuple(r for turn in turns for r in turn.records)
        facts = tuple(f for turn in turns for f in turn.facts)
        if stored or facts:
            batch = Batch(at_s=turns[-1].at_s, records=stored, facts=facts)
            if self._gate is not None:
                batch = self._gate.appending(batch)
            begun_s = perf_counter()
            self._seq = await self._store.once_there_is_room(self._store.store.commit, batch)
            self.commits.note(perf_counter() - begun_s)
            if self._gate is not None:
                self._gate.written(self._seq)
        self._committed += len(turns)

    async def _leave(self, turns: list[_Turn], seq: int, passage: Passage | None = None) -> None:
        for turn in turns:
            await self._release.all(turn.effects, passage)
        self._released += len(turns)
        snapshot = turns[-1].snapshot
        if snapshot is not None:
            await self._take_snapshot(snapshot, seq)

    async def _take_snapshot(self, snapshot: bytes, seq: int) -> None:
        """A snapshot only makes the next start quick: where there is no room for it, the records stay."""
        with suppress(StoreFull):
            await self._store.call_quietly(self._store.store.snapshot, snapshot, seq)
