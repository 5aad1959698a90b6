"""The setting in which the standby's model is searched: the size of its world, the events that may happen in it, and
the sentences that hold.

`Rules` is the list of what the code has to keep: each switch is one sentence of PROMISES section 2 "Standby", and
turning it off is a mutant that the search must catch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    own_fsync: bool = True
    """An entry is acted upon only after its own fsync,"""
    standby_fsync: bool = True
    """the standby's fsync (a standby says "fsynced" of what is on its disk, not of what it received),"""
    lease: bool = True
    """and under a lease granted by the standby."""
    start_when_durable: bool = True
    """To send a START is to act upon it."""
    granted_outlives_crash: bool = True
    """A standby that granted, also one that crashed since, asks for no term before that lease has surely ended."""
    alone_by_register: bool = True
    """Going on alone: first the register says `in_sync = {self}`."""
    rejoin_from_sending: bool = True
    """Taking the other back: from *sending* that change on, both are needed again."""
    takeover_in_sync: bool = True
    """Takeover only by a replica recorded in sync,"""
    db_uuid: bool = True
    """with its current db_uuid (also in a lease and in "fsynced")."""
    promise: bool = True
    """A replica persists the term it asks for *before* asking (a promise)"""
    follower_refuses_old: bool = True
    """and never follows a lower one,"""
    follower_term_durable: bool = True
    """also after a crash."""
    leader_crash_ends_term: bool = True
    """A leader that crashed does not go on in its term."""
    truncate_conflicts: bool = True
    """A follower truncates at a real conflict of terms"""
    truncate_conflicts_only: bool = True
    """only: an older, shorter message does not shorten its log."""
    compare_and_set: bool = True
    """The register is changed only by compare-and-set;"""
    witness_durable: bool = True
    """the witness keeps it durably."""
    worker_refuses_old: bool = True
    """HELLO(term) fences every worker: it refuses a START of a lower term;"""
    worker_term_durable: bool = True
    """worker terms are durable."""
    worker_starts_once: bool = True
    """A worker's claim record names the job: a START said twice starts once."""
    inventory: bool = True
    """Before a new leader plans any start, it asks every worker that may hold a START what it started;"""
    forced_asks_all: bool = True
    """after a forced takeover (marked in the register) it asks all workers."""
    forced_when_other_stopped: bool = True
    """Forced takeover (by an operator) never while the other lives."""


@dataclass(frozen=True)
class Bound:
    """Bounds on everything in the model."""

    groups: tuple[str, ...] = ("group a",)
    """Groups that clients submit."""
    workers: int = 0
    """0, or 2: then one job is to be started once, on either."""
    terms: int = 4
    disk_losses: int = 0
    separate_fsync: bool = True
    """False: writing and fsync are one step, which keeps the model of workers small."""
    begins_alone: bool = False
    """The first leader has no standby yet."""


@dataclass(frozen=True)
class World:
    """Events that may happen besides the protocol itself."""

    faults: bool = True
    """Processes crash and disks are lost. False: all that still runs is healed, and a client submits one new record."""
    operator: bool = True
    """An operator may force a takeover."""
    witness: bool = True
    """The witness can be reached."""
    dead: int | None = None
    """A replica that never acts again."""


@dataclass(frozen=True)
class Setting:
    """All a transition needs to know besides the state."""

    bound: Bound = field(default_factory=Bound)
    rules: Rules = field(default_factory=Rules)
    world: World = field(default_factory=World)

    def with_terms(self, terms: int) -> Setting:
        """The same with another number of terms."""
        return replace(self, bound=replace(self.bound, terms=terms))

    def writing_through(self) -> Setting:
        """The same where writing and fsync are one step."""
        return replace(self, bound=replace(self.bound, separate_fsync=False))

    def without_operator(self) -> Setting:
        """The same where nobody forces a takeover."""
        return replace(self, world=replace(self.world, operator=False))


JOURNAL = Setting(Bound(terms=4, disk_losses=1))
"""One record and a disk that may be lost."""
CONFLICTS = Setting(Bound(groups=("group a", "group b"), terms=3))
"""Two records, so that two logs can differ in the middle."""
WORK = Setting(Bound(groups=(), workers=2, terms=3)).writing_through()
"""One job and two workers, either of which may start it."""
ALONE = Setting(Bound(terms=5, begins_alone=True)).without_operator()
"""A leader without a standby takes one, loses it, takes it again; no operator comes."""
