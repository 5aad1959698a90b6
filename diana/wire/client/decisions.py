"""Messages of the client service about placements. See `model/views/decision.py` for the fields.

The journal keeps those classes by snake-case keys, with weights by term and infinite seconds, which the published JSON
does not have: they cannot be the messages themselves.
"""

from __future__ import annotations

from diana.model.views.conditions import ConditionTable
from diana.model.views.decision import FailedRequirement, GangDecision, SiteCount
from diana.wire.client.base import Message


class SiteCost(Message, frozen=True):
    site: str
    rejected: str = ""
    wait_s: float = 0.0
    stage_in_s: float = 0.0
    run_s: float = 0.0
    stage_out_s: float = 0.0
    network_s: float = 0.0
    total_s: float = 0.0
    bytes_in: int = 0
    slots: int = 0
    work_ahead_s: float = 0.0
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    age_s: float = 0.0
    wait_low_s: float = 0.0
    wait_high_s: float = 0.0
    stage_in_low_s: float = 0.0
    stage_in_high_s: float = 0.0
    run_low_s: float = 0.0
    run_high_s: float = 0.0
    total_low_s: float = 0.0
    total_high_s: float = 0.0
    bytes_out: int = 0
    max_jobs: int = 0
    runs_seen: int = 0
    run_from: str = ""
    jobs_ahead: int = 0
    queued_jobs: int = 0
    busy_fraction: float = 0.0
    loss: float = 0.0
    network: float = 0.0
    computation: float = 0.0
    transfer: float = 0.0
    cost: float = 0.0
    near_miss: str = ""
    failed: tuple[FailedRequirement, ...] = ()
    rank: float = 0.0
    model_s: float = 0.0


class PlannedPart(Message, frozen=True):
    site: str
    jobs: int = 0
    bytes_in: int = 0
    predicted_end_s: float = 0.0
    expected_end_s: float = 0.0
    predicted_low_s: float = 0.0
    predicted_high_s: float = 0.0
    wait_s: float = 0.0
    stage_in_s: float = 0.0
    run_s: float = 0.0
    stage_out_s: float = 0.0
    bytes_out: int = 0
    subgroups: int = 0
    cost: float = 0.0


class CostWeight(Message, frozen=True):
    """Weight of a term that is weighted."""

    term: str
    weight: float = 0.0


class Decision(Message, frozen=True):
    """A placement decision. `whole_s` -1: no single site can take the group whole."""

    plan: str = ""
    reason: str = ""
    whole_s: float = 0.0
    split_s: float = 0.0
    candidates: tuple[SiteCost, ...] = ()
    parts: tuple[PlannedPart, ...] = ()
    decided_at_s: float = 0.0
    model: str = ""
    raw: bool = False
    job_class: str = ""
    declared_class: bool = False
    weights: tuple[CostWeight, ...] = ()
    subgroup_jobs: int = 0
    expected_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0
    rejected: int = 0
    reasons: tuple[SiteCount, ...] = ()
    past_error: float = 0.0
    past_groups: int = 0
    basis: str = ""
    range_from: str = ""
    moved: str = ""
    gang: GangDecision | None = None
    processors: int = 0
    """Processors of one job; told with a plan alone. 0: not told."""
    waits: bool = False
    """True in a plan whose jobs wait for their turn where they cannot start at once."""
    requirements: ConditionTable | None = None
    refused: str = ""
    """Why no site can take the group now; empty: it has a place."""
