"""Recall of a run that waits in a batch system, as a model: the node's engine, the cluster's book, the batch system,
and a mover that wants the job elsewhere, or held for a while.

One job. Durable are the engine's journal, the book's ledger, the gates that were kept, and what the batch system has;
a crash of the node takes everything else, at any moment: what engine and book were telling each other too. A power
failure takes the gates as well that the node made and did not keep; those that tasks made are on the disk of whoever
serves the files before their scripts go on. The batch system may start a task whenever it likes, kill it, start it
again, or lose it. Elsewhere the job is begun as soon as the journal says that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

MOST_COPIES = 2


class Array(NamedTuple):
    """An attempt as the book, the files and the batch system have it."""

    ledger: Literal["none", "unwritten", "open", "unbegun", "done", "dropped"] = "none"
    noted: bool = False
    """The ledger says that it was submitted."""
    gate: Literal["open", "node", "task", "gone"] = "open"
    """Gone: with its folder."""
    kept: bool = False
    copies: int = 0
    """Tasks of it that wait in the batch system."""
    running: bool = False
    ended: bool = False
    """Its script told so."""


class Said(NamedTuple):
    what: Literal["START", "RECALL", "FORGET", "READY", "UNBEGUN", "DONE"]
    attempt: int = 0
    known: tuple[int, ...] = ()
    """Attempts, in READY."""
    stale: bool = False
    """True for a message of a session before the book's last greeting."""


class Job(NamedTuple):
    """The journal. Clean: no attempt but the one at hand can have begun."""

    state: Literal["pending", "given", "gone", "done"] = "pending"
    attempt: int = 0
    clean: bool = True


class State(NamedTuple):
    """Everything at one instant."""

    arrays: tuple[Array, ...]
    job: Job = Job()
    wants: Literal["runs", "holds", "moves"] = "runs"
    """The standing order, in the journal."""
    up: bool = True
    in_touch: bool = False
    """The engine has heard the book's last greeting."""
    closing: bool = False
    """The book is at a RECALL."""
    to_book: tuple[Said, ...] = ()
    to_engine: tuple[Said, ...] = (Said("READY"),)
    starts: int = 0
    """Ghost: how often the job was begun, anywhere; two stands for more."""
    voided: bool = False
    """Ghost: some attempt was in no inventory. It counts as started, and may not go."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    task_makes_its_gate: bool = True
    """A task begins only what it made the gate of."""
    node_makes_the_gate: bool = True
    """The node tells UNBEGUN only of what it made the gate of; that it was seen waiting says nothing."""
    made_gate_is_left: bool = True
    """A task that has its gate runs on."""
    gate_kept_first: bool = True
    """The node's gate is on the disk before the end is written down."""
    written_before_submitted: bool = True
    """A run is in the ledger before the batch system hears of it."""
    ends_told_until_forgotten: bool = True
    """A greeting tells them all again,"""
    forgets_after_journal: bool = True
    """and they are forgotten when the journal has them."""
    ends_name_attempts: bool = True
    """An end is one attempt's."""
    starts_name_sessions: bool = True
    """An order from before the last greeting is not given."""
    folder_goes_at_once: bool = True
    """With all its gates."""
    recalled_at_greeting: bool = True
    """An order to give back is said again to a book that greets."""
    returned_may_go: bool = True
    """A job that came back each time it was given has not begun, whatever its attempt's number."""


