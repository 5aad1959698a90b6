"""A look ahead: which ways to place a group are rolled forward, by what is known where it was submitted, and which of
them is taken by what came out. The rolling is the driver's affair; here nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import fmean, stdev
from typing import Any, Protocol

import msgspec

from diana.model.durations import seconds
from diana.model.ids import SiteId

MOST_SITES = 12
"""Sites that a look ahead has, those where the group would end first; their number is paid for in every roll."""
MOST_JOBS = 500
"""A larger group is not looked at: its rolls would cost more than they could tell."""
WHOLES = 2
"""Single sites that are tried beside the plan."""
EIGHT_OF_TEN = 0.8
SETTINGS = ("binding", "migration", "cost_model", "split", "max_subgroup")
"""Settings of the origin that decide how a group is placed, which a roll has too."""
LEAST_GAIN = 0.05
"""Share by which another way must be better than the planned one: rolls are few, and each is a draw."""
LEAST_WINS = 0.75
"""Share of the rolls in which it must be better, each beside the planned way's under the same seed."""


class AheadSite(msgspec.Struct, frozen=True, kw_only=True):
    """A site as the origin knows it."""

    site: SiteId
    slots: int
    busy: int
    """Slots that are not free for the group at once."""
    lane_s: float
    """Seconds, in the mean, until a busy slot is through with what stands before the group."""
    job_s: float
    """Seconds that one job of the group runs there."""
    rtt_s: float = 0.0
    bytes_in: int = 0
    """Bytes that the whole group would fetch to there."""
    bytes_per_s: float = 0.0
    """Rate at which they would come; 0: nothing has to."""


class Alternative(msgspec.Struct, frozen=True):
    """A way to place the group."""

    name: str
    shares: tuple[tuple[SiteId, int], ...] = ()
    """Jobs by site, bound at once; none: what cannot start at once waits for its turn."""

    def whole(self) -> bool:
        return len(self.shares) == 1


class Lookout(msgspec.Struct, frozen=True, kw_only=True):
    """All that a look ahead rests on."""

    home: SiteId
    jobs: int
    processors: int
    sites: tuple[AheadSite, ...]
    alternatives: tuple[Alternative, ...]
    """The planned way first."""
    spread: float = 0.0
    """Run times are drawn evenly from run * (1 - spread) .. run * (1 + spread)."""
    output_bytes: int = 0
    """Bytes that each job leaves."""
    settings: dict[str, Any] = {}
    """Settings of the origin that the rolls have too."""
    luck: str = ""
    """Text on which the draws of this look depend, beside the driver's seed."""


class Rolls(msgspec.Struct, frozen=True):
    """Outcome of one way."""

    name: str
    turnarounds_s: tuple[float, ...]
    """Mean turnaround of its jobs by roll; infinite: it was not over within the bounds."""

    @property
    def mean_s(self) -> float:
        return fmean(self.turnarounds_s)

    @property
    def spread_s(self) -> float:
        """Standard deviation over the rolls; 0 for one roll, or where some did not end."""
        known = [one for one in self.turnarounds_s if isfinite(one)]
        return stdev(known) if len(known) == len(self.turnarounds_s) > 1 else 0.0


class Outlook(msgspec.Struct, frozen=True):
    """Outcomes of all ways, the planned one first."""

    rows: tuple[Rolls, ...]
    events: int
    """Events that the rolls took."""
    complete: bool = True
    """False: the bound on events ended the look before all rolls were made."""

    def chosen(self) -> int:
        """Return the row of the way to take: the best one if it is better enough than the planned one, else that."""
        if not self.rows or not self.rows[0].turnarounds_s:
            return 0
        planned = self.rows[0]
        best = min(range(len(self.rows)), key=lambda at: (self.rows[at].mean_s, at))
        row = self.rows[best]
        pairs = zip(row.turnarounds_s, planned.turnarounds_s, strict=True)
        wins = sum(one < other for one, other in pairs)
        sure = wins >= LEAST_WINS * len(planned.turnarounds_s) and row.mean_s < (1.0 - LEAST_GAIN) * planned.mean_s
        return best if sure else 0

    def told(self) -> str:
        """Return in words what came out."""
        rolls = len(self.rows[0].turnarounds_s) if self.rows else 0
        if not rolls:
            return "looked ahead in vain: the bound on events was too low"
        ways = ", ".join(f"{row.name} {seconds(row.mean_s)}" for row in self.rows)
        return f"looked ahead {rolls} times, mean turnaround: {ways}"


