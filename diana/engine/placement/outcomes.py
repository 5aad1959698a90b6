"""Outcomes of a group's plans: predicted against achieved, per decision and site."""

from __future__ import annotations

import math
from typing import NamedTuple

from diana.engine.journal.state import Group, Subgroup
from diana.model.ids import SiteId
from diana.model.views.decision import Decision, Foretold, PlannedPart
from diana.model.views.group import PartOutcome


def outcomes(group: Group) -> tuple[PartOutcome, ...]:
    """Return a row per planned part, in order of decision, then of its parts. Only jobs that were given to the site the
    plan chose count."""
    given: dict[tuple[int, SiteId], list[Subgroup]] = {}
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        if subgroup.indices.bounds[:1] != (group.jobs,):
            given.setdefault((subgroup.decision, subgroup.site), []).append(subgroup)
    return tuple(
        _outcome(number, decision, planned, given[(number, planned.site)], group.submitted_s)
        for number, decision in enumerate(group.decisions)
        for planned in decision.parts
        if (number, planned.site) in given
    )


def _outcome(
    number: int, decision: Decision, planned: PlannedPart, given: list[Subgroup], submitted_s: float
) -> PartOutcome:
    decided_s = decision.decided_at_s - submitted_s
    started = [s.first_start_s for s in given if s.first_start_s >= 0]
    ended = [max(s.last_end_s, s.gathered_s) for s in given if s.last_end_s >= 0]
    return PartOutcome(
        decision=number,
        site=planned.site,
        # Also those that were tried again since, by a later decision.
        jobs=sum(len(s.indices) + len(s.superseded) for s in given),
        predicted_wait_s=planned.wait_s,
        predicted_stage_in_s=planned.stage_in_s,
        # In whole waves, as jobs run.
        predicted_run_s=planned.run_s + max(0.0, planned.expected_end_s - planned.predicted_end_s),
        predicted_end_s=planned.expected_end_s or planned.predicted_end_s,
        predicted_bytes_in=planned.bytes_in,
        started_s=max(0.0, min(started) - decided_s) if started else -1.0,
        ended_s=max(0.0, max(ended) - decided_s) if ended else -1.0,
        bytes_in=sum(s.bytes_in for s in given),
        over=not any(s.open_jobs() for s in given),
    )


class Expected(NamedTuple):
    """The end of a whole group and its range, in seconds after submission; negative: not known yet."""

    end_s: float = -1.0
    low_s: float = -1.0
    high_s: float = -1.0


def expected(group: Group, said: Foretold | None = None) -> Expected:
    """Return when the whole group is expected to end. `said`: what is foretold of it while none of it is placed."""
    said = group.foretold or said
    if said is not None and not group.retried:
        return _since_submission(group, said)
    # Retried, or placed by an older release: as its placements have it.
    ends = (d.decided_at_s - group.submitted_s + d.end_s() for d in group.decisions if d.parts and d.end_s() >= 0)
    return Expected(max((end for end in ends if math.isfinite(end)), default=-1.0))


def predicted(group: Group) -> Expected:
    """Return when the whole group was to end, as it was foretold first."""
    if group.foretold is not None:
        return _since_submission(group, group.foretold)
    if len(group.decisions) != 1 or group.decisions[0].end_s() < 0:
        return Expected()
    decision = group.decisions[0]
    return Expected(decision.decided_at_s - group.submitted_s + decision.end_s())


def _since_submission(group: Group, said: Foretold) -> Expected:
    before_s = said.at_s - group.submitted_s
    return Expected(*(before_s + one if one >= 0 else -1.0 for one in (said.end_s, said.low_s, said.high_s)))
