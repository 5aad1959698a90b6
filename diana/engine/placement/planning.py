"""The plan of a draft: the cost table of its candidates, and the parts that end first (SPEC D1, D6)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import msgspec

from diana.engine.matching import table
from diana.engine.placement import baseline_shortlist, candidates, judging, pull_back
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.set_plans import Dividing, as_set, held
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.policy.allocation import ahead, baselines, splitting
from diana.policy.pricing.demand import Demand
from diana.policy.pricing.turnaround import Weights
from diana.policy.requirements import choice


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
    field = _first_ranked(draft, candidates.field(core, draft, manifest))
    if settings.placement != "diana":
        turns, lot = draft.turns, baseline_shortlist.lot(core, draft)
        how: Dividing = partial(baselines.decide, now=core.now, policy=settings.placement, turns=turns, lot=lot)
        plan, field = as_set(core, draft, field, how, demand)
        return _judged(core, draft, plan, field)
    how = divided(core)
    plan, field = as_set(core, draft, field, how, demand)
    if spec.max_parallel and len(plan.parts) > parallel and not spec.set_requirements:
        best = plan.decision.candidates[0].site
        alone = [c for c in field.candidates if c.site == best]
        one = how(demand, alone)
        # A site that takes only some of the jobs is no place for all: then as many parts as may run are placed.
        plan = one if one.parts else plan
    return _judged(core, draft, plan, field)


def _judged(core: Context, draft: Draft, plan: splitting.Plan, field: candidates.Field) -> PlannedDraft:
    """Return the plan with its decision as it is kept, each site told against each condition of the group."""
    decision, match = judging.judged(plan.decision, field), draft.match(core)
    told = table.table(match, draft.spec, field.values, [row.site for row in decision.candidates])
    if told is not None:
        planned = {part.site for part in plan.parts}
        told = table.together(told, match, field.values, field.nearest or held(core, draft) | planned)
        decision = msgspec.structs.replace(decision, requirements=told)
    return PlannedDraft(msgspec.structs.replace(plan, decision=decision), field)


def _first_ranked(draft: Draft, field: candidates.Field) -> candidates.Field:
    """Leave out the sites of lower rank than those where all of the jobs can start at once."""
    if not draft.spec.rank or draft.to is not None:
        return field
    open_sites = [c.site for c in field.candidates if not c.rejected]
    kept = choice.first_ranked(
        {site: field.ranks.get(site) for site in open_sites}, field.startable, len(draft.indices)
    )
    return field.without(set(open_sites) - kept, "ranks lower than sites where all jobs can start at once")


def looked_ahead(
    core: Context, draft: Draft, manifest: Manifest, planned: PlannedDraft, *, waits: bool
) -> tuple[PlannedDraft, bool]:
    """Return the plan to take and whether jobs wait for their turn, by what comes out of each way where the driver can
    roll them forward; else as it was planned. `waits`: jobs are meant to wait."""
    spec, plan, settings = draft.spec, planned.plan, core.state.settings
    bound = spec.max_parallel or spec.set_requirements or spec.is_gang or draft.unguarded
    if core.look_ahead is None or settings.placement != "diana" or bound:
        return planned, waits
    rows, jobs, processors = plan.decision.candidates, len(draft.indices), spec.resources.processors
    sites, ways = ahead.sites(rows, jobs, processors), ahead.alternatives(rows, plan.parts_by_site(), jobs, waits=waits)
    if len(ways) < 2 or len(sites) < 2 or jobs > ahead.MOST_JOBS:
        return planned, waits
    lookout = ahead.Lookout(
        home=core.site,
        jobs=jobs,
        processors=processors,
        sites=sites,
        alternatives=ways,
        spread=ahead.spread(rows),
        output_bytes=round(run_times.output_bytes(core, spec, draft.owner)),
        settings={name: getattr(settings, name) for name in ahead.SETTINGS},
        luck=f"{core.site} {draft.number} {core.now!r}",
    )
    outlook = core.look_ahead(lookout)
    way = ways[outlook.chosen()]
    if way.whole() and way.shares != plan.parts_by_site():
        alone = [c for c in planned.field.candidates if c.site == way.shares[0][0]]
        one = divided(core)(demand_of(core, draft, draft.indices, manifest, 0), alone)
        plan = _as_one_of(plan, one) if one.parts else plan
    draft.looked = f" ({way.name}: {outlook.told()})"
    told = msgspec.structs.replace(plan.decision, reason=plan.decision.reason + draft.looked)
    return PlannedDraft(msgspec.structs.replace(plan, decision=told), planned.field), not way.shares


def _as_one_of(planned: splitting.Plan, one: splitting.Plan) -> splitting.Plan:
    """Return the plan of one site with the prices of all."""
    shown = planned.decision
    kept = msgspec.structs.replace(
        one.decision,
        whole_s=shown.whole_s,
        split_s=shown.split_s,
        candidates=shown.candidates,
        reasons=shown.reasons,
        rejected=shown.rejected,
    )
    return msgspec.structs.replace(one, decision=kept)


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


def divided(core: Context) -> Dividing:
    """Return the division of a demand over candidates, by the site's settings."""
    settings = core.state.settings
    model, raw, weights = settings.cost_model, settings.cost_raw, Weights(**settings.cost_weights)
    return partial(splitting.decide, now=core.now, model=model, weights=weights, raw=raw, split=settings.split)
