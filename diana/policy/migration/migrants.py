"""Values of a migration: its inputs, its moves, and the budget and limits an operator sets (SPEC D7)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from diana.model.ids import SiteId
from diana.policy.ranges import check


class MigrationSettings(msgspec.Struct, frozen=True, kw_only=True):
    migration_gain_s: float = 10.0
    """Least seconds a move must save. A hand-over takes about a second and predictions are off by more; moves that save
    less would go back and forth."""
    alike: float = 0.05
    """Relative difference from the lowest cost within which sites count as equal. Two of the equals are drawn and the
    emptier is taken, because costs are never exactly equal, and a site that is cheapest by very little is so for
    everybody."""
    quote_age_s: float = 10.0
    """Age in seconds beyond which a quote is not used: it no longer describes the queue."""
    moves_per_minute: float = 60.0
    """Moves this site may start per minute, and as many at once after a rest. They bound the damage of a bad forecast;
    each moves any number of jobs."""

    def __post_init__(self) -> None:
        check(
            self,
            ("migration_gain_s", 0.0, 1e9),
            ("alike", 0.0, 1.0),
            ("quote_age_s", 0.1, 3600.0),
            ("moves_per_minute", 0.0, 1e6),
        )


class MigrantQuote(NamedTuple):
    """One site's answer for one migrant."""

    site: SiteId
    jobs_ahead: int
    """Jobs ahead of it there: all that wait; in paper mode those at no lower priority than its raised one."""
    cost: float
    """Total cost there, in the cost model's unit."""
    ends_s: float
    """End of its first job there, in seconds from now; data and queue counted."""
    processors_per_s: float
    """Processors that come free there per second for such jobs, once those free now are taken: about slots / run
    time."""
    max_jobs: int = 0
    """Most of its jobs that the site takes; 0: no limit."""
    rejected: str = ""
    """Reason why the site cannot take any; then the rest means nothing."""
    starts_s: float = 0.0
    """Start of its first job there, in seconds from now."""


class Peer(NamedTuple):
    """State of another site, whatever is asked of it."""

    site: SiteId
    queued_jobs: int
    free_processors: int
    age_s: float
    """Age of its quote, in seconds."""
    refused: str = ""
    """Reason why nothing is sent there: drained, a breaker, unreachable."""


class Migrant(NamedTuple):
    """Queued jobs of one class and subgroup, alike in all that counts here. The figures are those of the LAST of them,
    which moves first, since it gains most."""

    key: str
    """Name of the migrant; the draw among equal sites rests on it."""
    jobs: int
    processors: int
    """Processors of each job."""
    jobs_ahead: int
    """Jobs ahead of the last of them here, its own included: else a lone burst would never move."""
    cost: float
    """Cost here, in the cost model's unit."""
    ends_s: float
    """End of the last of them here, in seconds from now."""
    processors_per_s: float
    """Processors that come free here per second for such jobs; 0: not known, then jobs that leave make nothing here end
    sooner."""
    data_elsewhere: bool = False
    quotes: tuple[MigrantQuote, ...] = ()


class Move(NamedTuple):
    site: SiteId
    jobs: int
    """Number of jobs moved, the last ones in queue order."""
    processors: int
    """Processors of all of them together."""
    gain_s: float
    """Seconds that the move is to save, at most."""
    within_s: float
    """Seconds within which the receiver must start a job, or the job gains too little: it grants so many as it can
    start by then (`capacity.grant`)."""
    reason: str


class MigrationPlan(NamedTuple):
    moves: tuple[Move, ...]
    """Moves in the order they were decided, one a site."""
    kept: int
    """Number of jobs that stay."""
    reasons: tuple[str, ...] = ()
    """Reasons why they stay; empty if none does."""


class Budget(NamedTuple):
    """Moves that may start, as a bucket that fills with time."""

    left: float
    at_s: float

    @staticmethod
    def full(settings: MigrationSettings, now: float) -> Budget:
        return Budget(settings.moves_per_minute, now)

    def at(self, settings: MigrationSettings, now: float) -> Budget:
        gained = settings.moves_per_minute * max(0.0, now - self.at_s) / 60.0
        return Budget(min(settings.moves_per_minute, self.left + gained), max(now, self.at_s))

    def spent(self, moves: int) -> Budget:
        return self._replace(left=self.left - moves)
