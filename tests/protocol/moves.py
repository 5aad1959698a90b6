"""Migration moves (SPEC D7) as a model: a custodian asks the origin to move work, which is exported at most once.

The custodian of work that may still start says MOVE(epoch, indices, to): to a site whose quote is better (an export),
or back, because it drains. The origin calls the indices back from it, as `recall.py` has it, and hands what came
back to `to` with the mark "exported". One origin, whose own site is 0 and a custodian like the others, and sites 1
and 2. What is assumed of the other models: COMMIT alone hands over (`handover.py`), a start is claimed durably, no
database is lost (`dbloss.py`). Messages are never forgotten while they can matter: late, lost, doubled and reordered
all follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

Indices = tuple[int, ...]
Phase = Literal["unknown", "runnable", "started", "finished", "revoked"]
INDEX_SETS: tuple[Indices, ...] = ((0,), (1,), (0, 1))
ANYWHERE = -1


class Job(NamedTuple):
    """The origin's record of an index."""

    site: int
    epoch: int = 1
    state: Literal["committed", "recalling", "local", "done"] = "committed"
    exported: bool = False
    """The mark."""
    to: int = ANYWHERE
    """Site it is to go to when it has come back."""
    asked: int = 0
    """Ghost: the epoch the MOVE spoke of that is being followed."""


class Row(NamedTuple):
    """A site's record of an index."""

    epoch: int = 0
    phase: Phase = "unknown"
    exported: bool = False


