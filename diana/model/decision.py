"""A placement decision with its reasons: what `plan` and `explain` show and the journal keeps."""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.ids import SiteId


class SiteCost(msgspec.Struct, frozen=True, kw_only=True):
    """The whole group priced at one candidate; seconds, turnaround model (SPEC D1).

    total = max(wait_s, stage_in_s) + run_s + stage_out_s + network_s.
    """

    site: SiteId
    rejected: str = ""
    """Why this site cannot take the group; then the terms below are 0."""
    wait_s: float = 0.0
    stage_in_s: float = 0.0
    run_s: float = 0.0
    stage_out_s: float = 0.0
    network_s: float = 0.0
    total_s: float = 0.0
    bytes_in: int = 0
    slots: int = 0
    work_ahead_s: float = 0.0
    """Processor-seconds queued or running there before this group."""
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    """Forecast towards this site; 0 where nothing has to move."""
    age_s: float = 0.0
    """Age of the quote or summary the row was computed from."""


class PlannedPart(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    jobs: int
    bytes_in: int
    predicted_end_s: float
    """Seconds from the decision."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    plan: Literal["whole", "split"]
    reason: str
    """One sentence a user reads first."""
    whole_s: float
    """Predicted completion of the best single site, seconds from now; infinite if none can take it whole."""
    split_s: float
    candidates: tuple[SiteCost, ...]
    """At most 64, feasible ones first by rising total_s."""
    parts: tuple[PlannedPart, ...]
    decided_at_s: float
