"""The plan of a draft: the cost table of its candidates, and the parts that end first (SPEC D1, D6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from diana.engine.placement import baseline_shortlist, candidates, judging, pull_back
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.policy.allocation import baselines, splitting
from diana.policy.pricing.demand import Candidate, Demand
from diana.policy.pricing.turnaround import Weights


class PlannedDraft(NamedTuple):
    """A plan, and all sites that it was chosen from."""

    plan: splitting.Plan
    field: candidates.Field


def planned(core: Context, draft: Draft, manifest: Manifest, parallel: int) -> PlannedDraft:
    """Plan without the sites that failed the group, unless that is its own fault or leaves nobody."""
    why = pull_back.broken(core, draft.group)
    draft.unguarded = bool(why)
    plan, field = _plan(core, draft, manifest, parallel)
    if not plan.parts and not why and (why := pull_back.lets_go(core, draft)):
        draft.unguarded = True
        plan, field = _plan(core, draft, manifest, parallel)
    if not why or not plan.parts:
        return PlannedDraft(plan, field)
    told = msgspec.structs.replace(plan.decision, reason=f"{plan.decision.reason} ({why})")
    return PlannedDraft(msgspec.structs.replace(plan, decision=told), field)


def _plan(core: Context, draft: Draft, manifest: Manifest, parallel: int) -> PlannedDraft:
    spec = draft.spec
    settings = core.state.settings
    demand = demand_of(core, draft, draft.indices, manifest, parallel)
    field = candidates.field(core, draft, manifest)
    if settings.placement != "diana":
        turns, lot = draft.turns, baseline_shortlist.lot(core, draft)
        plan = baselines.decide(demand, field.candidates, core.now, policy=settings.placement, turns=turns, lot=lot)
        return PlannedDraft(msgspec.structs.replace(plan, decision=judging.judged(plan.decision, field)), field)
    how = divided(core)
    plan = how(demand, field.candidates)
    if spec.max_parallel and len(plan.parts) > parallel:
        best = plan.decision.candidates[0].site
        alone = [c for c in field.candidates if c.site == best]
        one = how(demand, alone)
        # A site that takes only some of the jobs is no place for all: then as many parts as may run are placed.
        plan = one if one.parts else plan
    return PlannedDraft(msgspec.structs.replace(plan, decision=judging.judged(plan.decision, field)), field)


def demand_of(core: Context, draft: Draft, indices: IndexSet, manifest: Manifest, parallel: int) -> Demand:
    """Return the demand of some of the draft's jobs, with what was heard of their data."""
    spec, settings = draft.spec, core.state.settings
    return Demand(
        indices=indices,
        processors=spec.resources.processors,
        work_s=spec.resources.work_s or settings.default_work_s,
        needs=manifest.needs(indices),
        output_bytes=run_times.output_bytes(core, spec, draft.owner),
        # Uploaded files, programs too, are among the needs; a script travels in the spec.
        executable_bytes=float(len(spec.script.encode())),
        max_subgroup=largest(core, spec),
        max_parallel=parallel if spec.max_parallel else 0,
        division=spec.division or settings.division,
        job_class=spec.job_class,
    )


def largest(core: Context, spec: GroupSpec) -> int:
    """Return the most jobs of one subgroup."""
    most = core.state.settings.max_subgroup
    return min(spec.max_subgroup or most, most)


def divided(core: Context) -> Callable[[Demand, list[Candidate]], splitting.Plan]:
    """Return the division of a demand over candidates, by the site's settings."""
    settings = core.state.settings
    model, raw, weights = settings.cost_model, settings.cost_raw, Weights(**settings.cost_weights)
    return partial(splitting.decide, now=core.now, model=model, weights=weights, raw=raw, split=settings.split)
