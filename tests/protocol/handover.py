"""The hand-over proper (PROMISES section 2, steps 1 to 9, abort, claim) as a model: one commit point, inert copies.

One origin, two destinations, two indices that are offered together or apart. What is assumed of the other models:
recall is one step here (`recall.py` takes it apart) and splits what is partly started; no database is lost or put back
(`dbloss.py`), so that a crash takes only what a mutant said before it kept it; a START is given to the spawner on a
stream in order, so that none arrives after its run was forgotten. Not messages here: ABORT, which only hastens what
the destination may do by itself, and the answer to COMMIT, which only ends its repetition. Messages are never
forgotten while they can matter: late, lost, doubled and reordered all follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.protocol.handover_state import (
    INDEX_SETS,
    OVER,
    SITES,
    Indices,
    Job,
    Row,
    Run,
    Said,
    State,
    accepted,
    claimed,
    exchanged,
    index_order,
    started,
    told,
    with_jobs,
    with_row,
    with_run,
)
from tests.protocol.search import Step


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    epoch_rises: bool = True
    """The epoch rises with every offer;"""
    names_epoch: bool = True
    """every message names it, and one of another epoch changes nothing at the origin."""
    inert: bool = True
    """A PREPARED copy does not run."""
    prepared_kept_first: bool = True
    """It is durable before PREPARED is said."""
    commit_kept_first: bool = True
    """COMMITTED is durable before COMMIT is said: the commit point."""
    aborts_offers_only: bool = True
    """The origin takes back by itself only what is OFFERED."""
    tombstone_when_dropped: bool = True
    """The destination drops an old PREPARED only by writing ABORTED(e), which answers a late COMMIT."""
    resent: bool = True
    """COMMIT is sent until it is answered; answers are given again."""
    given_kept_first: bool = True
    """STARTING is durable before the spawner is asked."""
    given_counts_as_started: bool = True
    """A run that was given to the spawner is not revoked."""
    claim_before_exec: bool = True
    """The spawner's claim is durable before exec."""
    void_asks_spawner: bool = True
    """A new attempt only after the spawner has voided the claim of the old one."""
    result_once: bool = True
    """The origin accepts one result of a job."""
    tombstone_when_over: bool = True
    """An acknowledged transfer leaves a tombstone, which meets a late PREPARE and COMMIT."""


