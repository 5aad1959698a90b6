"""Claiming for co-allocation as a model: the components of a gang start together, or none does (SPEC K5 to K7;
PROMISES section 4: I1, I4, I7).

The node does not run gangs yet. A component stands at one site under an epoch of its own. The origin arbitrates, as in
the hand-over: it places the components (JPT), asks for their claims one by one or all at once (JCT), and when all are
claimed one durable record, GO, releases all of them: the commit point. Before GO it gives up at will, for nothing can
start. After GO it waits for the word, or for the end of the lease, of every component before it places the job anew.
A site keeps a claim before it speaks of it, holds the processors, lets the task wait at a barrier, and closes the
claim by itself when it hears nothing. Where a better claim waits for one at the barrier, the site asks the lesser one's
origin to YIELD. `claiming_setting` lists the sentences, `claiming_steps` has the steps, `claiming_rules` says what must
hold, `claiming_lease` why "its lease is surely over" may be believed.

A site may lie: it claims what it was never offered, says YIELD, CLOSED, RESULT and CLAIMED of components that are
elsewhere or under an older epoch, and speaks to other sites as if it were the origin. Against that, the engine must
check of every message before anything comes of it:

1. The sender, as its certificate names it, is the site at which the message says that the component is. No site
   speaks for another.
2. The component is there now: its current site and its current epoch, exactly. A site that had it under an older
   epoch has no say in it any more, whatever epoch it names.
3. A claim of what the origin did not place there is no claim: it never moves the component, and a job that is not
   being claimed hears none.
4. A YIELD ends a claim before GO only (after it, for a job that may be pre-empted only), and a CLOSED closes the one
   component that it names. The gang is over when every component of it is closed.
5. A site hears CLAIM, RELEASE and ABORT of a component from the origin that handed it over, and from nobody else.

6. An origin that waits for a component gives the others up before their deadline, and places anew what was not
   claimed at another site than the one that failed it. Else a site that is silent makes claims lapse under a GO, and
   tries never end.

Then a lie reaches no farther than the component that the liar was given: it may fail that one, as any site may, and the
gang with it; a gang that has no component there does not notice. That is as far as checks can go: the liar may claim
without processors and report a result of its own making (PROMISES 1.9).

Two networks. Late: what was ever said may arrive at any later time, any number of times, or never. Else: a message
arrives while its sender would say it (again), and tries have no bound. Assumed of other models: a task's gate is passed
once (`batch_recall`), and what is durable stays so. A crash takes what was only in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from tests.protocol import claiming_steps as steps
from tests.protocol.claiming_setting import Rules, Setting, World
from tests.protocol.claiming_state import (
    CAN_BE_ABORTED,
    SETTLED,
    SITES_SAY,
    Job,
    Message,
    Part,
    Row,
    State,
)
from tests.protocol.search import Kind, Step

Made = TypeVar("Made")
OfOneJob = Callable[[int, Job, tuple[Row, ...]], Made]
NOTHING: frozenset[Message] = frozenset()


class Claiming:
    """The protocol, or a mutant of it, in a world of bounded size."""

    def __init__(self, world: World, rules: Rules | None = None) -> None:
        self.world, self.rules = world, rules or Rules()
        self.on = Setting(world, self.rules)
        self._known: dict[tuple[OfOneJob[Any], int, Job, tuple[Row, ...]], Any] = {}
        self._onward: dict[State, list[Step[State]]] = {}
        self._yieldable = frozenset({"stands", "runs"} if world.preempts else {"stands"})
        self._old_words_matter = not (self.rules.epochs and self.rules.tombstone)

    def initial(self) -> State:
        """All is to be placed."""
        jobs = tuple(
            Job("placing", tuple(Part(sites[0], 0, "closed") for sites in parts)) for parts in self.world.allowed
        )
        return self.normal(jobs, (Row(),) * len(self.on.places), (0,) * len(self.world.processors), NOTHING)

    def calm(self) -> Claiming:
        """The same where no message is late: the model whose liveness is asked for."""
        return Claiming(replace(self.world, late=False), self.rules) if self.world.late else self

    def with_all_messages_lost(self, s: State) -> State:
        """`s`, a state of this model or of one whose messages are late, with nothing under way."""
        return self.normal(s.jobs, s.rows, s.local, NOTHING)

    def transitions(self, s: State) -> Iterable[Step[State]]:
        """All that may happen next."""
        if s in self._onward:
            return self._onward[s]
        onward = [Step(name, self.normal(*after, s.network), kind) for name, kind, *after in self.moves(s)]  # type: ignore[call-arg]
        if not self.world.late:
            self._onward[s] = onward
        return onward

    def moves(self, s: State) -> Iterator[tuple[str, Kind, steps.Jobs, steps.Rows, steps.Local]]:
        """The same, before the states are brought into normal form."""
        jobs, rows, local, network = s
        for message in sorted(network if self.world.late else self.said(jobs, rows, local)):
            for name, jobs_after, rows_after in steps.hears(self.on, jobs, rows, message):
                if rows_after != rows or jobs_after != jobs:
                    yield name, "by itself", jobs_after, rows_after, local
        for name, kind, jobs_after in steps.origins(self.on, jobs, rows):
            yield name, kind, jobs_after, rows, local
        for name, kind, rows_after, local_after in steps.sites(self.on, rows, local):
            yield name, kind, jobs, rows_after, local_after
        for name, jobs_after, rows_after in steps.lies(self.on, jobs, rows):
            if rows_after != rows or jobs_after != jobs:
                yield name, "whim", jobs_after, rows_after, local

    # --- what is said -------------------------------------------------------------------------------------

    def said(self, jobs: steps.Jobs, rows: steps.Rows, local: steps.Local) -> set[Message]:
        """All that somebody says (again) in this state."""
        out: set[Message] = set()
        for at, job in enumerate(jobs):
            out |= self._cached(self._said_of, at, job, rows[self.on.of_job[at]])
        if self.rules.ranks and self.rules.lets_go:
            for n, place in enumerate(self.on.places):
                lesser = self.on.better[n] and rows[n].state in self._yieldable and self.on.better_waits(rows, n)
                if lesser and self.on.free(rows, local, place.site) <= 0:
                    out.add(Message("YIELD", *place, rows[n].epoch))
        return out

    def _said_of(self, at: int, job: Job, mine: tuple[Row, ...]) -> frozenset[Message]:
        """Words of a job's origin and sites. An origin answers CLAIMED of what it gave up with ABORT."""
        out: set[Message] = set()
        for place, (epoch, state) in zip(self.on.places[self.on.of_job[at]], mine, strict=True):
            current = job.phase != "placing" and job.parts[place.part][:2] == (place.site, epoch)
            if state in CAN_BE_ABORTED and not current:
                out.add(Message("ABORT", *place, epoch))
            out |= {Message(what, *place, epoch) for what, when in SITES_SAY if state in when}
        for c, (site, epoch, known, _) in enumerate(job.parts):
            if job.phase == "claiming" and known == "asked":
                out.add(Message("CLAIM", at, c, site, epoch))
            elif job.phase in ("going", "released", "giving up") and known not in SETTLED:
                out.add(Message("ABORT" if job.phase == "giving up" else "RELEASE", at, c, site, epoch))
        return frozenset(out)

    def _matters(self, jobs: steps.Jobs, rows: steps.Rows, m: Message) -> bool:
        """False: whenever it arrives from now on, it changes nothing."""
        if m.what in steps.SITES_WORDS:
            phase, parts = jobs[m.job]
            site, epoch, known, _ = parts[m.part]
            return phase not in ("placing", "done") and (site, epoch) == (m.site, m.epoch) and known not in SETTLED
        if m.site == self.world.liar:
            return False
        epoch, state = rows[self.on.number(m)]
        if m.epoch != epoch or m.what == "CLAIM":
            return m.epoch > epoch
        return state in CAN_BE_ABORTED and (m.what == "ABORT" or state != "runs")

    # --- normal form --------------------------------------------------------------------------------------

    def normal(self, jobs: steps.Jobs, rows: steps.Rows, local: steps.Local, network: frozenset[Message]) -> State:
        """The one state that stands for all equal ones."""
        if self.world.late:
            said = network | self.said(jobs, rows, local)
            if not self._old_words_matter:
                said = frozenset(m for m in said if self._matters(jobs, rows, m))
            return State(jobs, rows, local, said)
        parts = [self._cached(self._renumbered, at, job, rows[self.on.of_job[at]]) for at, job in enumerate(jobs)]
        return State(tuple(job for job, _ in parts), sum((mine for _, mine in parts), ()), local, network)

    def _renumbered(self, at: int, job: Job, mine: tuple[Row, ...]) -> tuple[Job, tuple[Row, ...]]:
        """Epochs numbered anew; closed rows of older ones can have no effect any more."""
        places, parts, rows = self.on.places[self.on.of_job[at]], [], list(mine)
        for c, (site, epoch, known, failed) in enumerate(job.parts):
            some = [n for n, place in enumerate(places) if place.part == c]
            for n in some:
                past = job.phase == "placing" or (places[n].site, rows[n].epoch) != (site, epoch)
                if rows[n].state in ("closed", "over") and past:
                    rows[n] = Row()
            low = {old: new for new, old in enumerate(sorted({0, epoch, *(rows[n].epoch for n in some)}))}
            for n in some:
                rows[n] = Row(low[rows[n].epoch], rows[n].state)
            placing = job.phase == "placing"
            first = self.world.allowed[at][c][0]
            parts.append(
                Part(first, low[epoch], "closed", failed) if placing else Part(site, low[epoch], known, failed)
            )
        return Job(job.phase, tuple(parts)), tuple(rows)

    def _cached(self, made_by: OfOneJob[Made], at: int, job: Job, mine: tuple[Row, ...]) -> Made:
        key = (made_by, at, job, mine)
        if key not in self._known:
            self._known[key] = made_by(at, job, mine)
        made: Made = self._known[key]
        return made
