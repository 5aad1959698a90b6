"""The end of a group as it is told to its users: by its slowest job, corrected by how past forecasts came out. Nothing
is decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from diana.engine.placement.candidates import Field
from diana.engine.placement.draft import Draft, quote_request
from diana.engine.site.context import Context
from diana.model.history import program_key
from diana.model.ids import SiteId
from diana.model.sketch import Sketch
from diana.model.views.decision import Basis, Decision, PlannedPart, RangeFrom
from diana.policy.pricing.demand import Candidate
from diana.policy.queueing.slowest_job import GroupEnd, GroupShare, RunSpread, alike, first_come, mean_run_s

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
"""Chances of ends: eight of ten lie between the outer ones."""
NOT_KNOWN_S = -1.0
OUTER = 0.2
"""Part of the runs that count like the 10 % quantile of a quote, and like the 90 % one."""
MOST_TOLD = 500
"""Most runs that a site's quote counts for."""
LEAST_S, MOST_S = 1e-3, 1e9
MOST_DELAY = 100.0
"""Quotes are the word of peers: no run or wait counts for more than `MOST_S`, no bound of a wait for more than
`MOST_DELAY` times it, no queue for more than `MOST_AHEAD` jobs."""
MOST_AHEAD = 1_000_000_000


class RunsKnown(NamedTuple):
    """The run times of a draft's jobs, as far as they are known."""

    spread: RunSpread
    basis: Basis
    here: frozenset[SiteId] = frozenset()
    """Sites that have seen such jobs themselves."""


def told(core: Context, draft: Draft, field: Field, decision: Decision, *, late: bool = False) -> Decision:
    """Return the decision with the predicted end of its parts, the range of it, and how far past ones were off. `late`:
    the jobs go wherever a lane is free first, at all sites that take reservations, if any does."""
    if not decision.parts:
        return decision
    error = core.state.past_ends.error()
    decision = msgspec.structs.replace(decision, past_error=error.median, past_groups=error.groups)
    sites = {c.site: c for c in field.candidates if not c.rejected}
    runs = _runs(core, draft, field, sites, [part.site for part in decision.parts])
    if runs.basis == "guess":
        return msgspec.structs.replace(
            decision, basis="guess", expected_s=NOT_KNOWN_S, low_s=NOT_KNOWN_S, high_s=NOT_KNOWN_S
        )
    some = [sites[site] for site in sorted(field.reserving & sites.keys())] if late else []
    if some:
        # The wait in a quote is that of the whole group at one site.
        every = [_share(draft, one, runs, len(draft.indices))._replace(wait_s=0.0) for one in some]
        shares = first_come(every, len(draft.indices))
    else:
        shares = [_of_part(draft, sites[part.site], runs, part, decision.parts) for part in decision.parts]
    slowest_s = GroupEnd(shares, runs.spread).quantile(MIDDLE)
    past = core.state.past_ends.correction(runs.basis, draft.owner, program_key(draft.spec), decision.main_site())
    low_s = high_s = NOT_KNOWN_S
    range_from: RangeFrom = ""
    if past.groups:
        low_s, high_s, range_from = slowest_s * past.low, slowest_s * past.high, "outcomes"
    elif runs.basis == "runs":
        low_s, high_s = _by_runs(shares, runs.spread, sites, decision.parts)
        range_from = "runs"
    return msgspec.structs.replace(
        decision,
        basis=runs.basis,
        range_from=range_from,
        slowest_s=slowest_s,
        expected_s=slowest_s * past.middle,
        low_s=low_s,
        high_s=high_s,
    )


# --- run times -----------------------------------------------------------------------------------------------


