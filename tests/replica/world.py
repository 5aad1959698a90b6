"""Two real replica machines, a witness and a network that loses, doubles, delays and reorders, as a model to search.

The states are the machines' own fields, so that what is searched is the code that ships (PROMISES section 2 "Standby",
row D8). `seen_as` shows a state in the words of tests/protocol/standby*.py, whose rules are then asked of it. Time goes
by in steps of one lease, everywhere at once; the simulator's standby tests have clocks of other speeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from diana.model.trust.register import Copy, Register, changed, term_of
from diana.replica import messages as ms
from diana.replica.base import NEVER, Base
from diana.replica.machine import Replica
from diana.replica.settings import ReplicaSettings
from tests.protocol import standby_state as model
from tests.protocol.search import Step

MACHINES = ("a", "b")
SETTINGS = ReplicaSettings(lease_s=6.0, margin=0.1, beat_s=1.0, lost_after_s=6.0, ask_every_s=6.0, near=5)
SLOTS = (*Base.__slots__, "_won")
TIMES = ("grant_until_s", "next_ask_s", "next_beat_s", "hand_due_s")
PASS_S = SETTINGS.lease_s

Fields = tuple[Any, ...]


class Entry(NamedTuple):
    term: int
    what: str


class Disk(NamedTuple):
    """State that survives a crash. `log[k]` is the entry of seq k + 1; `fsynced` of them are durable."""

    saved: ms.Saved
    uuid: int
    log: tuple[Entry, ...] = ()
    fsynced: int = 0


class Question(NamedTuple):
    asker: int
    expect: int
    wish: Register


class Copying(NamedTuple):
    """A seed on its way."""

    term: int
    to: int
    log: tuple[Entry, ...]


class Told(NamedTuple):
    to: int
    message: ms.Message


class State(NamedTuple):
    machines: tuple[Fields, Fields]
    disks: tuple[Disk, Disk]
    register: Register | None
    before: Register | None
    """The register before the last change: an answer may be late."""
    lost: Register | None
    """The register as it was when the witness lost it."""
    network: frozenset[Told]
    questions: frozenset[Question]
    copying: frozenset[Copying]
    acknowledged: frozenset[model.Acknowledged] = frozenset()
    answered_late: bool = False
    losses_left: int = 0
    orders_left: int = 0
    cuts_left: int = 0
    register_losses_left: int = 0


@dataclass(frozen=True)
class Bound:
    """How large the world is."""

    whats: tuple[str, ...] = ("x",)
    terms: int = 3
    losses: int = 0
    orders: int = 0
    """Commands of operators."""
    cuts: int = 1
    register_losses: int = 0
    """How often the witness begins anew with nothing."""
    begins_alone: bool = False
    witness: bool = True
    crashes: bool = True
    machine: type[Replica] = field(default=Replica)
    """Or a mutant of it."""


def log_of(entries: tuple[Entry, ...]) -> ms.Log:
    log = ms.Log()
    for at, entry in enumerate(entries, 1):
        log = log.grown(at, at, entry.term)
    return log


def copy_of(i: int, uuid: int) -> Copy:
    return Copy(MACHINES[i], str(uuid))


class World:
    """A `search.Model` of the machines."""

    def __init__(self, bound: Bound) -> None:
        self.on = bound

    # --- states ----------------------------------------------------------------------------------------

    def machine(self, fields: Fields) -> Replica:
        replica = self.on.machine.__new__(self.on.machine)
        for name, value in zip(SLOTS, fields, strict=True):
            setattr(replica, name, value)
        return replica

    def fields(self, replica: Replica) -> Fields:
        """The machine's state with `now` = 0; what is long past is all alike."""
        shift, lost_s = replica.now, SETTINGS.lost_after_s
        replica.now = 0.0
        for name in TIMES:
            setattr(replica, name, max(0.0, round(getattr(replica, name) - shift, 3)))
        replica.seeded_s = max(-PASS_S, round(replica.seeded_s - shift, 3))
        replica.heard_s = max(-lost_s, round(replica.heard_s - shift, 3))
        lease_s = replica.lease_until_s - shift
        replica.lease_until_s = round(lease_s, 3) if lease_s > 0 else NEVER
        return tuple(getattr(replica, name) for name in SLOTS)

    def born(self, i: int, disk: Disk) -> Replica:
        log = log_of(disk.log[: disk.fsynced])
        return self.on.machine(
            SETTINGS, copy_of(i, disk.uuid), MACHINES[1 - i], disk.saved, log, 0.0, witness=self.on.witness
        )

    def initial(self) -> State:
        """Replica 0 leads term 1, alone or with 1 in sync, and both know it."""
        copies = (copy_of(0, 0),) if self.on.begins_alone else (copy_of(0, 0), copy_of(1, 0))
        register = Register(1, "a", copies)
        saved = ms.Saved(term=1, led=1, register=register)
        disks = (Disk(saved, 0), Disk(ms.Saved(term=1, register=register), 0))
        leader = self.on.machine(
            SETTINGS, copy_of(0, 0), "b", saved, ms.Log(), 0.0, witness=self.on.witness, won=register
        )
        leader.handle(ms.Holds(0), 0.0)
        follower = self.born(1, disks[1])
        state = State(
            machines=(self.fields(leader), self.fields(follower)),
            disks=disks,
            register=register,
            before=None,
            lost=None,
            network=frozenset(),
            questions=frozenset(),
            copying=frozenset(),
            losses_left=self.on.losses,
            orders_left=self.on.orders,
            cuts_left=self.on.cuts,
            register_losses_left=self.on.register_losses,
        )
        for i in (0, 1):
            state = self.given(state, i, ms.LinkUp())
        return self.normal(state)

    # --- what may happen -------------------------------------------------------------------------------

    def transitions(self, s: State) -> Iterator[Step[State]]:
        for name, after in self.moves(s):
            normal = self.normal(after)
            if normal != s:
                yield Step(name, normal)

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        for i in (0, 1):
            yield from self.of_replica(s, i)
        for told in sorted(s.network, key=repr):
            yield f"{told.to} hears {told.message}", self.given(s, told.to, ms.Received(told.message))
        for question in sorted(s.questions, key=repr):
            yield from self.witness_hears(s, question)
        for copying in sorted(s.copying, key=repr):
            yield from self.seeds(s, copying)
        if s.register_losses_left and s.register is not None:
            left = s.register_losses_left - 1
            yield (
                "the witness loses its register",
                s._replace(register=None, before=s.register, lost=s.register, register_losses_left=left),
            )
        yield "a lease's time passes", self.later(s)

    def of_replica(self, s: State, i: int) -> Iterator[tuple[str, State]]:
        replica, disk = self.machine(s.machines[i]), s.disks[i]
        if replica.role == "over":
            yield f"{i} begins anew", self.restarted(s, i)
            return
        if replica.role == "leader":
            yield from self.leads(s, i, replica)
        if disk.fsynced < len(disk.log):
            yield f"{i} fsyncs", self.fsynced(s, i)
            if replica.role != "leader":
                yield f"{i} drops what waits", self.dropped(s, i)
        due = replica.deadline()
        if due is not None and due <= 0:
            yield f"{i} ticks", self.given(s, i, ms.Tick())
        if self.on.witness and self.listens(replica):
            late = (s.before,) if s.before is not None or s.lost is not None else ()
            for register in dict.fromkeys((s.register, *late)):
                yield f"{i} reads {register}", self.given(s, i, ms.WitnessSaid(register))
        if self.on.crashes:
            yield f"{i} crashes", self.restarted(s, i)
        if s.losses_left:
            yield f"{i} loses its disk", self.disk_lost(s, i)
        if s.cuts_left:
            cut = self.given(self.given(s._replace(cuts_left=s.cuts_left - 1), 0, ms.LinkLost()), 1, ms.LinkLost())
            yield "the link is lost", cut
        if not replica.linked:
            yield "the link is up", self.given(self.given(s, 0, ms.LinkUp()), 1, ms.LinkUp())
        if s.orders_left:
            yield from self.orders(s, i, replica)

    def listens(self, replica: Replica) -> bool:
        """Whether an answer of the witness may be on its way."""
        return replica.role != "follower" or not replica.early

    def leads(self, s: State, i: int, replica: Replica) -> Iterator[tuple[str, State]]:
        known = {entry.what for entry in s.disks[i].log}
        for what in self.on.whats:
            if what not in known:
                yield f"{i} appends {what}", self.appended(s, i, what)
        for at, entry in enumerate(s.disks[i].log, 1):
            said = model.Acknowledged(entry.what, replica.durability)
            if replica.may_act(0.0, at) and not s.acknowledged & {said, model.Acknowledged(entry.what, 2)}:
                told = s.acknowledged - {model.Acknowledged(entry.what, 1)} | {said}
                late = s.answered_late or self.machine(s.machines[1 - i]).saved.led > replica.term
                yield f"{i} acknowledges {entry.what}", s._replace(acknowledged=told, answered_late=late)
        if replica.seeding:
            yield f"{i} has ended seeding", self.given(s, i, ms.SeedEnded())

    def orders(self, s: State, i: int, replica: Replica) -> Iterator[tuple[str, State]]:
        """Operators. Force is for when the other does not lead any more, and gives up what it alone knows."""
        spent = s._replace(orders_left=s.orders_left - 1)
        if replica.role == "leader":
            yield f"{i} is to hand over", self.given(spent, i, ms.Promote(1))
        elif replica.role == "follower" and self.machine(s.machines[1 - i]).role != "leader":
            yield f"{i} is forced", self.given(spent, i, ms.ForceTakeover(2))

    def witness_hears(self, s: State, question: Question) -> Iterator[tuple[str, State]]:
        if question.wish.term > self.on.terms:
            return
        new = changed(s.register, question.expect, question.wish)
        if new == s.register:
            return
        told = s.acknowledged
        if question.wish.forced:
            told = self.given_up(s, MACHINES.index(question.wish.leader))
        yield f"the witness records {new}", s._replace(register=new, before=s.register, acknowledged=told)

    def seeds(self, s: State, copying: Copying) -> Iterator[tuple[str, State]]:
        replica = self.machine(s.machines[copying.to])
        if replica.may_seed(copying.term):
            disk = s.disks[copying.to]
            new = Disk(disk.saved, disk.uuid + 1, copying.log, len(copying.log))
            after = self.on_disk(s, copying.to, new)._replace(copying=s.copying - {copying})
            event = ms.Seeded(str(new.uuid), log_of(new.log))
            yield f"{copying.to} is seeded", self.given(after, copying.to, event)

    # --- how it happens --------------------------------------------------------------------------------

    def given(self, s: State, i: int, event: ms.Event) -> State:
        replica = self.machine(s.machines[i])
        effects = replica.handle(event, 0.0)
        s = self.with_machine(s, i, replica)
        for effect in effects:
            s = self.done(s, i, effect)
        return s

    def done(self, s: State, i: int, effect: ms.Effect) -> State:
        disk = s.disks[i]
        if isinstance(effect, ms.SaveState):
            s = self.on_disk(s, i, disk._replace(saved=effect.saved))
            if not self.on.witness and effect.saved.register is not None:
                s = s._replace(register=max((s.register, effect.saved.register), key=term_of))
            return s
        if isinstance(effect, ms.Say):
            return s._replace(network=s.network | {Told(1 - i, effect.message)})
        if isinstance(effect, ms.Ship):
            return s._replace(network=s.network | set(self.shipped(s, i, effect)))
        if isinstance(effect, ms.StoreEntry):
            entry = Entry(effect.entry.of_term, effect.entry.payload.decode())
            assert effect.entry.seq == len(disk.log) + 1, "entries are stored in order"
            return self.on_disk(s, i, disk._replace(log=(*disk.log, entry)))
        if isinstance(effect, ms.AskWitness) and effect.register is not None:
            return s._replace(questions=s.questions | {Question(i, effect.expect_term, effect.register)})
        if isinstance(effect, ms.Seed):
            return s._replace(copying=s.copying | {Copying(effect.term, 1 - i, disk.log[: disk.fsynced])})
        return s

    def shipped(self, s: State, i: int, order: ms.Ship) -> Iterator[Told]:
        entries = s.disks[i].log
        for at in range(order.after, order.up_to):
            before = entries[at - 1].term if at else 0
            entry = entries[at]
            yield Told(1 - i, ms.Append(order.term, order.to, at, before, at + 1, entry.term, entry.what.encode()))

    def appended(self, s: State, i: int, what: str) -> State:
        disk, term = s.disks[i], self.machine(s.machines[i]).term
        s = self.on_disk(s, i, disk._replace(log=(*disk.log, Entry(term, what))))
        at = len(disk.log) + 1
        return self.given(s, i, ms.Appended(at, at))

    def fsynced(self, s: State, i: int) -> State:
        disk = s.disks[i]
        s = self.on_disk(s, i, disk._replace(fsynced=len(disk.log)))
        return self.given(s, i, ms.Fsynced(len(disk.log)))

    def restarted(self, s: State, i: int) -> State:
        """A crash, or a new process: the disk is left, and the link has to be made anew."""
        disk = s.disks[i]
        disk = disk._replace(log=disk.log[: disk.fsynced])
        s = self.with_machine(self.on_disk(s, i, disk), i, self.born(i, disk))
        return self.given(s, 1 - i, ms.LinkLost())

    def dropped(self, s: State, i: int) -> State:
        """A follower's disk does not keep up."""
        disk = s.disks[i]
        s = self.on_disk(s, i, disk._replace(log=disk.log[: disk.fsynced]))
        return self.given(s, i, ms.EntriesDropped(disk.fsynced))

    def disk_lost(self, s: State, i: int) -> State:
        told = self.given_up(s, 1 - i)
        disk = Disk(ms.Saved(), s.disks[i].uuid + 1)
        s = self.with_machine(self.on_disk(s, i, disk), i, self.born(i, disk))
        return self.given(s._replace(losses_left=s.losses_left - 1, acknowledged=told), 1 - i, ms.LinkLost())

    def given_up(self, s: State, kept: int) -> frozenset[model.Acknowledged]:
        """Promises that clients may still rely on when only the copy of `kept` remains (`standby_steps.given_up`)."""
        in_sync = s.register is not None and s.register.counts(copy_of(kept, s.disks[kept].uuid))
        promised = frozenset(told for told in s.acknowledged if in_sync or told.durability == 2)
        if s.losses_left == self.on.losses:
            return promised
        has = {entry.what for entry in s.disks[kept].log[: s.disks[kept].fsynced]}
        return frozenset(told for told in promised if told.what in has)

    def later(self, s: State) -> State:
        for i in (0, 1):
            replica = self.machine(s.machines[i])
            replica.now = PASS_S
            s = s._replace(machines=_put(s.machines, i, self.fields(replica)))
        return s._replace(network=frozenset(Told(to, aged(message)) for to, message in s.network))

    # --- normal form -----------------------------------------------------------------------------------

    def normal(self, s: State) -> State:
        """Without what can have no effect any more."""
        network = [told for told in s.network if self.can_matter(s, told)]
        kept = frozenset(told for told in network if not any(covers(other, told) for other in network))
        questions = frozenset(q for q in s.questions if q.expect >= term_of(s.register) or s.register_losses_left)
        copying = frozenset(c for c in s.copying if c.term >= s.disks[c.to].saved.term)
        return s._replace(network=kept, questions=questions, copying=copying)

    def can_matter(self, s: State, told: Told) -> bool:
        message, term = told.message, s.disks[told.to].saved.term
        if isinstance(message, ms.HandedOver):
            return message.register.term > term
        if isinstance(message, ms.Refused):
            return message.term > term
        return message.term >= term

    def with_machine(self, s: State, i: int, replica: Replica) -> State:
        return s._replace(machines=_put(s.machines, i, self.fields(replica)))

    def on_disk(self, s: State, i: int, disk: Disk) -> State:
        return s._replace(disks=_put(s.disks, i, disk))

    # --- in the model's words --------------------------------------------------------------------------

    def seen_as(self, s: State) -> model.State:
        replicas = tuple(self.replica_seen_as(s, i) for i in (0, 1))
        register = s.register or s.lost
        assert register is not None
        seen = model.Register(
            register.term,
            MACHINES.index(register.leader),
            frozenset(model.InSync(MACHINES.index(c.machine), int(c.replica_uuid)) for c in register.in_sync),
            register.forced,
        )
        return model.State(
            replicas=(replicas[0], replicas[1]),
            register=seen,
            workers=(),
            network=frozenset(),
            acknowledged=s.acknowledged,
            starts=0,
            answered_late=s.answered_late,
            losses_left=s.losses_left,
            stale_register=seen,
        )

    def replica_seen_as(self, s: State, i: int) -> model.Replica:
        replica, disk = self.machine(s.machines[i]), s.disks[i]
        log = tuple(model.Entry(e.what, e.term) for e in disk.log)
        return model.Replica(
            role="follower" if replica.role == "over" else replica.role,
            term=replica.saved.term,
            log=log,
            disk=log[: disk.fsynced],
            db_uuid=disk.uuid,
            durability=replica.durability,
        )