@dataclass(frozen=True)
class Handover:
    """Two indices, at most `epochs` offers and `attempts` (1 or 2) attempts in each."""

    epochs: int = 2
    attempts: int = 2
    rules: Rules = field(default_factory=Rules)
    recalls: bool = True
    """False: nothing is recalled any more, no time-out passes."""

    def initial(self) -> State:
        """Nothing is offered yet."""
        return self.normal(State())

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        yield from self.origin_offers(s)
        yield from self.origin_takes_back(s)
        for row in s.rows:
            yield from self.destination_acts(s, row)
            for i, run in enumerate(row.runs):
                yield from self.runs_at(s, row, i, run)
        for said in s.network:
            yield from RECEIVES[said.what](self, s, said)

    # --- the origin -----------------------------------------------------------------------------------

    def origin_offers(self, s: State) -> Iterator[tuple[str, State]]:
        """LOCAL -> OFFERED(e + 1, D), or started here."""
        local = tuple(i for i, job in enumerate(s.jobs) if job.state == "local")
        epoch = s.epoch + 1 if self.rules.epoch_rises else 1
        for indices in INDEX_SETS:
            if epoch > self.epochs or not set(indices) <= set(local):
                continue
            for site in SITES if s.epoch else SITES[:1]:
                offered = with_jobs(s, indices, Job("offered", site, epoch))._replace(epoch=epoch)
                said = Said("PREPARE", site, epoch, indices)
                yield f"the origin offers {indices} to D{site} as epoch {epoch}", told(offered, said)
        for i in local:
            yield f"the origin starts {i}", started(with_jobs(s, (i,), Job("started here")), i)
        for i, job in enumerate(s.jobs):
            if job.state == "started here":
                yield f"{i} ends at the origin", accepted(with_jobs(s, (i,), Job("done")), i)

    def origin_takes_back(self, s: State) -> Iterator[tuple[str, State]]:
        """OFFERED -> LOCAL, which is the origin's decision alone (presumed abort)."""
        for state in ("offered",) if self.rules.aborts_offers_only else ("offered", "committed"):
            for epoch in {job.epoch for job in s.jobs if job.state == state} if self.recalls else ():
                indices = tuple(i for i, job in enumerate(s.jobs) if job[::2] == (state, epoch))
                yield f"the origin takes {indices} of epoch {epoch} back", with_jobs(s, indices, Job())

    def hears_prepared(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """OFFERED -> COMMITTED, the commit point; then COMMIT."""
        indices = self.answered(s, said, "offered")
        if not indices:
            return
        job = s.jobs[indices[0]]
        commit = Said("COMMIT", job.site, job.epoch)
        kept = with_jobs(s, indices, job._replace(state="committed"))
        yield f"the origin commits {indices} of epoch {job.epoch}", told(kept, commit)
        if not self.rules.commit_kept_first:
            yield f"the origin says COMMIT of epoch {job.epoch} and crashes", told(s, commit)

    def hears_aborted(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The tombstone stands, so that this epoch can never run there."""
        indices = self.answered(s, said, "offered", "committed")
        yield f"the origin hears ABORTED of epoch {said.epoch}, takes {indices} back", with_jobs(s, indices, Job())

    def hears_result(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """e is current -> DONE; a repetition is acknowledged again, and counts for nothing."""
        (i,) = said.indices
        job = s.jobs[i]
        if i in self.answered(s, said, "committed", "held", "done"):
            if job.state == "committed":
                done = job._replace(state="done" if said.attempt == 0 else "held")
                yield f"the origin accepts the result of {i}", accepted(with_jobs(s, (i,), done), i)
            elif not self.rules.result_once:
                yield f"the origin accepts the result of {i} again", accepted(s, i)

    def answered(self, s: State, said: Said, *states: str) -> Indices:
        """The indices that wait for this answer."""
        return tuple(
            i
            for i, job in enumerate(s.jobs)
            if job.state in states
            and job.site == said.site
            and (job.epoch == said.epoch or not self.rules.names_epoch)
            and (not said.indices or i in said.indices)
        )

    # --- a destination --------------------------------------------------------------------------------

    def destination_acts(self, s: State, row: Row) -> Iterator[tuple[str, State]]:
        """An old PREPARED is dropped; an index that was not given to the spawner may be called back."""
        name = f"epoch {row.epoch}"
        if row.phase == "prepared" and self.recalls:
            dropped = Row(row.site, row.epoch, "aborted") if self.rules.tombstone_when_dropped else None
            yield f"D{row.site} drops {name}", with_row(s, row, dropped)
        for i, run in enumerate(row.runs if row.phase == "runnable" and self.recalls else ()):
            revocable = run.phase == "waiting" or (run.phase == "given" and not self.rules.given_counts_as_started)
            if revocable and s.jobs[i] == Job("committed", row.site, row.epoch):
                revoked = with_run(s, row, i, run._replace(phase="revoked"))
                yield f"{i} of {name} is called back from D{row.site}", with_jobs(revoked, (i,), Job())

    def hears_prepare(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Unknown -> PREPARED, inert; a repetition gets the same answer."""
        if s.row(said) is not None:
            return
        runs = tuple(Run("waiting" if i in said.indices else "not ours") for i in (0, 1))
        row = Row(said.site, said.epoch, "prepared" if self.rules.inert else "runnable", runs)
        name = f"D{said.site} prepares {said.indices} of epoch {said.epoch}"
        yield name, with_row(s, row, row)
        if not self.rules.prepared_kept_first:
            yield f"{name}, says so and crashes", told(s, Said("PREPARED", said.site, said.epoch))

    def hears_commit(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """PREPARED -> RUNNABLE, unless a tombstone stands there."""
        row = s.row(said)
        if row is not None and row.phase == "prepared":
            yield f"epoch {row.epoch} is runnable at D{row.site}", with_row(s, row, row._replace(phase="runnable"))
        if row is None and not self.rules.tombstone_when_dropped:
            aborted = Said("ABORTED", said.site, said.epoch)
            yield f"D{said.site} does not know epoch {said.epoch} any more and says so", told(s, aborted)

    def hears_ack(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The result stands at the origin: when that is so of all, the tombstone is what remains."""
        row = s.row(said)
        (i,) = said.indices
        if row is None or row.phase != "runnable" or row.runs[i].claim not in OVER:
            return
        after = with_run(s, row, i, row.runs[i]._replace(phase="acknowledged"))
        now = after.row(said)
        if now is not None and all(run.phase in ("not ours", "revoked", "acknowledged") for run in now.runs):
            after = with_row(after, now, Row(*now[:2], "over") if self.rules.tombstone_when_over else None)
        yield f"D{row.site} hears that the result of {i} is accepted", after

    # --- its spawner ----------------------------------------------------------------------------------

    def runs_at(self, s: State, row: Row, i: int, run: Run) -> Iterator[tuple[str, State]]:
        """RUNNABLE -> STARTING(attempt n) -> claimed -> running -> ended, or voided before it was claimed."""
        name = f"{i} of epoch {row.epoch} at D{row.site}"
        if row.phase == "runnable" and run.phase == "waiting":
            yield f"{name} is given to the spawner", with_run(s, row, i, run._replace(phase="given"))
            if not self.rules.given_kept_first:
                start = Said("START", row.site, row.epoch, (i,), run.attempt)
                yield f"{name} is given to the spawner before that is kept; D{row.site} crashes", told(s, start)
        if run.phase == "given" and run.claim == "free" and run.attempt + 1 < self.attempts:
            void = claimed(run, run.attempt, "void") if self.rules.void_asks_spawner else run
            again = void._replace(phase="waiting", attempt=run.attempt + 1)
            yield f"the claim of {name} is voided", with_run(s, row, i, again)
        for n, claim in enumerate(run.claims):
            if claim == "claimed":
                yield f"{name} is started", started(with_run(s, row, i, claimed(run, n, "running")), i)
                yield (
                    f"the spawner dies between claim and exec of {name}",
                    with_run(s, row, i, claimed(run, n, "unknown")),
                )
            if claim == "running":
                yield f"{name} ends", with_run(s, row, i, claimed(run, n, "ended"))

    def hears_start(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Claimed once, unless it is void."""
        row = s.row(said)
        (i,) = said.indices
        if row is None or row.runs[i].claims[said.attempt] != "free":
            return
        name = f"the spawner claims {i} of epoch {said.epoch}, attempt {said.attempt}"
        yield name, with_run(s, row, i, claimed(row.runs[i], said.attempt, "claimed"))
        if not self.rules.claim_before_exec:
            yield f"{name}: it starts it first and dies before the claim is kept", started(s, i)

    # --- what is sent ---------------------------------------------------------------------------------

    def normal(self, s: State) -> State:
        """All is sent that may be, nothing kept that can have no effect, and the indices stand in one order."""
        network = frozenset(m for m in {*s.network, *self.sends(s)} if self.can_matter(s, m))
        s = s._replace(network=network)
        key, other = index_order(s), index_order(exchanged(s))
        if key != other:
            return s if key < other else exchanged(s)
        return min(s, exchanged(s), key=lambda x: sorted(x.network))

    def sends(self, s: State) -> Iterator[Said]:
        """Messages that are said again until they are answered."""
        for i, job in enumerate(s.jobs):
            if job.state == "offered":
                together = tuple(j for j, other in enumerate(s.jobs) if other == job)
                yield Said("PREPARE", job.site, job.epoch, together)
            if job.state == "committed" and self.rules.resent:
                yield Said("COMMIT", job.site, job.epoch)
            if job.state in ("done", "held") and job.epoch:
                yield Said("ACK", job.site, job.epoch, (i,))
        for row in s.rows:
            if row.phase == "prepared" or (row.phase == "runnable" and not self.rules.inert):
                yield Said("PREPARED", row.site, row.epoch)
            if row.phase == "aborted":
                yield Said("ABORTED", row.site, row.epoch)
            for i, run in enumerate(row.runs):
                if run.phase == "given":
                    yield Said("START", row.site, row.epoch, (i,), run.attempt)
                if run.claim in OVER and run.phase == "given":
                    yield Said("RESULT", row.site, row.epoch, (i,), OVER.index(run.claim))

    def can_matter(self, s: State, said: Said) -> bool:
        """True if the message can still have an effect, now or later."""
        row, rules = s.row(said), self.rules
        phase = "unknown" if row is None else row.phase
        forgets = not (rules.tombstone_when_over and rules.tombstone_when_dropped)
        if said.what == "PREPARE":
            return phase == "unknown" or forgets
        if said.what == "COMMIT":
            return phase in ("unknown", "prepared") or forgets
        if said.what == "START":
            return (
                row is not None and row.phase == "runnable" and row.runs[said.indices[0]].claims[said.attempt] == "free"
            )
        if said.what == "ACK":
            return row is not None and row.phase == "runnable" and row.runs[said.indices[0]].phase == "given"
        if not (rules.names_epoch and rules.epoch_rises):
            return True
        waiting: dict[str, tuple[str, ...]] = {"PREPARED": ("offered",), "ABORTED": ("offered", "committed")}
        again = () if rules.result_once else ("done", "held")
        return bool(self.answered(s, said, *waiting.get(said.what, ("committed", "offered", *again))))


RECEIVES: dict[str, Callable[[Handover, State, Said], Iterator[tuple[str, State]]]] = {
    "PREPARE": Handover.hears_prepare,
    "PREPARED": Handover.hears_prepared,
    "COMMIT": Handover.hears_commit,
    "ABORTED": Handover.hears_aborted,
    "START": Handover.hears_start,
    "RESULT": Handover.hears_result,
    "ACK": Handover.hears_ack,
}
