"""Figures of a site for monitoring over time: numbers, bounded in size whatever the site holds."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId
from diana.model.past_ends import PastError


class SiteFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Another site as its newest summary describes it. Negative: not known."""

    site: SiteId
    linked: bool
    """True while a stream to that site stands."""
    slots: int
    free_slots: int
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    placed_jobs: int
    """Open jobs of this site's groups that are placed there."""
    rtt_s: float = -1.0
    bytes_per_s: float = -1.0
    silence_s: float = -1.0
    summary_age_s: float = -1.0


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    generation: int
    """Number of starts of the node with this journal."""
    records: int
    """Number of records ever written to the journal."""
    slots: int
    free_slots: int
    machines: dict[str, int]
    """Number of machines by state: here, away."""
    drained: bool
    low_room: bool
    past_ends: PastError
    """How far the ends foretold here were off."""
    congested: float
    """(A - S) / A over the migration window, A arrivals and S starts; 0 while nothing arrives."""
    work_ahead_s: float
    jobs: dict[str, int]
    """Number of jobs at this site by state: queued, kept (inert or held), claimed, running."""
    levels: dict[tuple[str, str], int]
    """(local or global queue, Q1 to Q4) -> queued jobs."""
    queue_mean_jobs: float
    queue_mean_wait_s: float
    queue_arrivals_per_s: float
    queue_deviation_jobs: float
    """Deviation from Little's law over at most an hour, in jobs."""
    transfers: int
    """Number of units of input data on their way here."""
    groups: dict[str, int]
    """Number of groups submitted here by state: placing, open, merging, held, final."""
    blocked_groups: int
    """Number of groups that wait for a group that did not end well."""
    group_jobs: dict[str, int]
    """Number of jobs of the groups that are not final, by state: unplaced, held, placed, done, failed, cancelled,
    unknown."""
    gangs: dict[str, int]
    """Number of gangs of these groups by state: waiting, running."""
    gang_processors: dict[str, int]
    """Processors that components have at this site: held until their gang is let go, or running."""
    placed_here: int
    """Open jobs of these groups that are placed at this site."""
    stopped_groups: int
    """Number of groups that get nothing here for now, because their jobs failed here."""
    sites_on_probation: int
    peers: dict[str, int]
    """Number of other sites by state: alive, suspect, unreachable, lost, left, banned."""
    sites: tuple[SiteFigures, ...]
    """Other sites one by one: first those that have work of this site or a stream to it, then by name; not all."""
    others: SiteFigures | None
    """Sum over the sites left out of `sites`; None: none was."""
    counters: dict[str, int]
    """Counters by name, since the node started."""
