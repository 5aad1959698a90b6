"""The checkers' memory of each group, each transfer and each job that really ran."""

from __future__ import annotations

import msgspec

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import FinishedSet, IndexSet

UNSURE = (Outcome.UNKNOWN, Outcome.INTERRUPTED)
Transfer = tuple[SubgroupId, int]


class Violation(msgspec.Struct, frozen=True):
    rule: str
    """I1 ... I9, J4 (`order.py`), D7 (`standing.py`), or `assert` when something raised."""
    at_s: float
    site: SiteId
    group: GroupId
    index: int
    """Index of the job; -1: the group as a whole."""
    text: str

    def __str__(self) -> str:
        job = f"{self.group}.{self.index}" if self.index >= 0 else self.group
        return f"{self.rule} at {self.at_s:.6f} s, {self.site}, {job}: {self.text}"


class Life:
    """The real course of one started job."""

    __slots__ = ("again", "outcome", "run", "site")

    def __init__(self, site: SiteId, run: Run) -> None:
        self.site = site
        self.run = run
        self.outcome: Outcome | None = None
        self.again = False
        """True: its user wants another attempt, though it may have ended well (`aftermath.py`)."""


class TransferStory:
    """One (subgroup, epoch) as both sides have made it durable."""

    __slots__ = (
        "attempts",
        "base",
        "batches",
        "committed",
        "disowned",
        "dropped",
        "ended",
        "held",
        "indices",
        "machines",
        "processors",
        "revoked",
        "runnable",
        "site",
        "taken",
        "taken_back",
        "unbegun",
    )

    def __init__(self, part: r.Part, home: bool) -> None:
        self.site = part.site
        self.indices = part.indices
        self.base = part.attempt_base
        self.processors = part.processors
        self.held = self.revoked = self.disowned = self.unbegun = IndexSet()
        """`unbegun`: of those with attempts, the ones no attempt of which can have begun."""
        self.committed = self.taken = self.runnable = home
        self.taken_back = self.dropped = False
        self.attempts: dict[int, int] = {}
        self.batches: set[int] = set()
        self.machines: dict[int, str] = {}
        """Member machine that a job was given to last; else it is the site's own."""
        self.ended: set[int] = set()
        """Jobs whose end is durable where they ran."""

    def voided(self, record: r.RunsVoided | r.RunsReturned) -> None:
        """The latest attempts of these jobs never ran; only a worker's own word says so of a job that moves on."""
        if isinstance(record, r.RunsReturned):
            first = self.base + 1
            never = (i for i in record.indices if self.attempts.get(i) == first or i in self.unbegun)
            self.unbegun = self.unbegun | IndexSet.of(never)
        else:
            self.unbegun = self.unbegun - record.indices


class GroupStory:
    __slots__ = (
        "accepted",
        "acknowledged",
        "attempts",
        "closing",
        "done",
        "epoch",
        "flexible",
        "gang_size",
        "go",
        "jobs",
        "lives",
        "ran_well",
        "unplaced",
        "unreachable",
        "unused",
    )

    def __init__(self, jobs: int, gang_size: int = 0, flexible: int = 0) -> None:
        self.jobs = jobs
        self.gang_size = gang_size
        """Indices of each gang; 0: the jobs are ordinary ones."""
        self.flexible = flexible
        """Processors of each gang, if they are divided when it is placed."""
        self.unused = IndexSet()
        """Indices that gangs which were let go have no component for."""
        self.go: dict[Transfer, int] = {}
        """Transfer of a component -> number of the record that let it go."""
        self.closing: dict[int, Life] = {}
        """Latest life of each component whose gang was placed anew."""
        self.unplaced = IndexSet.span(0, jobs)
        self.accepted = FinishedSet()
        self.lives: dict[int, Life] = {}
        self.attempts: dict[int, int] = {}
        """Highest attempt that ran of each job, at whatever site."""
        self.ran_well: dict[tuple[SubgroupId, int], set[int]] = {}
        """(subgroup, epoch) -> indices of runs that ended DONE, whatever was started of the job since."""
        self.done = 0
        self.epoch = 0
        self.acknowledged = False
        self.unreachable = False

    def ended(self, run: Run, outcome: Outcome) -> None:
        if outcome is Outcome.DONE:
            self.ran_well.setdefault((run.subgroup, run.epoch), set()).add(run.index)
        for life in (self.lives.get(run.index), self.closing.get(run.index)):
            if life is not None and life.run == run:
                life.outcome = outcome

    def divided_anew(self, indices: IndexSet) -> None:
        """Give back what the gangs of these components did not use."""
        if self.unused:
            again = self.unused & IndexSet.union(IndexSet.of(self.members(index)) for index in indices)
            self.unused, self.unplaced = self.unused - again, self.unplaced | again

    def members(self, index: int) -> range:
        """The indices of the gang that a component belongs to."""
        first = index - index % self.gang_size
        return range(first, first + self.gang_size)
