"""The state of the hand-over's model (`handover.py`) at one instant, and states made from states."""

from __future__ import annotations

from typing import Literal, NamedTuple

Indices = tuple[int, ...]
INDEX_SETS: tuple[Indices, ...] = ((0,), (1,), (0, 1))
SITES = (0, 1)
Claim = Literal["free", "void", "claimed", "running", "ended", "unknown"]
OVER = ("ended", "unknown")


class Job(NamedTuple):
    """The origin's record of an index; `site` and `epoch` name the transfer it is or was in."""

    state: Literal["local", "offered", "committed", "started here", "done", "held"] = "local"
    site: int = -1
    epoch: int = 0


class Run(NamedTuple):
    """A destination's record of an index; "claims" are its spawner's, one per attempt."""

    phase: Literal["not ours", "waiting", "given", "revoked", "acknowledged"] = "not ours"
    attempt: int = 0
    claims: tuple[Claim, ...] = ("free", "free")

    @property
    def claim(self) -> Claim:
        """The claim of the attempt that counts."""
        return self.claims[self.attempt]


class Row(NamedTuple):
    """A destination's record of a transfer; "aborted" and "over" are the tombstones."""

    site: int
    epoch: int
    phase: Literal["prepared", "runnable", "aborted", "over"]
    runs: tuple[Run, ...] = (Run(), Run())


class Said(NamedTuple):
    """A message about the transfer (site, epoch): to or from its destination, or from there to the spawner."""

    what: Literal["PREPARE", "PREPARED", "COMMIT", "ABORTED", "START", "RESULT", "ACK"]
    site: int
    epoch: int
    indices: Indices = ()
    attempt: int = 0


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...] = (Job(), Job())
    epoch: int = 0
    """The highest an offer had."""
    rows: tuple[Row, ...] = ()
    network: frozenset[Said] = frozenset()
    starts: tuple[int, ...] = (0, 0)
    """Ghost: how often each index was started; two stands for more."""
    accepted: tuple[int, ...] = (0, 0)
    """Ghost: how many results of it were accepted."""

    def row(self, said: Said) -> Row | None:
        """The destination's record of the transfer, if it has one."""
        return next((row for row in self.rows if (row.site, row.epoch) == said[1:3]), None)


def with_jobs(s: State, indices: Indices, job: Job) -> State:
    """`s` with the origin's view of some indices changed."""
    return s._replace(jobs=tuple(job if i in indices else old for i, old in enumerate(s.jobs)))


def with_row(s: State, old: Row, new: Row | None) -> State:
    """`s` with what a destination keeps of `old`'s transfer changed, or forgotten."""
    rest = [row for row in s.rows if row[:2] != old[:2]]
    return s._replace(rows=tuple(sorted([*rest, new] if new else rest)))


def with_run(s: State, row: Row, i: int, run: Run) -> State:
    """`s` with one run of a row changed."""
    return with_row(s, row, row._replace(runs=tuple(run if i == j else old for j, old in enumerate(row.runs))))


def claimed(run: Run, attempt: int, claim: Claim) -> Run:
    """`run` with the spawner's view of an attempt changed."""
    return run._replace(claims=tuple(claim if n == attempt else old for n, old in enumerate(run.claims)))


def told(s: State, said: Said) -> State:
    """`s` with one message more."""
    return s._replace(network=s.network | {said})


def started(s: State, i: int) -> State:
    """`s` with one more start of index `i`."""
    return s._replace(starts=tuple(min(2, n + (i == j)) for j, n in enumerate(s.starts)))


def accepted(s: State, i: int) -> State:
    """`s` with one more result of index `i` accepted."""
    return s._replace(accepted=tuple(min(2, n + (i == j)) for j, n in enumerate(s.accepted)))


def exchanged(s: State) -> State:
    """The same with indices 0 and 1 exchanged."""
    return s._replace(
        jobs=s.jobs[::-1],
        rows=tuple(row._replace(runs=row.runs[::-1]) for row in s.rows),
        network=frozenset(m._replace(indices=tuple(sorted(1 - i for i in m.indices))) for m in s.network),
        starts=s.starts[::-1],
        accepted=s.accepted[::-1],
    )


def index_order(s: State) -> tuple[object, ...]:
    """An order of a state and its exchange, by all but messages."""
    return s.jobs, s.rows, s.starts, s.accepted