class Said(NamedTuple):
    """A message between the origin and a site; `to` and `exported` of MOVE and COMMIT."""

    what: Literal["COMMIT", "MOVE", "RECALL", "REVOKED", "RUNNING", "RESULT"]
    site: int
    epoch: int
    indices: Indices
    to: int = ANYWHERE
    exported: bool = False


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...]
    rows: tuple[tuple[Row, ...], ...]
    """Per index, per site."""
    network: frozenset[Said] = frozenset()
    starts: tuple[int, ...] = (0, 0)
    exports: tuple[int, ...] = (0, 0)
    """Ghosts: how often each index was started, and handed on as an export; two stands for more."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    recalls_first: bool = True
    """The origin offers elsewhere only what came back REVOKED, also from its own site."""
    splits: bool = True
    """Jobs that had started when RECALL came stay."""
    recalling_kept_first: bool = True
    """RECALLING is durable before RECALL is sent."""
    move_names_epoch: bool = True
    """MOVE names the epoch, and one of another epoch than the current changes nothing."""
    mark_travels: bool = True
    """The mark is in COMMIT and durable at the receiver, which asks for no export of what is marked."""
    mark_outlives_pull_back: bool = True
    """Work that is pulled back keeps its mark."""
    origin_checks_mark: bool = False
    """Not needed beside the rest, and stands in for `mark_travels`: the origin obeys no export of what is marked."""


@dataclass(frozen=True)
class Moves:
    """Two indices, at most `epochs` commits of each, begun at site `first`."""

    first: int = 1
    epochs: int = 3
    rules: Rules = field(default_factory=Rules)
    moving: bool = True
    """False: no site asks for anything any more."""
    drained: int = ANYWHERE
    """The site that asks, from some time on, for all it has to be taken back."""
    sites: tuple[int, ...] = (0, 1, 2)
    """Those there are."""

    def initial(self) -> State:
        """Both indices are committed to the first site."""
        return self.normal(State((Job(self.first),) * 2, ((Row(),) * 3,) * 2))

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        if self.moving:
            yield from self.custodians_ask(s)
        yield from self.origin_places(s)
        yield from self.sites_run(s)
        for said in s.network:
            yield from RECEIVES[said.what](self, s, said)

    # --- the custodians -------------------------------------------------------------------------------

    def custodians_ask(self, s: State) -> Iterator[tuple[str, State]]:
        """MOVE of runnable indices: what is not marked to another site, what is to be drained back."""
        for site in self.sites:
            for indices in INDEX_SETS:
                rows = [s.rows[i][site] for i in indices]
                if any(row.phase != "runnable" or row.epoch != rows[0].epoch for row in rows):
                    continue
                if site == self.drained:
                    back = Said("MOVE", site, rows[0].epoch, indices)
                    yield f"{site} drains, asks {indices} of epoch {back.epoch} back", told(s, back)
                for to in self.sites:
                    marked = any(row.exported for row in rows)
                    if to != site and not marked:
                        move = Said("MOVE", site, rows[0].epoch, indices, to)
                        yield f"{site} asks to move {indices} of epoch {move.epoch} to {to}", told(s, move)

    def sites_run(self, s: State) -> Iterator[tuple[str, State]]:
        """RUNNABLE -> started -> finished, each index at its own time."""
        for i, rows in enumerate(s.rows):
            for site, row in enumerate(rows):
                if row.phase == "runnable":
                    started = with_row(s, i, site, row._replace(phase="started"))
                    yield f"{site} starts {i} of epoch {row.epoch}", started._replace(starts=counted(s.starts, (i,)))
                if row.phase == "started":
                    yield f"{i} ends at {site}", with_row(s, i, site, row._replace(phase="finished"))

    def hears_commit(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Runnable, unless a tombstone or a higher epoch stands there."""
        after = s
        for i in said.indices:
            if s.rows[i][said.site].epoch < said.epoch:
                marked = said.exported and self.rules.mark_travels
                after = with_row(after, i, said.site, Row(said.epoch, "runnable", marked))
        yield f"{said.indices} of epoch {said.epoch} are runnable at {said.site}", after

    def hears_recall(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Not started, or unknown: tombstone, REVOKED; what has started stays."""
        after, gone = s, []
        for i in said.indices:
            row = s.rows[i][said.site]
            if row.epoch > said.epoch:
                continue
            unstarted = row.epoch < said.epoch or row.phase == "runnable"
            if unstarted:
                after = with_row(after, i, said.site, Row(said.epoch, "revoked"))
            if unstarted or not self.rules.splits:
                gone.append(i)
        revoked = Said("REVOKED", said.site, said.epoch, tuple(gone))
        yield f"{said.site} revokes {tuple(gone)} of epoch {said.epoch}", told(after, revoked) if gone else after

    # --- the origin -----------------------------------------------------------------------------------

    def hears_move(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """COMMITTED -> RECALLING, if MOVE is its custodian's and of the current epoch."""
        jobs = s.jobs
        for i in said.indices:
            job = s.jobs[i]
            current = job.site == said.site and (job.epoch == said.epoch or not self.rules.move_names_epoch)
            barred = self.rules.origin_checks_mark and job.exported and said.to != ANYWHERE
            if job.state == "committed" and current and job.epoch < self.epochs and not barred:
                state: Literal["recalling", "local"] = "recalling" if self.rules.recalls_first else "local"
                taken = job._replace(state=state, to=said.to, asked=said.epoch)
                jobs = (taken, jobs[1]) if i == 0 else (jobs[0], taken)
        taken_back = tuple(i for i in (0, 1) if jobs[i] != s.jobs[i])
        if not taken_back:
            return
        name = f"the origin obeys MOVE of {taken_back} of epoch {said.epoch} to {said.to}"
        sent = told(s, Said("RECALL", said.site, jobs[taken_back[0]].epoch, taken_back))
        yield name, sent._replace(jobs=jobs)
        if not self.rules.recalling_kept_first:
            yield f"{name}, and crashes before it is kept", sent

    def hears_revoked(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """RECALLING -> LOCAL, of the indices and the epoch that were revoked."""
        after = s
        for i in said.indices:
            job = s.jobs[i]
            if (job.state, job.site, job.epoch) == ("recalling", said.site, said.epoch):
                after = with_job(after, i, job._replace(state="local"))
        yield f"{said.indices} of epoch {said.epoch} came back from {said.site}", after

    def hears_running(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """It had started: COMMITTED as before, the move is off."""
        (i,) = said.indices
        job = s.jobs[i]
        if (job.state, job.site, job.epoch) == ("recalling", said.site, said.epoch):
            yield (
                f"the origin hears that {i} runs",
                with_job(s, i, job._replace(state="committed", to=ANYWHERE, asked=0)),
            )

    def hears_result(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The origin takes a result of the current epoch, also while the job is called back."""
        (i,) = said.indices
        job = s.jobs[i]
        if job.state in ("committed", "recalling") and (job.site, job.epoch) == (said.site, said.epoch):
            yield f"the origin hears that {i} is done", with_job(s, i, job._replace(state="done", to=ANYWHERE, asked=0))

    def origin_places(self, s: State) -> Iterator[tuple[str, State]]:
        """The origin places work that came back where it was to go, as an export; or, as that site may refuse,
        anywhere, as it is."""
        for indices in INDEX_SETS:
            job = s.jobs[indices[0]]
            if any(s.jobs[i] != job for i in indices) or job.state != "local":
                continue
            for site in self.sites:
                export = site == job.to
                pulled = job.to == ANYWHERE and not self.rules.mark_outlives_pull_back
                new = Job(site, job.epoch + 1, exported=export or (job.exported and not pulled))
                after = s._replace(jobs=tuple(new if i in indices else old for i, old in enumerate(s.jobs)))
                after = after._replace(exports=counted(s.exports, indices if export else ()))
                sent = told(after, Said("COMMIT", site, new.epoch, indices, exported=new.exported))
                yield f"the origin commits {indices} to {site} as epoch {new.epoch}{', exported' * export}", sent

    # --- what is sent ---------------------------------------------------------------------------------

    def normal(self, s: State) -> State:
        """All is sent that may be, nothing kept that can have no effect, and the indices stand in one order."""
        s = s._replace(network=frozenset(m for m in {*s.network, *self.sends(s)} if self.can_matter(s, m)))
        if (
            s.jobs == s.jobs[::-1]
            and s.rows == s.rows[::-1]
            and (s.starts, s.exports) == (s.starts[::-1], s.exports[::-1])
        ):
            return min(s, exchanged(s), key=lambda x: sorted(x.network))
        return min(s, exchanged(s), key=lambda x: (x.jobs, x.rows, x.starts, x.exports))

    def sends(self, s: State) -> Iterator[Said]:
        """Messages that are said again until they are answered, index by index."""
        for i, job in enumerate(s.jobs):
            if job.state == "committed":
                yield Said("COMMIT", job.site, job.epoch, (i,), exported=job.exported)
            if job.state == "recalling":
                yield Said("RECALL", job.site, job.epoch, (i,))
            for site, row in enumerate(s.rows[i]):
                if row.phase == "revoked":
                    yield Said("REVOKED", site, row.epoch, (i,))
                if row.phase in ("started", "finished"):
                    yield Said("RUNNING" if row.phase == "started" else "RESULT", site, row.epoch, (i,))

    def can_matter(self, s: State, said: Said) -> bool:
        """True if the message can still have an effect, now or later."""
        if said.what == "COMMIT":
            return any(s.rows[i][said.site].epoch < said.epoch for i in said.indices)
        if said.what == "RECALL":
            here = [s.rows[i][said.site] for i in said.indices]
            return any(row.epoch < said.epoch or (row.epoch == said.epoch and row.phase == "runnable") for row in here)
        jobs = [s.jobs[i] for i in said.indices]
        if said.what == "MOVE":
            named = self.rules.move_names_epoch
            return any(job.state != "done" and (job.epoch == said.epoch or not named) for job in jobs)
        states = ("recalling",) if said.what in ("REVOKED", "RUNNING") else ("recalling", "committed")
        may_be = "committed" if said.what == "REVOKED" else ""
        return any((job.site, job.epoch) == (said.site, said.epoch) and job.state in (*states, may_be) for job in jobs)


RECEIVES: dict[str, Callable[[Moves, State, Said], Iterator[tuple[str, State]]]] = {
    "COMMIT": Moves.hears_commit,
    "MOVE": Moves.hears_move,
    "RECALL": Moves.hears_recall,
    "REVOKED": Moves.hears_revoked,
    "RUNNING": Moves.hears_running,
    "RESULT": Moves.hears_result,
}


# --- what must hold ---------------------------------------------------------------------------------------


def nothing_is_started_twice(s: State) -> str | None:
    """Promise 3."""
    return next((f"{i} was started twice" for i, starts in enumerate(s.starts) if starts > 1), None)


def nothing_is_exported_twice(s: State) -> str | None:
    """SPEC D7: work is exported at most once."""
    return next((f"{i} was exported twice" for i, exports in enumerate(s.exports) if exports > 1), None)


def only_a_move_of_now_is_obeyed(s: State) -> str | None:
    """A stale MOVE changes nothing."""
    stale = [job for job in s.jobs if job.state == "recalling" and job.asked != job.epoch]
    return f"epoch {stale[0].epoch} is called back for a MOVE of epoch {stale[0].asked}" if stale else None


HARMS = (nothing_is_started_twice, nothing_is_exported_twice, only_a_move_of_now_is_obeyed)


def all_done(s: State) -> bool:
    """Promise 4."""
    return all(job.state == "done" for job in s.jobs)


def with_job(s: State, i: int, job: Job) -> State:
    """`s` with the origin's view of index `i` changed."""
    return s._replace(jobs=(job, s.jobs[1]) if i == 0 else (s.jobs[0], job))


def with_row(s: State, i: int, site: int, row: Row) -> State:
    """`s` with a site's view of index `i` changed."""
    rows = tuple(row if at == site else old for at, old in enumerate(s.rows[i]))
    return s._replace(rows=(rows, s.rows[1]) if i == 0 else (s.rows[0], rows))


def told(s: State, said: Said) -> State:
    """`s` with one message more."""
    return s._replace(network=s.network | {said})


def counted(counts: tuple[int, ...], indices: Indices) -> tuple[int, ...]:
    """`counts` with one more for each of `indices`."""
    return tuple(min(2, n + (i in indices)) for i, n in enumerate(counts))


def exchanged(s: State) -> State:
    """The same with indices 0 and 1 exchanged."""
    network = frozenset(said._replace(indices=tuple(sorted(1 - i for i in said.indices))) for said in s.network)
    return State(s.jobs[::-1], s.rows[::-1], network, s.starts[::-1], s.exports[::-1])
