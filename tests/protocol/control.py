"""CONTROL of PROMISES section 2 as a model: cancel, hold and release race with start, result and retry.

One origin, one destination, two indices of one group. What is assumed of the other models: the hand-over makes one copy
per (index, epoch), so that here one message COMMIT hands an index over; what both sides keep is durable (the standby's
model), so that a crash loses nothing but what a mutant keeps in memory. Messages are never forgotten while they can
matter: late, lost, doubled and reordered all follow. An attempt is an epoch here: the user's retry makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

Verb = Literal["cancel", "hold", "release"]
Phase = Literal["unknown", "waiting", "running", "stopping", "done", "cancelled"]
Outcome = Literal["", "done", "cancelled"]
INDEX_SETS = ((0,), (1,), (0, 1))


class Job(NamedTuple):
    """The origin's record of an index."""

    epoch: int = 1
    outcome: Outcome = ""
    verb: Verb = "release"
    """The last thing the user wanted of it in this epoch."""
    control_seq: int = 0
    """The CONTROL that said so; 0: none yet."""
    acknowledged: int = 0
    """The highest control_seq the destination said it has applied."""
    cancelled_epochs: tuple[int, ...] = ()
    """Ghost: the epochs the user asked to cancel."""


class Row(NamedTuple):
    """The destination's record of an index. "cancelled" is also the tombstone of one that never started."""

    epoch: int = 0
    phase: Phase = "unknown"
    held: bool = False
    control_seq: int = 0
    """The highest it applied."""


class Commit(NamedTuple):
    """Origin to destination: the index is yours to run."""

    epoch: int
    job: int


class Control(NamedTuple):
    """Origin to destination: what the user wants of these indices."""

    epoch: int
    control_seq: int
    verb: Verb
    indices: tuple[int, ...]


class Ack(NamedTuple):
    """Destination to origin: I have applied CONTROLs of this index up to here."""

    job: int
    epoch: int
    control_seq: int


class Result(NamedTuple):
    """Destination to origin: how the attempt of this epoch ended."""

    epoch: int
    job: int
    outcome: Outcome