def _runs(
    core: Context, draft: Draft, field: Field, sites: dict[SiteId, Candidate], used: Sequence[SiteId]
) -> RunsKnown:
    """Run times at reference speed: of the jobs that ran here or whose results came home, else those in the quotes."""
    if draft.spec.model or any(source == "model" for source in field.run_from.values()):
        # The model knows what past runs of the same program with other values do not.
        return RunsKnown(alike(), "declared")
    name = f"{quote_request(draft).template} {draft.owner}"
    values, weights = [], []
    state = core.state
    for sketch, speed in (
        (state.run_times.sketches.get(name), state.settings.speed),
        (state.work_times.sketches.get(name), 1.0),
    ):
        for value_s, weight in _samples(sketch):
            values.append(value_s * speed)
            weights.append(weight)
    if not values:
        for one in sites.values():
            if field.run_from.get(one.site) == "here":
                seen = min(one.runs_seen, MOST_TOLD)
                values += [max(run_s, LEAST_S) * one.speed for run_s in (one.run_low_s, one.run_s, one.run_high_s)]
                weights += [OUTER * seen, (1.0 - 2.0 * OUTER) * seen, OUTER * seen]
    if values:
        spread = RunSpread(values, weights)
        if spread.known():
            here = frozenset(site for site, source in field.run_from.items() if source == "here")
            return RunsKnown(spread, "runs", here)
    if all(field.run_from.get(site) == "guess" for site in used):
        return RunsKnown(alike(), "guess")
    return RunsKnown(alike(), "declared")


def _samples(sketch: Sketch | None) -> list[tuple[float, float]]:
    """(run time in seconds, number of jobs that took so long), by rising time."""
    if sketch is None:
        return []
    return [(max(sum_s / weight, LEAST_S), weight) for _, (weight, sum_s) in sorted(sketch.buckets.items())]


# --- shares --------------------------------------------------------------------------------------------------


def _of_part(
    draft: Draft, site: Candidate, runs: RunsKnown, part: PlannedPart, parts: Sequence[PlannedPart]
) -> GroupShare:
    share = _share(draft, site, runs, part.jobs)
    lanes = share.lanes
    if most := draft.spec.max_parallel:
        lanes = max(1, min(lanes, -(-most * part.jobs // sum(one.jobs for one in parts))))
    return share._replace(
        lanes=lanes,
        free=min(share.free, lanes),
        wait_s=min(part.wait_s, MOST_S),
        stage_in_s=min(part.stage_in_s, MOST_S),
        after_s=min(part.stage_out_s + 2.0 * site.rtt_s, MOST_S),
    )


def _share(draft: Draft, site: Candidate, runs: RunsKnown, jobs: int) -> GroupShare:
    """Return the share of so many jobs at a site, as its quote has it."""
    wide = draft.spec.resources.processors
    lanes = max(1, site.slots // wide)
    run_s = site.run_s
    if runs.basis == "runs":
        seen = site.runs_seen if site.site in runs.here else 0
        run_s = mean_run_s(site.run_s, seen, runs.spread.mean_s / site.speed)
    free = round(site.slots * (1.0 - site.busy_fraction)) // wide
    return GroupShare(
        jobs=jobs,
        lanes=lanes,
        run_s=min(run_s, MOST_S),
        free=max(0, min(free, lanes)),
        ahead=min(site.jobs_ahead, MOST_AHEAD),
        wait_s=min(max(0.0, site.wait_s), MOST_S),
    )


def _by_runs(
    shares: Sequence[GroupShare], spread: RunSpread, sites: dict[SiteId, Candidate], parts: Sequence[PlannedPart]
) -> tuple[float, float]:
    """(low, high) while no outcomes are known: by the run times seen, all waits at the bounds the sites tell."""
    bounds = [_delays(sites[part.site]) for part in parts]
    low, high = min(one for one, _ in bounds), max(one for _, one in bounds)
    soon = GroupEnd([share._replace(delay=low) for share in shares], spread).quantile(LOW)
    return soon, GroupEnd([share._replace(delay=high) for share in shares], spread).quantile(HIGH)


def _delays(site: Candidate) -> tuple[float, float]:
    """Factors from the wait that a site foretells to its bounds."""
    if site.wait_s <= 0:
        return 1.0, 1.0
    return min(1.0, site.wait_low_s / site.wait_s), min(MOST_DELAY, max(1.0, site.wait_high_s / site.wait_s))
