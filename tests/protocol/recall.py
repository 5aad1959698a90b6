"""RECALL of a partly started subgroup (PROMISES section 2) as a model: the started indices stay, the rest comes back.

One origin, one destination, two indices that were committed together. What is assumed of the other models: before
COMMIT(e) the destination holds an inert copy, so that COMMIT alone hands over (the hand-over's model); a start is
claimed durably (the claim); what both sides keep is durable, so that a crash takes only what a mutant said before it
kept it. What came back is started at the origin's own site, or committed again to the same destination under a higher
epoch. Messages are never forgotten while they can matter: late, lost, doubled and reordered all follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

Indices = tuple[int, ...]
INDEX_SETS: tuple[Indices, ...] = ((0,), (1,), (0, 1))


class Job(NamedTuple):
    """The origin's record of an index."""

    epoch: int = 1
    state: Literal["committed", "recalling", "local", "started here", "done"] = "committed"


class Row(NamedTuple):
    """The destination's record of an index; "revoked" is the tombstone."""

    epoch: int = 0
    phase: Literal["unknown", "runnable", "started", "finished", "revoked"] = "unknown"


class Said(NamedTuple):
    """A message between the two, about indices of one epoch."""

    what: Literal["COMMIT", "RECALL", "REVOKED", "RUNNING", "RESULT"]
    epoch: int
    indices: Indices


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...] = (Job(), Job())
    rows: tuple[Row, ...] = (Row(), Row())
    network: frozenset[Said] = frozenset({Said("COMMIT", 1, (0, 1))})
    starts: tuple[int, ...] = (0, 0)
    """Ghost: how often each index was started; two stands for more."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    local_only_on_revoked: bool = True
    """The origin goes LOCAL only on REVOKED."""
    splits: bool = True
    """Partly started subgroups split: the started indices stay, the rest is revoked."""
    revoked_names_indices: bool = True
    """REVOKED names the indices it speaks of,"""
    revoked_names_epoch: bool = True
    """and the epoch;"""
    recall_names_epoch: bool = True
    """so does RECALL."""
    tombstone_when_unknown: bool = True
    """Not started, *or unknown*: tombstone. A late COMMIT meets it."""
    persisted_before_reply: bool = True
    """The tombstone is durable before REVOKED is sent."""
    resent: bool = True
    """COMMIT and RECALL are sent until they are answered; the answer is given again."""


@dataclass(frozen=True)
class Recall:
    """Two indices, at most `epochs` commits of each."""

    epochs: int = 3
    rules: Rules = field(default_factory=Rules)
    recalls: bool = True
    """False: the origin recalls nothing any more."""

    def initial(self) -> State:
        """Both indices are committed, and the COMMIT is on its way."""
        return self.normal(State())

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        yield from self.origin_acts(s)
        yield from self.destination_runs(s)
        for said in s.network:
            yield from RECEIVES[said.what](self, s, said)

    def origin_acts(self, s: State) -> Iterator[tuple[str, State]]:
        """COMMITTED -> RECALLING; what is LOCAL is started here or committed again under a higher epoch."""
        for indices in INDEX_SETS:
            jobs = [s.jobs[i] for i in indices]
            epoch, state = jobs[0]
            if any(job != jobs[0] for job in jobs):
                continue
            if state == "committed" and self.recalls:
                taken = Job(epoch, "recalling" if self.rules.local_only_on_revoked else "local")
                yield f"the origin recalls {indices} of epoch {epoch}", self.told(s, "RECALL", indices, taken)
            if state == "local" and epoch < self.epochs:
                again = Job(epoch + 1, "committed")
                yield f"the origin commits {indices} as epoch {epoch + 1}", self.told(s, "COMMIT", indices, again)
        for i, job in enumerate(s.jobs):
            if job.state == "local":
                yield f"the origin starts {i}", started(with_jobs(s, (i,), job._replace(state="started here")), i)
            if job.state == "started here":
                yield f"{i} ends at the origin", with_jobs(s, (i,), job._replace(state="done"))

    def told(self, s: State, what: Literal["COMMIT", "RECALL"], indices: Indices, job: Job) -> State:
        """The origin's new state of `indices`, kept, and the message about them, sent."""
        return with_jobs(s, indices, job)._replace(network=s.network | {Said(what, job.epoch, indices)})

    def destination_runs(self, s: State) -> Iterator[tuple[str, State]]:
        """RUNNABLE -> started -> finished, each index at its own time."""
        for i, row in enumerate(s.rows):
            if row.phase == "runnable":
                yield f"the destination starts {i} of epoch {row.epoch}", started(with_row(s, i, row, "started"), i)
            if row.phase == "started":
                yield f"{i} of epoch {row.epoch} ends", with_row(s, i, row, "finished")

    def hears_commit(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Runnable, unless a tombstone or a higher epoch stands there."""
        after = s
        for i in said.indices:
            epoch, phase = s.rows[i]
            if epoch < said.epoch or (epoch == said.epoch and phase == "unknown"):
                after = with_row(after, i, Row(said.epoch), "runnable")
        yield f"{said.indices} of epoch {said.epoch} are runnable", after

    def hears_recall(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Not started, or unknown: tombstone. Started: it stays. The answer says which index is which."""
        after, gone = s, []
        for i in said.indices:
            row = s.rows[i]
            if row.epoch > said.epoch and self.rules.recall_names_epoch:
                continue
            epoch = max(row.epoch, said.epoch)
            unstarted = row.epoch < epoch or row.phase in ("unknown", "runnable")
            if unstarted or not self.rules.splits:
                gone.append(i)
            if row.epoch < epoch and not self.rules.tombstone_when_unknown:
                continue
            if unstarted:
                after = with_row(after, i, Row(epoch), "revoked")
        name = f"the destination hears RECALL of {said.indices} of epoch {said.epoch}, revokes {tuple(gone)}"
        answered = s.network | ({Said("REVOKED", said.epoch, tuple(gone))} if gone else set())
        yield name, after._replace(network=answered)
        if not self.rules.persisted_before_reply:
            yield f"{name}, answers and crashes", s._replace(network=answered)

    def hears_revoked(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """RECALLING -> LOCAL, of the indices and the epoch that were revoked."""
        after = s
        for i in said.indices if self.rules.revoked_names_indices else (0, 1):
            job = s.jobs[i]
            ours = job.epoch == said.epoch or not self.rules.revoked_names_epoch
            if job.state == "recalling" and ours:
                after = with_jobs(after, (i,), Job(job.epoch, "local"))
        yield f"the origin hears REVOKED of {said.indices} of epoch {said.epoch}", after

    def hears_running(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Started: the origin returns to COMMITTED."""
        (i,) = said.indices
        if s.jobs[i] == Job(said.epoch, "recalling"):
            yield f"the origin hears that {i} runs", with_jobs(s, (i,), Job(said.epoch, "committed"))

    def hears_result(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """A RESULT of the current epoch is accepted, also while recalling."""
        (i,) = said.indices
        if s.jobs[i].epoch == said.epoch and s.jobs[i].state in ("committed", "recalling"):
            yield f"the origin hears that {i} is done", with_jobs(s, (i,), Job(said.epoch, "done"))

    def normal(self, s: State) -> State:
        """All is sent that may be, and the indices stand in one order."""
        s = s._replace(network=frozenset(m for m in {*s.network, *self.sends(s)} if self.can_matter(s, m)))
        return min(s, exchanged(s), key=lambda x: (x.jobs, x.rows, x.starts, sorted(x.network)))

    def sends(self, s: State) -> Iterator[Said]:
        """Messages that are said again until they are answered, index by index; a tombstone and a start answer for
        themselves."""
        for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
            if self.rules.resent and job.state in ("committed", "recalling"):
                yield Said("COMMIT" if job.state == "committed" else "RECALL", job.epoch, (i,))
            if self.rules.resent and row.phase == "revoked":
                yield Said("REVOKED", row.epoch, (i,))
            if row.phase in ("started", "finished"):
                yield Said("RUNNING" if row.phase == "started" else "RESULT", row.epoch, (i,))

    def can_matter(self, s: State, said: Said) -> bool:
        """True if the message can still have an effect, now or later."""
        if said.what in ("COMMIT", "RECALL"):
            here = [s.rows[i] for i in said.indices]
            late = not self.rules.recall_names_epoch and said.what == "RECALL"
            return late or any(row.epoch <= said.epoch and row.phase != "finished" for row in here)
        if not (self.rules.revoked_names_epoch and self.rules.revoked_names_indices) and said.what == "REVOKED":
            return True
        return any(
            s.jobs[i].epoch == said.epoch and s.jobs[i].state in ("committed", "recalling") for i in said.indices
        )


RECEIVES: dict[str, Callable[[Recall, State, Said], Iterator[tuple[str, State]]]] = {
    "COMMIT": Recall.hears_commit,
    "RECALL": Recall.hears_recall,
    "REVOKED": Recall.hears_revoked,
    "RUNNING": Recall.hears_running,
    "RESULT": Recall.hears_result,
}


def nothing_is_started_twice(s: State) -> str | None:
    """Promise 3, I1: one start per index, whoever owns it by then."""
    twice = [i for i, starts in enumerate(s.starts) if starts > 1]
    return f"{twice[0]} was started twice" if twice else None


def nothing_that_came_back_may_still_start_there(s: State) -> str | None:
    """I4: at most one site holds a job runnable or running."""
    for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
        if job.state in ("local", "started here") and row.phase in ("runnable", "started"):
            return f"{i} is {job.state} and {row.phase} at the destination"
    return None


def all_done(s: State) -> bool:
    """Promise 4."""
    return all(job.state == "done" for job in s.jobs)


def with_jobs(s: State, indices: Indices, job: Job) -> State:
    """`s` with the origin's view of some indices changed."""
    return s._replace(jobs=tuple(job if i in indices else old for i, old in enumerate(s.jobs)))


def with_row(
    s: State, i: int, row: Row, phase: Literal["unknown", "runnable", "started", "finished", "revoked"]
) -> State:
    """`s` with the destination's phase of index `i` changed."""
    return s._replace(rows=tuple(row._replace(phase=phase) if i == j else old for j, old in enumerate(s.rows)))


def started(s: State, i: int) -> State:
    """`s` with one more start of index `i`."""
    return s._replace(starts=tuple(min(2, n + 1) if i == j else n for j, n in enumerate(s.starts)))


def exchanged(s: State) -> State:
    """The same with indices 0 and 1 exchanged."""
    network = frozenset(said._replace(indices=tuple(sorted(1 - i for i in said.indices))) for said in s.network)
    return State(s.jobs[::-1], s.rows[::-1], network, s.starts[::-1])
