"""A placement decision with its reasons: what `plan` and `explain` show and the journal keeps."""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.ids import SiteId
from diana.model.views.conditions import ConditionTable
from diana.model.views.shown import Shown

JobClass = Literal["", "compute", "data", "both"]
"""Class of a group: what it is intensive in (SPEC D2; papers/diana-bulk-scheduling section V)."""
Model = Literal["turnaround", "paper"]
Basis = Literal["", "runs", "declared", "guess"]
"""Where a forecast has its run times from. runs: seen; declared: in the job file; guess: a default, which foretells
nothing; empty: there is no forecast."""
RangeFrom = Literal["", "outcomes", "runs"]


class FailedRequirement(Shown, frozen=True):
    """A conjunct of a group's requirements that does not hold at a site."""

    text: str
    found: str = ""
    """Values that it was judged by."""
    near: str = ""
    """The same condition as it would just hold; empty: it is no comparison with a number."""


class SiteCost(msgspec.Struct, frozen=True, kw_only=True):
    """The whole group priced at one candidate: every term of both cost models (SPEC D1).

    The seconds are those of the turnaround model, also when the paper model chose. Times that overlap count once:
    total_s = max(wait_s, shared stage-in) + run_s, stretched until the last job's own input is there, + stage_out_s +
    network_s; total_s <= wait_s + stage_in_s + run_s + stage_out_s + network_s.
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
    """Throughput forecast towards this site; 0 where nothing has to move."""
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
    """Bounds of each term by the site's and the links' past errors; low <= the term <= high."""
    bytes_out: int = 0
    """Outputs that travel from there to the origin."""
    max_jobs: int = 0
    """Most jobs of this group that the site takes; 0: no limit. With a limit below the group's size it can take parts
    only."""
    runs_seen: int = 0
    """Ended jobs of this template the run time was learned from; 0: as declared."""
    jobs_ahead: int = 0
    queued_jobs: int = 0
    busy_fraction: float = 0.0
    loss: float = 0.0
    """Loss of the link that the data (else the messages) would take."""
    network: float = 0.0
    computation: float = 0.0
    transfer: float = 0.0
    """The paper model's three terms; without a unit, each divided by its mean over the candidates unless raw."""
    near_miss: str = ""
    """With `rejected`: the change to the group that would make the site take it; else empty."""
    failed: tuple[FailedRequirement, ...] = ()
    """Requirements of the group that do not hold there, one by one."""
    model_s: float = 0.0
    """Seconds that one job runs there by the equations of the group's model; 0: it has none. Past runs correct it
    (`run_from` is model)."""
    rank: float = 0.0
    """Rank of the site by the group's own expression; 0 without one."""
    run_from: str = ""
    """Source of the run time: model (the group's own), here (learned there), elsewhere (learned at other sites, scaled
    by speed), declared, or guess."""
    cost: float = 0.0
    """Key by which the rows are ordered: the model's weighted sum, or the term its class ranks by (SPEC D2). Seconds in
    the turnaround model."""


class SiteCount(Shown, frozen=True):
    """Number of sites without a row of their own for one reason."""

    reason: str
    sites: int = 0