@dataclass(frozen=True)
class BatchRecall:
    """At most `attempts` of them."""

    attempts: int = 2
    rules: Rules = field(default_factory=Rules)
    quiet: bool = False
    """No crash and no fault any more, and the mover's order stands."""
    busy: bool = False
    """The batch system starts nothing any more."""

    def initial(self) -> State:
        return State((Array(),) * self.attempts)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        if s.up:
            yield from self.mover(s)
            yield from self.engine(s)
            yield from self.book(s)
            if not self.quiet:
                yield "the node is killed", down(s)
                yield "the node loses power", down(without_power(s))
        else:
            yield "the node starts", greeting(s._replace(up=True), self.rules)
        for n, array in enumerate(s.arrays, 1):
            yield from self.batch_system(s, n, array)
        if s.job.state == "gone":
            yield "it is begun elsewhere, and ends", begun(s)._replace(job=Job("done"))

    # --- the mover and the engine ---------------------------------------------------------------------

    def mover(self, s: State) -> Iterator[tuple[str, State]]:
        """Holds and releases, and once and for all wants it elsewhere."""
        if self.quiet or s.wants == "moves" or s.job.state in ("gone", "done"):
            return
        yield "it is to go elsewhere", self.called_back(s._replace(wants="moves"))
        if s.wants == "holds":
            yield "it is released", s._replace(wants="runs")
        else:
            yield "it is held", self.called_back(s._replace(wants="holds"))

    def called_back(self, s: State) -> State:
        """Apply the order to a job that is given, or that waits."""
        if s.job.state == "given":
            return told(s, "RECALL")
        if s.wants == "moves" and s.job.state == "pending" and s.job.clean:
            return s._replace(job=Job("gone"))
        return s

    def engine(self, s: State) -> Iterator[tuple[str, State]]:
        """One event, one transaction, then what follows from it."""
        job = s.job
        free = s.wants == "runs" or (s.wants == "moves" and not job.clean)
        if job.state == "pending" and free and s.in_touch and job.attempt < self.attempts:
            given = job._replace(state="given", attempt=job.attempt + 1)
            yield f"attempt {given.attempt} is given", told(s._replace(job=given), "START", given.attempt)
        if not s.to_engine:
            return
        said, s = s.to_engine[0], s._replace(to_engine=s.to_engine[1:])
        if said.what == "READY":
            yield "the engine hears the greeting", self.hears_ready(s, said)
            return
        after = s
        mine = job.state == "given" and (job.attempt == said.attempt or not self.rules.ends_name_attempts)
        if mine and said.what == "DONE":
            after = s._replace(job=Job("done"))
        elif mine:
            clean = job.clean and (self.rules.returned_may_go or job.attempt == 1)
            after = self.called_back(s._replace(job=job._replace(state="pending", clean=clean)))
        yield f"the engine hears {said.what} of {said.attempt}", told(after, "FORGET", said.attempt)

    def hears_ready(self, s: State, said: Said) -> State:
        """The engine hears READY: a run the book never had is pending again; one that is over is forgotten there; an
        order to give back is said again."""
        job, after = s.job, s._replace(in_touch=not said.stale)
        for attempt in said.known:
            if job != Job("given", attempt, job.clean):
                after = told(after, "FORGET", attempt)
        if job.state == "given" and job.attempt not in said.known:
            return after._replace(job=job._replace(state="pending", clean=False), voided=True)
        return self.called_back(after) if s.wants != "runs" and self.rules.recalled_at_greeting else after

    # --- the book -------------------------------------------------------------------------------------

    def book(self, s: State) -> Iterator[tuple[str, State]]:
        """Each write by itself."""
        if s.in_touch:
            yield "the cluster is lost, and greets anew", greeting(s, self.rules)
        if s.to_book and not s.closing:
            yield from self.obeys(s._replace(to_book=s.to_book[1:]), s.to_book[0])
        for n, array in enumerate(s.arrays, 1):
            yield from self.follows(s, n, array)
        if s.closing and not any(array.ledger == "open" and array.gate == "node" for array in s.arrays):
            yield "the book is through with RECALL", s._replace(closing=False)

    def obeys(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """One order."""
        if said.what == "START":
            if (said.stale and self.rules.starts_name_sessions) or s.arrays[said.attempt - 1].ledger != "none":
                yield "a START is passed over", s
                return
            written: Literal["open", "unwritten"] = "open" if self.rules.written_before_submitted else "unwritten"
            yield f"attempt {said.attempt} is written down", with_array(s, said.attempt, ledger=written)
        elif said.what == "FORGET":
            forgotten = s.arrays[said.attempt - 1].ledger in ("unbegun", "done")
            yield f"attempt {said.attempt} is forgotten", self.dropped(s, said.attempt) if forgotten else s
        else:
            yield "the book closes gates", self.closes(s)

    def closes(self, s: State) -> State:
        """Close the gates of all that is open."""
        after = s._replace(closing=True)
        for n, array in enumerate(s.arrays, 1):
            if array.ledger == "open" and not self.rules.node_makes_the_gate and array.copies and not array.running:
                after = self.is_over(after, n, "UNBEGUN")
            elif array.ledger == "open" and array.gate == "open" and self.rules.node_makes_the_gate:
                after = with_array(after, n, gate="node", kept=False)
            elif array.ledger == "open" and array.gate == "task" and not self.rules.made_gate_is_left:
                after = self.is_over(after, n, "UNBEGUN")
        return after

    def follows(self, s: State, n: int, array: Array) -> Iterator[tuple[str, State]]:
        """An array, to its end."""
        if array.ledger == "unwritten":
            yield f"attempt {n} is written down", with_array(s, n, ledger="open")
        if array.ledger not in ("open", "unwritten"):
            return
        there = array.copies > 0 or array.running
        if not array.noted and array.gate == "open" and array.copies < MOST_COPIES:
            more = array._replace(copies=array.copies + 1)
            yield f"attempt {n} is submitted", with_array(s, n, **more._replace(noted=True)._asdict())
            if not self.quiet:
                yield f"attempt {n} is submitted unheard", with_array(s, n, **more._asdict())
        if array.ledger == "unwritten":
            return
        if not array.noted and there:
            yield f"attempt {n} is found there", with_array(s, n, noted=True)
        if array.gate == "node" and not array.kept:
            yield f"the gate of {n} is kept", with_array(s, n, kept=True)
        shut = array.gate == "node" and (array.kept or not self.rules.gate_kept_first)
        if shut and (s.closing or not there):
            yield f"attempt {n} never begins", self.is_over(s, n, "UNBEGUN")
        if array.ended or (array.gate == "task" and not there):
            yield f"attempt {n} is over", self.is_over(s, n, "DONE")
        if array.noted and array.gate == "open" and not there:
            yield f"attempt {n} is to be submitted anew", with_array(s, n, noted=False)

    def is_over(self, s: State, n: int, how: Literal["UNBEGUN", "DONE"]) -> State:
        """Written down, then told."""
        after = with_array(s, n, ledger="unbegun" if how == "UNBEGUN" else "done")
        after = after._replace(to_engine=(*after.to_engine, Said(how, n)))
        return after if self.rules.forgets_after_journal else self.dropped(after, n)

    def dropped(self, s: State, n: int) -> State:
        """Its folder goes; what waits in the batch system may wait on."""
        return with_array(s, n, ledger="dropped", gate="gone" if self.rules.folder_goes_at_once else "open")

    # --- the batch system -----------------------------------------------------------------------------

    def batch_system(self, s: State, n: int, array: Array) -> Iterator[tuple[str, State]]:
        """Whatever it likes."""
        if array.copies:
            fewer = with_array(s, n, copies=array.copies - 1)
            begins = array.gate == "open" or (array.gate != "gone" and not self.rules.task_makes_its_gate)
            if begins and not self.busy:
                yield f"a task of {n} begins", begun(with_array(fewer, n, gate="task", running=True))
            elif not begins and not self.busy:
                yield f"a task of {n} finds its gate made", fewer
            if not self.quiet:
                yield f"the batch system loses a task of {n}", fewer
        if array.running:
            over = with_array(s, n, running=False)
            yield f"attempt {n} ends", with_array(over, n, ended=True)
            if not self.quiet:
                yield f"attempt {n} is killed", over
                if array.copies < MOST_COPIES:
                    yield f"attempt {n} is killed and waits again", with_array(over, n, copies=array.copies + 1)


def greeting(s: State, rules: Rules) -> State:
    """The inventory, and all ends that are not forgotten."""
    known = tuple(n for n, array in enumerate(s.arrays, 1) if array.ledger in ("open", "unbegun", "done"))
    ends = tuple(
        Said("UNBEGUN" if array.ledger == "unbegun" else "DONE", n)
        for n, array in enumerate(s.arrays, 1)
        if array.ledger in ("unbegun", "done") and rules.ends_told_until_forgotten
    )
    old = tuple(said._replace(stale=True) if said.what == "READY" else said for said in s.to_engine)
    orders = tuple(said._replace(stale=True) if said.what == "START" else said for said in s.to_book)
    new = (Said("READY", known=known), *ends)
    return s._replace(in_touch=False, to_book=orders, to_engine=(*old, *new))


def down(s: State) -> State:
    """The node is dead."""
    arrays = tuple(a._replace(ledger="none") if a.ledger == "unwritten" else a for a in s.arrays)
    return s._replace(arrays=arrays, up=False, in_touch=False, closing=False, to_book=(), to_engine=())


def without_power(s: State) -> State:
    """The gates it did not keep are as if they had not been made."""
    arrays = tuple(a._replace(gate="open") if a.gate == "node" and not a.kept else a for a in s.arrays)
    return s._replace(arrays=arrays)


def told(s: State, what: Literal["START", "RECALL", "FORGET"], attempt: int = 0) -> State:
    """With one order more for the book; an order that says nothing new is none."""
    said = Said(what, attempt, stale=what == "START" and not s.in_touch)
    return s if said in s.to_book and what != "START" else s._replace(to_book=(*s.to_book, said))


def begun(s: State) -> State:
    return s._replace(starts=min(2, s.starts + 1))


def with_array(s: State, n: int, **changes: object) -> State:
    """`s` with attempt `n` changed."""
    changed = s.arrays[n - 1]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(arrays=(*s.arrays[: n - 1], changed, *s.arrays[n:]))


def normal(s: State) -> State:
    """Nothing is kept of what can have no effect any more."""
    arrays = tuple(
        Array("dropped", gate=a.gate)
        if a.ledger == "dropped" and not a.running and (not a.copies or a.gate == "gone")
        else a
        for a in s.arrays
    )
    return s._replace(arrays=arrays)


# --- what must hold ---------------------------------------------------------------------------------------


def nothing_is_begun_twice(s: State) -> str | None:
    """Promise 3."""
    return f"begun twice, {s.job.state}" if s.starts > 1 else None


def nothing_that_is_gone_began_here(s: State) -> str | None:
    """I4: what is given back has not begun, and never will."""
    return "it is gone, and began here" if s.job.state == "gone" and s.starts else None


HARMS = (nothing_is_begun_twice, nothing_that_is_gone_began_here)
