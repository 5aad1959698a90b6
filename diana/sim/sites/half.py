"""One of the two replicas of a simulated site: a follower, or the node that leads, under the machine of diana/replica.

The engine's effects wait in line until the machine says that they may leave. A stop (SIGSTOP) leaves the process as it
is, and all that would have reached it waits; a kill leaves the disk. Each half has a clock of its own speed."""

from __future__ import annotations

import copy
import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from diana import ports
from diana.engine.journal import codec as lines
from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.engine.journal.events import Event
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.register import Copy
from diana.replica import messages as ms
from diana.replica.machine import Replica
from diana.replica.settings import ReplicaSettings
from diana.sim.sites.site import SNAPSHOT_RECORDS, SimulatedSite, _sorted
from diana.sim.twins.store import MemoryStore

HELD_ENTRIES = 400
"""Entries kept in memory for a follower that lags."""
STEP_DOWN_S = 0.3
"""Seconds until a node that stepped down is up again as a follower."""


class KeptEntry(NamedTuple):
    """An entry as the leader made it."""

    after: int
    seq: int
    batch: ports.Batch
    lines: tuple[records.Record, ...]

    def digest(self) -> bytes:
        return digest(self.seq, self.batch)


def digest(seq: int, batch: ports.Batch) -> bytes:
    return hashlib.sha256(b"%d/" % seq + b"/".join(batch.records)).digest()


class PairPort(Protocol):
    """The pair that a half belongs to, as the half knows it: the link to the other half, the witness, the judge."""

    site: SiteId
    settings: Settings
    replica_settings: ReplicaSettings
    witness: SiteId
    """The site that keeps its register; empty: none."""
    serving: Half | None
    """The half that peers, clients, LRM and stager meet."""

    def risen(self, half: Half) -> None: ...

    def fallen(self, half: Half) -> None: ...

    def next_boot(self) -> int: ...

    def begins(self, half: Half) -> None:
        """Judge the journal of a half that begins to lead."""

    def serve(self, half: Half) -> None: ...

    def say(self, sender: Half, message: ms.Message, batch: ports.Batch | None = None) -> None: ...

    def batch(self, entry: ms.Append) -> ports.Batch:
        """The records of an entry that came over the link."""
        ...

    def seed(self, leader: Half, order: ms.Seed) -> None: ...

    def ask_witness(self, half: Half, question: ms.AskWitness) -> None: ...

    def told_operator(self, effect: ms.HoldIntake | ms.Answered) -> None: ...

    def made(self, kept: KeptEntry) -> None: ...

    def released(self, half: Half, seq: int) -> None: ...