class _Row(Protocol):
    """A row of a decision, as the engine keeps it or as a client is told it."""

    @property
    def site(self) -> str: ...
    @property
    def rejected(self) -> str: ...
    @property
    def slots(self) -> int: ...
    @property
    def busy_fraction(self) -> float: ...
    @property
    def wait_s(self) -> float: ...
    @property
    def run_s(self) -> float: ...
    @property
    def run_low_s(self) -> float: ...
    @property
    def run_high_s(self) -> float: ...
    @property
    def runs_seen(self) -> int: ...
    @property
    def total_s(self) -> float: ...
    @property
    def rtt_s(self) -> float: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_per_s(self) -> float: ...
    @property
    def max_jobs(self) -> int: ...


def sites(rows: Sequence[_Row], jobs: int, processors: int) -> tuple[AheadSite, ...]:
    """Return the sites of a decision's rows that can take jobs of the group, at most `MOST_SITES`."""
    able = [row for row in rows if _takes_jobs(row, processors)]
    return tuple(_site(row, jobs, processors) for row in able[:MOST_SITES])


def _takes_jobs(row: _Row, processors: int) -> bool:
    times = (row.wait_s, row.run_s, row.total_s)
    return not row.rejected and row.slots >= processors and row.run_s > 0 and all(isfinite(one) for one in times)


def _site(row: _Row, jobs: int, processors: int) -> AheadSite:
    lanes = max(1, row.slots // processors)
    wait_s = max(0.0, row.wait_s)
    # The row has the run of the whole group there, as a fluid over its lanes.
    job_s = row.run_s / max(1.0, jobs / lanes)
    busy = min(row.slots, round(row.busy_fraction * row.slots)) if wait_s <= 0 else row.slots
    # Of what runs there a half is left, in the mean, where nothing is told of a wait.
    lane_s = wait_s or job_s / 2
    return AheadSite(
        site=SiteId(row.site),
        slots=row.slots,
        busy=busy,
        lane_s=lane_s if busy else 0.0,
        job_s=job_s,
        rtt_s=row.rtt_s,
        bytes_in=row.bytes_in,
        bytes_per_s=row.bytes_per_s,
    )


def spread(rows: Sequence[_Row]) -> float:
    """Return the spread of run times that the rows show, by the site that saw most: between its bounds lie eight of ten
    runs, as of an even spread four fifths do."""
    known = [row for row in rows if row.runs_seen and row.run_s > 0 and not row.rejected]
    if not known:
        return 0.0
    most = max(known, key=lambda row: row.runs_seen)
    return max(0.0, min(1.0, (most.run_high_s - most.run_low_s) / (2 * EIGHT_OF_TEN * most.run_s)))


def alternatives(
    rows: Sequence[_Row], planned_shares: tuple[tuple[SiteId, int], ...], jobs: int, *, waits: bool
) -> tuple[Alternative, ...]:
    """Return the ways to try, the planned one first. `planned_shares`: jobs by site, as the plan has them; `waits`:
    jobs that cannot start at once wait for their turn."""
    planned = Alternative("at once", planned_shares)
    out = [Alternative("waiting"), planned] if waits else [planned]
    taken = {one.shares for one in out}
    able = [row for row in rows if _takes_jobs(row, 1) and not 0 < row.max_jobs < jobs][:MOST_SITES]
    for row in able:
        shares = ((SiteId(row.site), jobs),)
        if shares not in taken and len(out) < len(taken) + WHOLES:
            out.append(Alternative(f"whole at {row.site}", shares))
    return tuple(out)
