"""The plan of a draft: the cost table of its candidates, and the parts that end first (SPEC D1, D6)."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import msgspec

from diana.engine.matching import table
from diana.engine.placement import baseline_shortlist, candidates, judging, pull_back
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.policy.allocation import ahead, baselines, splitting
from diana.policy.pricing.demand import Candidate, Demand
from diana.policy.pricing.turnaround import Weights
from diana.policy.requirements import choice

Dividing = Callable[[Demand, list[Candidate]], splitting.Plan]
"""A division of a demand over candidates."""


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
        plan, field = _as_set(core, draft, field, how, demand)
        return _judged(core, draft, plan, field)
    how = divided(core)
    plan, field = _as_set(core, draft, field, how, demand)
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
        told = table.together(told, match, field.values, _held(core, draft) | _sites(plan))
        decision = msgspec.structs.replace(decision, requirements=told)
    return PlannedDraft(msgspec.structs.replace(plan, decision=decision), field)


def _held(core: Context, draft: Draft) -> set[SiteId]:
    """Return the sites that have jobs of the draft's group and are not through with them."""
    group = core.state.groups.get(draft.group) if draft.group else None
    return {part.site for part in group.subgroups.values() if part.open_jobs()} if group is not None else set()


def _first_ranked(draft: Draft, field: candidates.Field) -> candidates.Field:
    """Leave out the sites of lower rank than those where all of the jobs can start at once."""
    if not draft.spec.rank or draft.to is not None:
        return field
    open_sites = [c.site for c in field.candidates if not c.rejected]
    kept = choice.first_ranked(
        {site: field.ranks.get(site) for site in open_sites}, field.startable, len(draft.indices)
    )
    return _without(field, set(open_sites) - kept, "ranks lower than sites where all jobs can start at once")


def _as_set(
    core: Context, draft: Draft, field: candidates.Field, how: Dividing, demand: Demand
) -> tuple[splitting.Plan, candidates.Field]:
    """Plan so that all sites with jobs of the group together meet what it wants of them: as the first end has it, else
    with sets of the best sites, fewer and fewer, over which it is divided evenly. No plan: no such set was found."""
    plan = how(demand, field.candidates)
    wants = draft.match(core).requirements
    if wants is None or not wants.sets or not plan.parts:
        return plan, field
    held = _held(core, draft)
    lacks = wants.failed_by_set({site: field.values.get(site, {}) for site in held | _sites(plan)})
    if not lacks:
        return plan, field
    priced = [row.site for row in plan.decision.candidates if not row.rejected]
    order = sorted(priced, key=lambda site: -field.ranks.get(site, 0.0))

    def fits(sites: set[SiteId]) -> bool:
        return wants.fits_set({site: field.values.get(site, {}) for site in held | sites})

    for some in choice.sets(order, len(demand.indices)):
        if not fits(set(some)):
            continue
        left = _without(field, set(priced) - set(some), "not of the set of sites that meets its requirements together")
        for rows in (left.candidates, _shared_out(left.candidates, -(-len(demand.indices) // len(some)))):
            tried = how(demand, rows)
            if tried.parts and fits(_sites(tried)):
                return tried, left
    failed = {**field.failed, **dict.fromkeys(priced, lacks)}
    left = _without(field, set(priced), f"no set of sites with it was found that meets: {lacks[0].text}")
    return how(demand, left.candidates), left._replace(failed=failed)


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


def _sites(plan: splitting.Plan) -> set[SiteId]:
    return {part.site for part in plan.parts}


def _shared_out(rows: list[Candidate], most: int) -> list[Candidate]:
    """Let no site take more jobs than this."""
    return [msgspec.structs.replace(c, max_jobs=min(c.max_jobs or most, most)) for c in rows]


def _without(field: candidates.Field, sites: AbstractSet[SiteId], why: str) -> candidates.Field:
    rows = [msgspec.structs.replace(c, rejected=why) if c.site in sites else c for c in field.candidates]
    return field._replace(candidates=rows)


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
