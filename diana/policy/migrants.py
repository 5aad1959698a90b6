"""What a migration decides on and what it decides: values, and the budget and limits an operator sets (SPEC D7)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from diana.model.ids import SiteId
from diana.policy.ranges import check


class MigrationSettings(msgspec.Struct, frozen=True, kw_only=True):
    minimum_gain_s: float = 10.0
    """What a move must save. A hand-over takes about a second and predictions are off by more; what saves less
    flaps."""
    alike: float = 0.05
    """Sites whose cost is that close to the lowest are equals, of which two are drawn and the emptier taken: costs are
    never equal to the digit, and whoever is cheapest by a hair is so for everybody."""
    quote_age_s: float = 10.0
    """What is older tells nothing of a queue."""
    moves_per_minute: float = 60.0
    """Hand-overs this site starts, and as many at once after a rest. A bound on the damage of a bad forecast; each
    moves any number of jobs."""

    def __post_init__(self) -> None:
        check(
            self,
            ("minimum_gain_s", 0.0, 1e9),
            ("alike", 0.0, 1.0),
            ("quote_age_s", 0.1, 3600.0),
            ("moves_per_minute", 0.0, 1e6),
        )


class Quote(NamedTuple):
    """One site's answer for one migrant."""

    site: SiteId
    jobs_ahead: int
    """At the priority it would have there, the raise included."""
    cost: float
    """Total, in the cost model's unit."""
    ends_s: float
    """When the first of it would be through there, seconds from now; data and queue counted."""
    processors_per_s: float
    """That come free there for such jobs once what is free now is taken: about slots / run time."""
    max_jobs: int = 0
    """It takes no more of this; 0: no limit."""
    rejected: str = ""
    """Why it cannot take any; then the rest means nothing."""
    starts_s: float = 0.0
    """When the first of it would start there."""
    own_jobs: int = 0
    """Of its own group, that wait there and that it would pass by its raise."""


class Peer(NamedTuple):
    """A site as it stands, whatever is asked of it."""

    site: SiteId
    queued_jobs: int
    free_processors: int
    age_s: float
    """Of what it quoted."""
    refused: str = ""
    """Why nothing is sent there: drained, a breaker, unreachable."""


class Migrant(NamedTuple):
    """Queued jobs of one class and subgroup, alike in all that counts here. Told of the LAST of them, which goes first:
    it gains most."""

    key: str
    """Names it; ties end here."""
    jobs: int
    processors: int
    """Of each."""
    priority: float
    """Here, as it stands now."""
    jobs_ahead: int
    """Here, ahead of the last of them: its own before it included, or a lone burst would never move."""
    cost: float
    """Here, in the cost model's unit."""
    ends_s: float
    """When the last of them is through here."""
    processors_per_s: float
    """That come free here for such jobs; 0: not known, then nothing gets sooner here by what leaves."""
    data_elsewhere: bool = False
    exported: int = 0
    """How often it was exported; once is the most."""
    quotes: tuple[Quote, ...] = ()


class Move(NamedTuple):
    key: str
    site: SiteId
    jobs: int
    """The last so many of its queue order."""
    processors: int
    """All of them together."""
    gain_s: float
    """That justified it; the receiver grants what it can start within it (`capacity.grant`)."""
    reason: str


class Kept(NamedTuple):
    key: str
    jobs: int
    reasons: tuple[str, ...]


class Plan(NamedTuple):
    moves: tuple[Move, ...]
    """In the order decided."""
    kept: tuple[Kept, ...]


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