class Half(SimulatedSite):
    """`machine` names it within its site. The engine is there only while it leads."""

    def __init__(self, pair: PairPort, machine: str, other: str, speed: float, saved: ms.Saved, **parts: Any) -> None:
        super().__init__(pair.site, pair.settings, **parts)
        self._pair = pair
        self.machine = machine
        self.other = other
        self._speed = speed
        self.saved = saved
        self.disk = 0
        """Number of times that a new disk was put in, or a copy installed."""
        self.replica: Replica | None = None
        self.life = 0
        """Counter that rises when a process begins or ends; calls asked for before are dropped."""
        self.paused = False
        self.begun_term = 0
        """Highest term in which it was told to lead."""
        self.history: list[tuple[int, bytes]] = []
        """(seq, digest) of every entry on this disk."""
        self._missed: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._line: deque[tuple[int, list[fx.Effect], Callable[[], None] | None]] = deque()
        self._draining = False
        self._entries: deque[KeptEntry] = deque()
        self._last = 0
        self._timer_s = -1.0

    # --- the process -----------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.replica is not None

    @property
    def copy_here(self) -> Copy:
        return Copy(self.machine, f"{self.machine}-{self.disk}")

    def begin(self) -> None:
        """Start a new process, which leads nothing, whatever the last one did."""
        if self.alive:
            return
        self.life += 1
        end = self.store.log_end()
        starts = tuple(ms.TermStart(start.first_seq, start.term) for start in end.starts)
        log = ms.Log(end.seq, starts, False, self.store.meta("db_uuid"))
        self.replica = self._make.replica(
            self._pair.replica_settings,
            self.copy_here,
            self.other,
            self.saved,
            log,
            self._machine_s(),
            witness=bool(self._pair.witness),
        )
        self._timer_s = -1.0
        self._pair.risen(self)
        self._arm_machine()

    def crash(self, durable: bool) -> None:
        """kill -9; it begins anew within the scenario's `restart_s`."""
        self.fall("crash")
        self._clock.after(self._faults.restart_after_s(), self._again, self.life)

    def fall(self, why: str) -> None:
        """End the process; all it held in memory is lost."""
        if not self.alive:
            return
        self._trace.note(self.site, self._clock.now_s, f"{self.machine}: {why}")
        self.life += 1
        self.replica = self.engine = None
        self.paused = False
        for line in (self._missed, self._waiting, self._line, self._entries):
            line.clear()
        self.store.crash()
        self._pair.fallen(self)

    def _again(self, life: int) -> None:
        if life == self.life:
            self.begin()

    def pause(self) -> None:
        self._trace.note(self.site, self._clock.now_s, f"{self.machine}: stopped")
        self.paused = True

    def resume(self) -> None:
        """Let the process go on: it meets all that came meanwhile now, in order."""
        if not self.paused:
            return
        self._trace.note(self.site, self._clock.now_s, f"{self.machine}: goes on")
        self.paused = False
        missed, self._missed = self._missed, []
        life = self.life
        for action, arguments in missed:
            if life == self.life and not self.paused:
                action(*arguments)

    def awake(self, life: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do it now, or when the process goes on; not at all in another process."""
        if life != self.life or not self.alive:
            return
        if self.paused:
            self._missed.append((action, arguments))
        else:
            action(*arguments)

    def _after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self._clock.after(delay_s, self.awake, self.life, action, *arguments)

    # --- the machine -----------------------------------------------------------------------------------

    def _machine_s(self) -> float:
        return self._clock.now_s * self._speed

    def tell(self, event: ms.Event) -> None:
        replica, life = self.replica, self.life
        if replica is None:
            return
        for effect in replica.handle(event, self._machine_s()):
            if life != self.life:
                return
            self._carry_out(effect)
        if life == self.life:
            self._arm_machine()

    def _arm_machine(self) -> None:
        due_s = self.replica.deadline() if self.replica is not None else None
        if due_s is not None and (self._timer_s < 0 or due_s < self._timer_s):
            self._timer_s = due_s
            delay_s = max(0.0, due_s - self._machine_s()) / self._speed + 1e-6
            self._after(delay_s, self._due, due_s)

    def _due(self, due_s: float) -> None:
        if due_s == self._timer_s:
            self._timer_s = -1.0
            self.tell(ms.Tick())

    def _carry_out(self, effect: ms.Effect) -> None:
        pair = self._pair
        match effect:
            case ms.SaveState():
                self.saved = effect.saved
            case ms.Say():
                pair.say(self, effect.message)
            case ms.Ship():
                self._ship(effect)
            case ms.StoreEntry():
                self._after(self._fsync_s, self._stored, effect.entry, pair.batch(effect.entry))
            case ms.Seed():
                pair.seed(self, effect)
            case ms.AskWitness():
                pair.ask_witness(self, effect)
            case ms.ReleaseUpTo():
                self._drain()
            case ms.Lead():
                self._open(effect)
            case ms.TermRose():
                if pair.serving is self:
                    self.lrm.attach(self.handle)
            case ms.StepDown():
                self.fall(f"steps down: {effect.reason}")
                self._clock.after(STEP_DOWN_S, self._again, self.life)
            case ms.HoldIntake() | ms.Answered():
                pair.told_operator(effect)

    def _ship(self, order: ms.Ship) -> None:
        assert self.replica is not None
        log = self.replica.log
        for kept in self._entries:
            if order.after < kept.seq <= order.up_to:
                after, seq = kept.after, kept.seq
                entry = ms.Append(order.term, order.to, after, log.term_at(after), seq, log.term_at(seq))
                self._pair.say(self, entry, kept.batch)

    def _stored(self, entry: ms.Append, batch: ports.Batch) -> None:
        self._write(entry.seq, batch)
        self.tell(ms.Fsynced(entry.seq))

    def _write(self, seq: int, batch: ports.Batch) -> None:
        assert self.store.commit(batch) == seq, "entries are stored in order"
        self.history.append((seq, digest(seq, batch)))

    def install(self, store: MemoryStore, history: list[tuple[int, bytes]]) -> None:
        """Put another's whole journal in the place of this one."""
        self.disk += 1
        self.store, self.history = store, history
        end = store.log_end()
        starts = tuple(ms.TermStart(start.first_seq, start.term) for start in end.starts)
        self.tell(ms.Seeded(self.copy_here.replica_uuid, ms.Log(end.seq, starts, False, store.meta("db_uuid"))))

    def lose_disk(self, empty: MemoryStore) -> None:
        self.fall("loses its disk")
        self.disk += 1
        self.store, self.history, self.saved = empty, [], ms.Saved()

    def copied(self) -> tuple[MemoryStore, list[tuple[int, bytes]]]:
        return copy.deepcopy(self.store), list(self.history)

    # --- the engine, while it leads --------------------------------------------------------------------

    def _open(self, lead: ms.Lead) -> None:
        """Open the engine over the journal. `Opened` is durable where it must be before anybody hears of it."""
        self.begun_term = lead.term
        self._last = self.store.log_end().seq
        self._pair.begins(self)
        self.boots += 1
        boot = self._pair.next_boot()
        engine = self._make.restored(self.site, self.store, self._keyring, self._clock.now_s)
        effects = self._make.start(engine, self.settings, self.store, boot, software=self.lrm.software)
        self.engine = engine
        self._hello = self._make.hello(engine, self.site, self.store, boot)
        self._armed_s = -1.0
        self._since_snapshot = 0
        self._trace.handled(self.site, self._clock.now_s, None, effects)
        self._line_up(effects, self._join)

    def _join(self) -> None:
        """Now peers, clients, LRM and stager may hear of it."""
        self._pair.serve(self)
        self.lrm.attach(self.handle)
        self.stager.attach(self.handle)
        self._network.attach(self.transport)
        self._network.node_up(self.site)
        self._arm()

    def handle(self, event: Event) -> None:
        if self.paused:
            self._missed.append((self.handle, (event,)))
            return
        if self.engine is None:
            return
        self._waiting.append(event)
        if not self._draining:
            self._turn()

    def _turn(self) -> None:
        engine, now_s = self.engine, self._clock.now_s
        assert engine is not None
        events, self._waiting = self._waiting, []
        effects: list[fx.Effect] = []
        for event in events:
            made = engine.handle(event, now_s)
            self._trace.handled(self.site, now_s, event, made)
            effects += made
            if self._handled is not None:
                self._handled(self.site, engine)
        self._line_up(effects)
        self._arm()

    def _line_up(self, effects: list[fx.Effect], joined: Callable[[], None] | None = None) -> None:
        """Records to both disks; the rest waits in line for them. A turn without records rests on those before it."""
        told, facts, others = _sorted(effects)
        assert told or not facts, "results come with their record"
        replica = self.replica
        assert replica is not None
        if told:
            encoded = tuple(lines.encode(record) for record in told)
            batch = ports.Batch(at_s=self._clock.now_s, records=encoded, facts=tuple(facts), term=replica.term)
            after, self._last = self._last, self._last + len(told)
            kept = KeptEntry(after, self._last, batch, tuple(told))
            self._entries.append(kept)
            self._pair.made(kept)
            self._after(self._fsync_s, self._durable_here, kept.seq, batch)
        if told or others:
            self._line.append((self._last, others, joined))
        if told:
            self.tell(ms.Appended(after + 1, self._last))
        self._drain()

    def _durable_here(self, seq: int, batch: ports.Batch) -> None:
        if self._faults.crash_here(self.site, shown="crash before commit"):
            self.crash(durable=False)
            return
        self._write(seq, batch)
        self._since_snapshot += len(batch.records)
        if self._since_snapshot >= SNAPSHOT_RECORDS and seq == self._last and self.engine is not None:
            self._since_snapshot = 0
            self.store.snapshot(self.engine.snapshot(), seq)
        while len(self._entries) > HELD_ENTRIES and self._entries[0].seq <= seq:
            self.tell(ms.Holds(self._entries.popleft().seq))
        self.tell(ms.Fsynced(seq))

    def _drain(self) -> None:
        """Let out what may leave at this moment, with a crash possible before each effect."""
        if self._draining:
            return
        self._draining = True
        life = self.life
        try:
            while life == self.life and self._line and self._may_leave():
                seq, others, joined = self._line.popleft()
                self._pair.released(self, seq)
                self._let_out_of(others, life)
                if joined is not None and life == self.life:
                    joined()
        finally:
            self._draining = False
        if life == self.life and self._waiting and self.engine is not None:
            self._turn()

    def _may_leave(self) -> bool:
        return self.replica is not None and self.replica.may_act(self._machine_s(), self._line[0][0])

    def _let_out_of(self, effects: list[fx.Effect], life: int) -> None:
        for effect in effects:
            if self._faults.crash_here(self.site, effect, "crash between effects"):
                self.crash(durable=True)
            if life != self.life:
                return
            self._do[type(effect)](effect)

    def _start_anew(self, effect: fx.StartAnew) -> None:
        """Do nothing: only an operator puts back the database of two replicas."""

    def settled(self) -> bool:
        """True if it leads, and all that it did has left."""
        return self.engine is not None and not self.paused and not self._line and self._pair.serving is self

    def recount(self) -> None:
        """Recount as a site alone does, while nothing is under way."""
        if self.settled():
            super().recount()
