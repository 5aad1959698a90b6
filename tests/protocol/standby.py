"""The standby of PROMISES section 2 as a model: two replicas, a witness with one register, workers that start a job.

Read it beside PROMISES section 2, Standby: `standby_setting` lists its sentences, `standby_steps` has one small
function per step,
`standby_rules` says what must hold and what each sentence is there for. Here they are put together: how everything
begins, what is sent, and the normal form of a state. What the model assumes of the rest: a client's key and a
worker's claim make repetition harmless, hand-over between sites is another model, clocks run at the same speed
within the margin of a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol import standby_steps as steps
from tests.protocol.search import Step
from tests.protocol.standby_setting import Setting
from tests.protocol.standby_state import (
    STARTS,
    Append,
    Entry,
    Fsynced,
    InSync,
    Log,
    Message,
    Propose,
    Register,
    Replica,
    Role,
    Start,
    State,
    Worker,
)

OF_ANY = (steps.fsyncs, steps.crashes, steps.loses_disk)
STEPS: dict[Role, tuple[steps.OfReplica, ...]] = {
    "leader": (
        steps.submits,
        steps.acknowledges,
        steps.grants_lease,
        steps.lease_ends,
        steps.reads_register,
        steps.rejoins,
        steps.goes_on_alone,
        steps.says_hello,
        steps.plans_start,
        steps.records_result,
        *OF_ANY,
    ),
    "follower": (steps.waited_for_lease, steps.asks_for_term, steps.is_forced, steps.leads_unasked, *OF_ANY),
    "candidate": (steps.reads_register, steps.asks_for_term, steps.is_forced, *OF_ANY),
}
OF_THE_REST = (steps.worker_crashes, steps.forgets_register)


@dataclass(frozen=True)
class Standby:
    """The protocol, or a mutant of it, in a world of bounded size."""

    on: Setting

    def initial(self) -> State:
        """Replica 0 leads term 1, with 1 in sync, or alone."""
        bound = self.on.bound
        durability = 1 if bound.begins_alone else 2
        register = Register(1, 0, frozenset(InSync(i, 0) for i in range(durability)), False)
        leader = Replica("leader", durability=durability, inventory=steps.unasked(self.on))
        first = State(
            replicas=(leader, Replica()),
            register=register,
            workers=(Worker(),) * bound.workers,
            network=frozenset(),
            acknowledged=frozenset(),
            starts=0,
            answered_late=False,
            losses_left=bound.disk_losses,
            stale_register=register,
        )
        return self.normal(first)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            normal = self.normal(after)
            if normal != s:
                yield Step(name, normal)

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        for i in (0, 1):
            if i != self.on.world.dead:
                for step in STEPS[s.replicas[i].role]:
                    yield from step(self.on, s, i)
        for rest in OF_THE_REST:
            yield from rest(self.on, s)
        for message in s.network:
            yield from self.receives(s, message)

    def receives(self, s: State, message: Message) -> Iterator[tuple[str, State]]:
        """Steps of a message that arrives; it stays on the wire, and may arrive again."""
        if isinstance(message, Append):
            return steps.follows(self.on, s, message)
        if isinstance(message, Fsynced):
            return steps.hears_fsynced(self.on, s, message)
        if isinstance(message, Propose):
            return steps.changes_register(self.on, s, message)
        return steps.starts_job(self.on, s, message)

    def after_all_messages_are_lost(self, s: State) -> State:
        """`s` with an empty network and without its past: where healing begins."""
        return self.normal(s._replace(network=frozenset(), acknowledged=frozenset(), starts=0, losses_left=0))

    def normal(self, s: State) -> State:
        """The one state that stands for all equal ones: all is sent that may be, nothing is kept that can have no
        effect, and of two states that differ in the numbering of workers one is chosen."""
        if not self.on.bound.separate_fsync:
            for i, r in enumerate(s.replicas):
                s = s if r.log == r.disk else s.with_replica(i, r._replace(disk=r.log))
        wire = {*s.network, *self.sends(s, 0), *self.sends(s, 1)}
        s = s._replace(network=frozenset(message for message in wire if self.can_matter(message, s, wire)))
        return s if not s.workers or in_worker_order(s) else renumbered(s)

    def sends(self, s: State, i: int) -> Iterator[Message]:
        """Messages that replica `i` may send now. The log may leave before the leader's own fsync; a leader may always
        ask to go on alone; a follower says "fsynced" of what is on its disk and known to be the leader's."""
        replica, rules = s.replicas[i], self.on.rules
        if replica.role == "leader":
            yield Append(replica.term, 1 - i, s.replicas[1 - i].db_uuid, replica.log)
            if replica.durability == 2 and replica.term < self.on.bound.terms:
                alone = Register(replica.term + 1, i, frozenset({steps.member(s, i)}), s.register.forced)
                yield Propose(replica.term, alone)
            for index, entry in enumerate(replica.log if s.workers else ()):
                planned_now = entry.what in STARTS and entry.term == replica.term
                if planned_now and (steps.durable(self.on, replica, index) or not rules.start_when_durable):
                    yield Start(replica.term, STARTS.index(entry.what))
        elif replica.verified and (replica.disk == replica.log or not rules.standby_fsync):
            yield Fsynced(replica.term, 1 - i, replica.db_uuid, replica.verified)

    def can_matter(self, message: Message, s: State, wire: set[Message]) -> bool:
        """True if the message can still have an effect, now or later."""
        rules = self.on.rules
        if isinstance(message, Propose):
            return message.expected >= s.register.term or not (rules.compare_and_set and rules.witness_durable)
        if isinstance(message, Start):
            worker = s.workers[message.worker]
            fenced = message.term < worker.term and rules.worker_refuses_old and rules.worker_term_durable
            return not fenced and not (worker.started and rules.worker_starts_once)
        to = s.replicas[message.to]
        if isinstance(message, Fsynced):
            news = (to.peer_db, to.peer_fsynced) != (message.db_uuid, message.length)
            news = news and not (to.peer_db == message.db_uuid and to.peer_fsynced > message.length)
            return to.role == "leader" and to.term == message.term and news
        refused = message.term < to.term and rules.follower_refuses_old and rules.follower_term_durable
        return message.db_uuid == to.db_uuid and not refused and not any(covers(other, message) for other in wire)