class PlannedPart(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    jobs: int
    bytes_in: int
    predicted_end_s: float
    """Seconds from the decision; the planner's fluid estimate."""
    expected_end_s: float = 0.0
    """The same in whole waves, since jobs cannot be cut; compare the achieved end with it. >= predicted_end_s."""
    predicted_low_s: float = 0.0
    predicted_high_s: float = 0.0
    wait_s: float = 0.0
    stage_in_s: float = 0.0
    run_s: float = 0.0
    """Run time of this part as a fluid, from the learned run time of a job where there is one."""
    stage_out_s: float = 0.0
    bytes_out: int = 0
    subgroups: int = 1
    """Units placed one by one that this part joins."""
    cost: float = 0.0
    """Cost in the model's unit, as of the placement of the part's last unit."""


class ComponentPlace(Shown, frozen=True):
    """The place of one component of a gang."""

    component: int
    site: SiteId
    processors: int
    gpus: int = 0
    name: str = ""
    sources: tuple[str, ...] = ()
    """Sites its files come from, each once; its own is left out."""
    bytes_in: int = 0
    transfer_s: float = 0.0
    wait_s: float = 0.0
    """Expected seconds until its processors are free."""
    items: int = 0
    """Items of the group's data that it has by the mapper; 0: none, or there is no mapper."""
    run_s: float = 0.0
    """Seconds that it runs by the group's model; 0: there is none."""
    model_s: float = 0.0
    """The same by the equations alone."""
    speed: float = 0.0
    """Speed of a processor there, as it was quoted; 0: by an older release."""
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    """Resource without a field of its own -> how much of it the component asks for. By an older release there is
    none."""
    reason: str = ""
    """Why it goes there, in words; empty: by an older release."""


class GangSite(Shown, frozen=True):
    """Room for components at one site."""

    site: SiteId
    idle: int = 0
    slots: int = 0
    widest: int = 0
    """Processors one component may have there."""
    age_s: float = 0.0
    rejected: str = ""
    """Why no component can go there."""


class GangDecision(Shown, frozen=True):
    """The placement of one gang: every component, or none (SPEC K2)."""

    policy: str
    components: tuple[ComponentPlace, ...] = ()
    sites: tuple[GangSite, ...] = ()
    """At most 64, those with most idle processors first."""
    transfer_s: float = 0.0
    """Seconds until the files of the slowest component are at its site (FTT)."""
    wait_s: float = 0.0
    """Expected seconds until the processors of all components are free."""
    run_s: float = 0.0
    """Predicted seconds of its run, those of its slowest component; 0: the group has no model."""
    run_low_s: float = 0.0
    run_high_s: float = 0.0
    """Eight of ten such runs are to take `run_low_s` to `run_high_s`, by past ones."""
    runs_seen: int = 0
    """Past components that this rests on."""
    mapper: str = ""
    """Mapper that divided the data; empty: there is none."""
    models: int = 0
    """Placements of which a prediction was made; 0: it was not searched for one."""
    most_models: int = 0
    """The bound on them, 3 p 2^s."""
    kinds: int = 0
    """p: kinds of machines that were searched."""
    searched_sites: int = 0
    """s: their sites."""
    runner_up: tuple[str, ...] = ()
    """Sites of the second best placement; empty: there was none."""
    runner_up_s: float = 0.0
    """Predicted seconds until its end, files included."""


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
    """Weights that are not 1, by term."""
    subgroup_jobs: int = 0
    """Size of the units a split was dealt in; 0: as finely as pays."""
    expected_s: float = 0.0
    """Expected end of the chosen plan: that of its slowest job, corrected by past outcomes. Compare the turnaround with
    it. Negative: not known yet."""
    low_s: float = 0.0
    high_s: float = 0.0
    """Range of the chosen plan's end: `low_s` to `high_s` is to hold eight of ten. Negative: not known yet."""
    rejected: int = 0
    """Number of known sites that cannot take any of the group."""
    reasons: tuple[SiteCount, ...] = ()
    """Reasons of all sites that have no row of their own, those of most sites first."""
    past_error: float = 0.0
    """Median relative error of predicted ends at this origin, as a fraction."""
    past_groups: int = 0
    """Number of groups that `past_error` rests on; 0: too few."""
    basis: Basis = ""
    """Source of the run times behind the predicted end; empty: by an older release, in whole waves of mean runs."""
    range_from: RangeFrom = ""
    """outcomes: the range is that of past groups; runs: that of the slowest job and of the sites' waits; empty: not
    known."""
    slowest_s: float = 0.0
    """The end of its slowest job, uncorrected; outcomes are scored against it. 0: not foretold."""
    moved: str = ""
    """Reason why its jobs were called back from where they waited; empty: they were not."""
    gang: GangDecision | None = None
    """Places of the components, where each job is a gang; `parts` and `candidates` are empty then."""
    requirements: ConditionTable | None = None
    """Each site against each condition of the group; None: it has none, or the decision is an older release's."""

    def end_s(self) -> float:
        """Return the end of the plan, in seconds from the decision; compare the achieved end with it. Negative: not
        known yet."""
        return self.expected_s or max((part.predicted_end_s for part in self.parts), default=0.0)

    def foretold(self) -> Foretold | None:
        """Return what it foretells; None: nothing, as that of an older release."""
        if not self.basis:
            return None
        return Foretold(
            at_s=self.decided_at_s,
            end_s=self.expected_s,
            low_s=self.low_s,
            high_s=self.high_s,
            slowest_s=self.slowest_s,
            basis=self.basis,
            range_from=self.range_from,
            site=self.main_site(),
        )

    def main_site(self) -> str:
        """The site of most of its jobs; empty: it has no part."""
        return min(self.parts, key=lambda part: (-part.jobs, part.site)).site if self.parts else ""


class Foretold(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a whole group as it was foretold first. Fields as in `Decision`; seconds from `at_s` on."""

    at_s: float
    end_s: float
    low_s: float
    high_s: float
    slowest_s: float
    basis: Basis
    range_from: RangeFrom = ""
    site: str = ""
    """The site that most of its jobs were planned for; empty: not noted, as by an older release."""