Message = Commit | Control | Ack | Result


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...] = (Job(), Job())
    rows: tuple[Row, ...] = (Row(), Row())
    controls: tuple[Control, ...] = ()
    """Persisted at the origin; the last is the newest."""
    network: frozenset[Message] = frozenset()
    told: int = 0
    """Ghost: the highest control_seq a user was told is accepted."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    persisted_at_origin: bool = True
    """CONTROL is persisted at the origin before the user hears "accepted","""
    resent: bool = True
    """resent until acknowledged,"""
    names_epoch: bool = True
    """carries the epoch (a stale cancel never meets the new attempt)"""
    names_indices: bool = True
    """and the index set it speaks of;"""
    highest_seq_wins: bool = True
    """the highest control_seq wins, whatever arrives last;"""
    seq_durable: bool = True
    """the destination keeps the highest it applied over a crash."""
    ack_names_seq: bool = True
    """An acknowledgement says of which CONTROL it speaks."""
    tombstone: bool = True
    """Cancel of what has not started leaves a tombstone."""
    cancelling_until_acknowledged: bool = True
    """Until the destination has said so, a job shows CANCELLING, not CANCELLED."""
    first_result_wins: bool = True
    """A RESULT that arrives first wins."""


@dataclass(frozen=True)
class ControlModel:
    """Two indices, at most `controls` wishes of the user, at most `epochs` attempts of each index."""

    controls: int = 2
    epochs: int = 2
    rules: Rules = field(default_factory=Rules)
    users: bool = True
    """False: the user has said the last word."""

    def initial(self) -> State:
        """Both indices committed to the destination, nothing delivered."""
        return self.normal(State())

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        if self.users:
            yield from self.user_wants(s)
            yield from self.user_retries(s)
        yield from self.runs(s)
        yield from self.forgets(s)
        for message in s.network:
            yield from self.receives(s, message)

    def user_wants(self, s: State) -> Iterator[tuple[str, State]]:
        """CONTROL(epoch, control_seq, verb, indices) is persisted at the origin; then the user hears "accepted"."""
        seq = s.controls[-1].control_seq + 1 if s.controls else 1
        if seq > self.controls:
            return
        verbs: tuple[Verb, ...] = ("cancel", "hold", "release")
        for indices in INDEX_SETS:
            jobs = [s.jobs[i] for i in indices]
            if any(job.outcome or job.epoch != jobs[0].epoch or job.verb == "cancel" for job in jobs):
                continue
            for verb in verbs:
                if all(job.verb == verb for job in jobs):
                    continue
                control = Control(jobs[0].epoch, seq, verb, indices)
                after = s._replace(controls=(*s.controls, control), network=s.network | {control}, told=seq)
                for i in indices:
                    after = with_job(after, i, self.wanted(s.jobs[i], verb, seq))
                yield f"the user wants {verb} of {indices} of epoch {control.epoch}, control_seq {seq}", after

    def wanted(self, job: Job, verb: Verb, seq: int) -> Job:
        """The origin's view of an index after the user's wish."""
        job = job._replace(verb=verb, control_seq=seq)
        if verb != "cancel":
            return job
        at_once: Outcome = "" if self.rules.cancelling_until_acknowledged else "cancelled"
        return job._replace(outcome=at_once, cancelled_epochs=(*job.cancelled_epochs, job.epoch))

    def user_retries(self, s: State) -> Iterator[tuple[str, State]]:
        """The user's own retry is a new epoch."""
        for i, job in enumerate(s.jobs):
            if job.outcome and job.epoch < self.epochs:
                new = Job(epoch=job.epoch + 1, cancelled_epochs=job.cancelled_epochs)
                yield f"the user retries {i} as epoch {new.epoch}", with_job(s, i, new)

    def runs(self, s: State) -> Iterator[tuple[str, State]]:
        """A job that waits and is not held may start, one that runs may end; one told to stop (TERM, grace, KILL) is
        stopped, or was quicker."""
        for i, row in enumerate(s.rows):
            if row.phase == "waiting" and not row.held:
                yield f"{i} starts in epoch {row.epoch}", with_row(s, i, row._replace(phase="running"))
            if row.phase in ("running", "stopping"):
                yield f"{i} ends in epoch {row.epoch}", with_row(s, i, row._replace(phase="done"))
            if row.phase == "stopping":
                yield f"{i} is stopped in epoch {row.epoch}", with_row(s, i, row._replace(phase="cancelled"))

    def forgets(self, s: State) -> Iterator[tuple[str, State]]:
        """Only of mutants: what a crash takes that was in memory."""
        if not self.rules.seq_durable and any(row.control_seq for row in s.rows):
            one, two = (row._replace(control_seq=0) for row in s.rows)
            yield "the destination crashes", s._replace(rows=(one, two))
        if not self.rules.persisted_at_origin and s.controls:
            last = s.controls[-1]
            after = s._replace(controls=s.controls[:-1])
            for i in last.indices:
                if s.jobs[i].control_seq == last.control_seq:
                    after = with_job(after, i, Job(epoch=s.jobs[i].epoch, cancelled_epochs=s.jobs[i].cancelled_epochs))
            yield "the origin crashes", after

    def receives(self, s: State, message: Message) -> Iterator[tuple[str, State]]:
        """Steps of a message that arrives; it stays on the wire, and may arrive again."""
        if isinstance(message, Commit):
            yield from self.commits(s, message)
        elif isinstance(message, Control):
            yield self.applies(s, message)
        elif isinstance(message, Ack):
            yield from self.hears_ack(s, message)
        else:
            yield from self.hears_result(s, message)

    def commits(self, s: State, sent: Commit) -> Iterator[tuple[str, State]]:
        """The destination runs an epoch it does not know; a tombstone answers a late commit."""
        row = s.rows[sent.job]
        if row.epoch > sent.epoch or (row.epoch == sent.epoch and row.phase != "unknown"):
            return
        held = row.held and row.epoch == sent.epoch
        new = Row(sent.epoch, "waiting", held, row.control_seq)
        yield f"{sent.job} of epoch {sent.epoch} is runnable", with_row(s, sent.job, new)

    def applies(self, s: State, sent: Control) -> tuple[str, State]:
        """A CONTROL meets the indices it names, of the epoch it names, unless a higher one came first."""
        after = s
        for i in sent.indices if self.rules.names_indices else (0, 1):
            row = s.rows[i]
            ours = sent.epoch >= row.epoch or not self.rules.names_epoch
            if ours and (sent.control_seq > row.control_seq or not self.rules.highest_seq_wins):
                after = with_row(after, i, self.applied(row, sent))
        return f"the destination applies {sent.verb} of {sent.indices}, control_seq {sent.control_seq}", after

    def applied(self, row: Row, sent: Control) -> Row:
        """Cancel: not started, or unknown: tombstone; started: TERM, grace, KILL. Hold touches nothing that runs."""
        if sent.epoch > row.epoch:
            row = Row(sent.epoch, control_seq=row.control_seq)
        row = row._replace(control_seq=sent.control_seq)
        if sent.verb != "cancel":
            return row._replace(held=sent.verb == "hold")
        if row.phase == "running":
            return row._replace(phase="stopping")
        if row.phase in ("unknown", "waiting"):
            return (
                row._replace(phase="cancelled") if self.rules.tombstone else row._replace(phase="unknown", held=False)
            )
        return row

    def hears_ack(self, s: State, sent: Ack) -> Iterator[tuple[str, State]]:
        """The origin shows HELD, or no longer, when the destination has applied the CONTROL that said so."""
        job = s.jobs[sent.job]
        seq = sent.control_seq if self.rules.ack_names_seq else job.control_seq
        if sent.epoch == job.epoch and seq > job.acknowledged:
            heard = job._replace(acknowledged=seq)
            yield f"the origin hears that {sent.job} applied control_seq {seq}", with_job(s, sent.job, heard)

    def hears_result(self, s: State, sent: Result) -> Iterator[tuple[str, State]]:
        """A RESULT of the current epoch that arrives first wins, also over a cancel on its way."""
        job = s.jobs[sent.job]
        if sent.epoch != job.epoch or job.outcome:
            return
        outcome = sent.outcome
        if job.verb == "cancel" and not self.rules.first_result_wins:
            outcome = "cancelled"
        yield (
            f"the origin hears that {sent.job} is {sent.outcome}",
            with_job(s, sent.job, job._replace(outcome=outcome)),
        )

    def normal(self, s: State) -> State:
        """All is sent that may be, nothing kept that can have no effect, and the indices stand in one order."""
        wire = {*s.network, *self.sends(s)}
        s = s._replace(network=frozenset(message for message in wire if self.can_matter(s, message)))
        return min(s, exchanged(s), key=index_order)

    def sends(self, s: State) -> Iterator[Message]:
        """Messages that either side may send now: everything is said until it is answered."""
        for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
            if not job.outcome:
                yield Commit(job.epoch, i)
            if row.control_seq:
                yield Ack(i, row.epoch, row.control_seq)
            if row.phase in ("done", "cancelled"):
                yield Result(row.epoch, i, "done" if row.phase == "done" else "cancelled")
            elif not self.rules.tombstone and row.phase == "unknown" and job.verb == "cancel" and row.control_seq:
                yield Result(row.epoch, i, "cancelled")
        if self.rules.resent:
            yield from s.controls

    def can_matter(self, s: State, message: Message) -> bool:
        """True if the message can still have an effect."""
        if isinstance(message, Control):
            if not (self.rules.names_epoch and self.rules.highest_seq_wins and self.rules.seq_durable):
                return True
            named = message.indices if self.rules.names_indices else (0, 1)
            return any(message.control_seq > s.rows[i].control_seq and message.epoch >= s.rows[i].epoch for i in named)
        if isinstance(message, Commit):
            row = s.rows[message.job]
            return message.epoch > row.epoch or (message.epoch == row.epoch and row.phase in ("unknown", "waiting"))
        job = s.jobs[message.job]
        if isinstance(message, Ack):
            return message.epoch == job.epoch and message.control_seq > job.acknowledged
        return message.epoch == job.epoch and not job.outcome


def with_job(s: State, i: int, job: Job) -> State:
    """`s` with the origin's view of index `i` changed."""
    return s._replace(jobs=(job, s.jobs[1]) if i == 0 else (s.jobs[0], job))


def with_row(s: State, i: int, row: Row) -> State:
    """`s` with the destination's view of index `i` changed."""
    return s._replace(rows=(row, s.rows[1]) if i == 0 else (s.rows[0], row))


def exchanged(s: State) -> State:
    """The same with indices 0 and 1 exchanged."""
    return s._replace(
        jobs=s.jobs[::-1],
        rows=s.rows[::-1],
        controls=tuple(_exchanged(control) for control in s.controls),
        network=frozenset(_exchanged(m) if isinstance(m, Control) else m._replace(job=1 - m.job) for m in s.network),
    )


def index_order(s: State) -> tuple[object, ...]:
    """A total order of a state and its exchange, by all that names an index outside of answers on the wire."""
    return s.jobs, s.rows, s.controls, sorted(m for m in s.network if isinstance(m, Control))


def _exchanged(control: Control) -> Control:
    return control._replace(indices=tuple(sorted(1 - i for i in control.indices)))