def covers(other: Message, message: Append) -> bool:
    """A longer log of the same leader stands for its prefixes, each of which a follower may receive."""
    if not isinstance(other, Append) or other[:3] != message[:3]:
        return False
    return len(other.log) > len(message.log) and other.log[: len(message.log)] == message.log


def renumbered(s: State) -> State:
    """The same with workers 0 and 1 exchanged."""
    one, two = (r._replace(log=_swapped(r.log), disk=_swapped(r.disk), inventory=r.inventory[::-1]) for r in s.replicas)
    return s._replace(
        replicas=(one, two),
        workers=s.workers[::-1],
        network=frozenset(_swapped_message(message) for message in s.network),
    )


def in_worker_order(s: State) -> bool:
    """True if the workers are in order: exactly one of a state and its renumbering is, unless they differ in logs on
    the wire only."""
    if s.workers[0] != s.workers[1]:
        return s.workers[0] < s.workers[1]
    for r in s.replicas:
        for log in (r.log, r.disk):
            for entry in log:
                if entry.what in STARTS:
                    return entry.what == STARTS[0]
        if r.inventory and r.inventory[0] != r.inventory[1]:
            return r.inventory[0] < r.inventory[1]
    told = sorted((message.worker, message.term) for message in s.network if isinstance(message, Start))
    return told <= sorted((1 - w, term) for w, term in told)


def _swapped(log: Log) -> Log:
    return tuple(Entry(STARTS[1 - STARTS.index(e.what)], e.term) if e.what in STARTS else e for e in log)


def _swapped_message(message: Message) -> Message:
    if isinstance(message, Start):
        return message._replace(worker=1 - message.worker)
    return message._replace(log=_swapped(message.log)) if isinstance(message, Append) else message
