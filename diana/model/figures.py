"""What a site counts for whoever watches it over time: numbers, bounded in size whatever the site holds."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class SiteFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Another site, by its newest summary. Negative: not known."""

    site: SiteId
    linked: bool
    """A stream to it stands."""
    slots: int
    free_slots: int
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    placed_jobs: int
    """Of this site's groups, open there."""
    rtt_s: float = -1.0
    bytes_per_s: float = -1.0
    silence_s: float = -1.0
    summary_age_s: float = -1.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    generation: int
    """Starts of the node with this journal."""
    records: int
    """In the journal, ever."""
    slots: int
    free_slots: int
    machines: dict[str, int]
    """here, away."""
    drained: bool
    low_room: bool
    congested: float
    """(A - S) / A over the migration window; 0 while nothing comes."""
    work_ahead_s: float
    jobs: dict[str, int]
    """Held at this site: queued, kept (inert or held), claimed, running."""
    levels: dict[tuple[str, str], int]
    """(local or global, Q1 to Q4) -> queued jobs."""
    queue_mean_jobs: float
    queue_mean_wait_s: float
    queue_arrivals_per_s: float
    queue_deviation_jobs: float
    """Of Little's law, over at most an hour."""
    transfers: int
    """Units of inputs on their way here."""
    groups: dict[str, int]
    """Submitted here, by where they stand: placing, open, merging, held, final."""
    blocked_groups: int
    """Wait for a group that did not end well."""
    group_jobs: dict[str, int]
    """Of the groups that are not final: unplaced, held, placed, done, failed, cancelled, unknown."""
    placed_here: int
    """Of those, placed at this site and open."""
    stopped_groups: int
    """That this site failed, and gets no more of for now."""
    sites_on_probation: int
    peers: dict[str, int]
    """Other sites by how they stand: alive, suspect, unreachable, lost, left, banned."""
    sites: tuple[SiteFigures, ...]
    """Other sites one by one: those with work of this site's or a stream to it first, then by name; not all."""
    others: SiteFigures | None
    """The sum of those left out; None: none was."""
    counters: dict[str, int]
    """Since the node started."""