def _put(pair: tuple[Any, Any], i: int, value: Any) -> tuple[Any, Any]:
    return (value, pair[1]) if i == 0 else (pair[0], value)


def aged(message: ms.Message) -> ms.Message:
    """The same a lease later: times said are the sender's or, echoed, the hearer's."""
    if isinstance(message, ms.Beat):
        return msgspec.structs.replace(message, sent_s=-PASS_S)
    if isinstance(message, ms.Ack) and message.granted_s is not None:
        return msgspec.structs.replace(message, granted_s=-PASS_S)
    return message


def covers(other: Told, told: Told) -> bool:
    """A newer message of the same kind that does all the older one could."""
    a, b = other.message, told.message
    if other.to != told.to or a == b or type(a) is not type(b):
        return False
    if isinstance(a, ms.Beat) and isinstance(b, ms.Beat):
        return (a.term, a.to) == (b.term, b.to) and a.sent_s >= b.sent_s and a.log.last >= b.log.last
    if isinstance(a, ms.Ack) and isinstance(b, ms.Ack):
        newer = (a.fsynced, a.log.last, _or_never(a.granted_s), a.beat_last)
        older = (b.fsynced, b.log.last, _or_never(b.granted_s), b.beat_last)
        return (a.term, a.copy) == (b.term, b.copy) and all(x >= y for x, y in zip(newer, older, strict=True))
    return False


def _or_never(value: float | None) -> float:
    return NEVER if value is None else value
