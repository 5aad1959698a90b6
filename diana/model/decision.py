"""A placement decision with its reasons: what `plan` and `explain` show and the journal keeps."""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.ids import SiteId

JobClass = Literal["", "compute", "data", "both"]
"""What a group is heavy in (SPEC D2; papers/diana-bulk-scheduling section V)."""
Model = Literal["turnaround", "paper"]


class SiteCost(msgspec.Struct, frozen=True, kw_only=True):
    """The whole group priced at one candidate: every term of both cost models (SPEC D1).

    The seconds are those of the turnaround model, also when the paper model chose. What overlaps counts once:
    total_s = max(wait_s, shared stage-in) + run_s, stretched until the last job's own input is there, + stage_out_s
    + network_s; total_s <= wait_s + stage_in_s + run_s + stage_out_s + network_s.
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
    wait_low_s: float = 0.0
    wait_high_s: float = 0.0
    stage_in_low_s: float = 0.0
    stage_in_high_s: float = 0.0
    run_low_s: float = 0.0
    run_high_s: float = 0.0
    total_low_s: float = 0.0
    total_high_s: float = 0.0
    """What the site's and the links' past errors leave open; low <= the term <= high."""
    bytes_out: int = 0
    """Outputs that travel from there to the origin."""
    max_jobs: int = 0
    """It takes no more jobs of this group; 0: no limit. A smaller limit than the group leaves it parts only."""
    runs_seen: int = 0
    """Ended jobs of this template the run time was learned from; 0: as declared."""
    jobs_ahead: int = 0
    queued_jobs: int = 0
    busy_fraction: float = 0.0
    loss: float = 0.0
    """Of the link the data (else the messages) would take."""
    network: float = 0.0
    computation: float = 0.0
    transfer: float = 0.0
    """The paper model's three terms; without a unit, each divided by its mean over the candidates unless raw."""
    near_miss: str = ""
    """With `rejected`: what of the group would have to be otherwise for the site to take it; else empty."""
    run_from: str = ""
    """What the run time rests on: here (learned there), elsewhere (learned at other sites, scaled by speed), declared,
    or guess."""
    cost: float = 0.0
    """What the rows are ordered by: the model's weighted sum, or the term its class ranks by (SPEC D2). Seconds in the
    turnaround model."""


class Reason(msgspec.Struct, frozen=True):
    """Why so many sites have no row of their own."""

    reason: str
    sites: int


class PlannedPart(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    jobs: int
    bytes_in: int
    predicted_end_s: float
    """Seconds from the decision; the planner's fluid estimate."""
    expected_end_s: float = 0.0
    """The same with jobs that cannot be cut, in whole waves: what to hold the run against. >= predicted_end_s."""
    predicted_low_s: float = 0.0
    predicted_high_s: float = 0.0
    wait_s: float = 0.0
    stage_in_s: float = 0.0
    run_s: float = 0.0
    """Of this part, fluid; in learned run time where there is some."""
    stage_out_s: float = 0.0
    bytes_out: int = 0
    subgroups: int = 1
    """Units placed one by one that this part joins."""
    cost: float = 0.0
    """In the model's unit, when its last unit was placed."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    plan: Literal["whole", "split"]
    reason: str
    """One sentence a user reads first."""
    whole_s: float
    """Predicted completion of the best single site, seconds from now; infinite if none can take it whole."""
    split_s: float
    candidates: tuple[SiteCost, ...]
    """At most 64, feasible ones first by rising cost (total_s in the turnaround model)."""
    parts: tuple[PlannedPart, ...]
    decided_at_s: float
    model: Model = "turnaround"
    raw: bool = False
    """Paper model: the bare formula, whose units do not add."""
    job_class: JobClass = ""
    """Declared, or derived from estimated transfer against run time."""
    declared_class: bool = False
    weights: dict[str, float] = {}
    """Those that are not 1."""
    subgroup_jobs: int = 0
    """Size of the units a split was dealt in; 0: as finely as pays."""
    expected_s: float = 0.0
    """When the chosen plan ends, in whole waves of jobs: the largest expected_end_s. Compare the turnaround with it."""
    low_s: float = 0.0
    high_s: float = 0.0
    """Range of the chosen plan's end."""
    rejected: int = 0
    """How many known sites cannot take any of it."""
    reasons: tuple[Reason, ...] = ()
    """Of all sites that have no row of their own; most of them first."""
    past_error: float = 0.0
    """Median of how far predicted ends were off at this origin, as a fraction; `low_s` and `high_s` span what eight of
    ten such groups did."""
    past_groups: int = 0
    """Groups that rests on; 0: too few, the range is the sites' own."""

    def end_s(self) -> float:
        """When the plan is to end, in seconds from the decision: what to hold the run against."""
        return self.expected_s or max((part.predicted_end_s for part in self.parts), default=0.0)
