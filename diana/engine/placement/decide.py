"""From quotes to a decision: cost table -> whole or split -> parts that are offered, or begin at home.

A `Draft` is one placement in the making. It is volatile: after a crash groups with unplaced jobs are drafted anew,
and a submission that was not answered yet never was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from diana.engine.dispatch import promised_capacity
from diana.engine.guard import guard
from diana.engine.handover import inputs, origin
from diana.engine.journal.effects import DecisionMade, Refusal, Reply
from diana.engine.journal.records import GroupPlaced, Part
from diana.engine.journal.state import Group
from diana.engine.placement import baseline_shortlist, candidates, judging, pull_back, recall
from diana.engine.placement.accept import accept
from diana.engine.placement.draft import Draft, Drafts, parallel_left
from diana.engine.placement.manifest import Manifest
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.model.ids import SiteId, subgroup_id
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.views.decision import Decision, SiteCost
from diana.policy.allocation import baselines, splitting
from diana.policy.allocation.allotment import allot
from diana.policy.pricing.demand import Demand
from diana.policy.pricing.turnaround import Weights

RETRY_S = 5.0
"""Seconds until a group no site could take is priced again."""


def decide(core: Context, draft: Draft, ask_again: Callable[[], bool]) -> None:
    """Decide a draft whose quotes are in. `ask_again` is called where no site can take it; False: nobody is left to
    ask."""
    del core.book(Drafts).open[draft.number]
    core.timers.cancel(("quotes", str(draft.number)))
    if draft.decided is not None:
        draft.decided(draft)
        return
    if draft.group:
        core.book(Drafts).groups.discard(draft.group)
    group = core.state.groups.get(draft.group) if draft.group else None
    if draft.group and (group is None or group.state or not parallel_left(group, draft.spec)):
        return
    # Jobs may have been cancelled or held while the quotes came in, and others come back.
    indices = draft.indices
    if group:
        waiting = group.unplaced - group.holding
        indices, to = recall.next_of(group, waiting & draft.indices)
        if not waiting.issubset(indices):
            core.to_place.add(group.group)
        if to != draft.to:
            # Ordered to another site while the quotes came in.
            core.to_place.add(group.group)
            return
        # Only these jobs may be given up: others of the draft may be meant for another site by now.
        draft.indices = indices
    if not indices:
        return
    manifest = Manifest(core, draft)
    if manifest.missing:
        if ask_again():
            return
        _give_up(core, draft, group, Refusal(code="usage", text=manifest.missing_line()))
        return
    parallel = parallel_left(group, draft.spec)
    plan = _guarded_plan(core, draft, indices, manifest, parallel)
    if not plan.parts and ask_again():
        return
    if draft.submit and draft.submit.plan_only:
        body = DecisionMade(plan.decision) if plan.parts else _unplaceable(plan, draft.spec)
        core.reply(Reply(draft.submit.request, body))
    elif not plan.parts:
        _give_up(core, draft, group, _unplaceable(plan, draft.spec))
    elif draft.probe:
        draft.probe(None)
    else:
        # Parts that find no room under max_parallel now are placed when another is over.
        parts = plan.parts[:parallel] if draft.spec.max_parallel else plan.parts
        _place(core, group or accept(core, draft), plan.decision, parts, manifest, unguarded=draft.unguarded)


def _guarded_plan(core: Context, draft: Draft, indices: IndexSet, manifest: Manifest, parallel: int) -> splitting.Plan:
    """Plan without the sites that failed the group, unless that is its own fault or leaves nobody."""
    why = pull_back.broken(core, draft.group)
    draft.unguarded = bool(why)
    plan = _plan(core, draft, indices, manifest, parallel)
    if not plan.parts and not why and (why := pull_back.lets_go(core, draft)):
        draft.unguarded = True
        plan = _plan(core, draft, indices, manifest, parallel)
    if not why or not plan.parts:
        return plan
    return msgspec.structs.replace(
        plan, decision=msgspec.structs.replace(plan.decision, reason=f"{plan.decision.reason} ({why})")
    )


def _plan(core: Context, draft: Draft, indices: IndexSet, manifest: Manifest, parallel: int) -> splitting.Plan:
    spec = draft.spec
    settings = core.state.settings
    demand = Demand(
        indices=indices,
        processors=spec.resources.processors,
        work_s=spec.resources.work_s or settings.default_work_s,
        needs=manifest.needs(indices),
        output_bytes=run_times.output_bytes(core, spec, draft.owner),
        # Uploaded files, programs too, are among the needs; a script travels in the spec.
        executable_bytes=float(len(spec.script.encode())),
        max_subgroup=min(spec.max_subgroup or settings.max_subgroup, settings.max_subgroup),
        max_parallel=parallel if spec.max_parallel else 0,
        division=spec.division or settings.division,
        job_class=spec.job_class,
    )
    field = candidates.field(core, draft, manifest)
    if settings.placement != "diana":
        turns, lot = draft.turns, baseline_shortlist.lot(core, draft)
        plan = baselines.decide(demand, field.candidates, core.now, policy=settings.placement, turns=turns, lot=lot)
        return msgspec.structs.replace(plan, decision=judging.judged(core, plan.decision, field))
    model, raw, weights = settings.cost_model, settings.cost_raw, Weights(**settings.cost_weights)
    how = partial(splitting.decide, now=core.now, model=model, weights=weights, raw=raw, split=settings.split)
    plan = how(demand, field.candidates)
    if spec.max_parallel and len(plan.parts) > parallel:
        best = plan.decision.candidates[0].site
        alone = [c for c in field.candidates if c.site == best]
        one = how(demand, alone)
        # A site that takes only some of the jobs is no place for all: then as many parts as may run are placed.
        plan = one if one.parts else plan
    return msgspec.structs.replace(plan, decision=judging.judged(core, plan.decision, field))


def _unplaceable(plan: splitting.Plan, spec: GroupSpec) -> Refusal:
    rows = [f"{c.site}: {c.rejected or 'its data cannot be brought there'}{_but(c)}" for c in plan.decision.candidates]
    known = {c.site for c in plan.decision.candidates}
    unknown = [f"{site}: no site known here; see diana sites" for site in spec.sites if site not in known]
    # Where a group is for some sites only, the others need no word.
    meant = [row for row in rows if not row.endswith((candidates.NOT_ALLOWED, candidates.NOT_MEANT))]
    rows = [*meant, *unknown] or rows
    if unknown and len(unknown) == len(spec.sites):
        return Refusal(code="usage", text="; ".join(unknown))
    return Refusal(code="unplaceable", text="no site can take this group: " + "; ".join(rows))


def _but(row: SiteCost) -> str:
    return f" (takes it if {row.near_miss})" if row.near_miss else ""


def _give_up(core: Context, draft: Draft, group: Group | None, refusal: Refusal) -> None:
    """Refuse a submission that was not accepted yet; an accepted group waits and is priced again."""
    if draft.probe:
        draft.probe(refusal)
        return
    if group is None:
        for request in draft.requests:
            core.reply(Reply(request, refusal))
        return
    if draft.to is not None:
        recall.give_up(core, group, draft, refusal.text)
        return
    core.waiting_notes[group.group] = refusal.text
    core.after(("place", group.group), RETRY_S)
    core.notify(group.group)


def _place(
    core: Context,
    group: Group,
    decision: Decision,
    chosen: tuple[splitting.PlacedPart, ...],
    manifest: Manifest,
    *,
    unguarded: bool,
) -> None:
    broken = unguarded and bool(pull_back.broken(core, group.group))
    parallel = parallel_left(group, group.spec) if group.spec.max_parallel else 0
    pieces = [(p.site, some) for p in chosen for some in _by_export(group, p.indices)]
    shares = allot(parallel, [len(indices) for _, indices in pieces])
    parts = []
    for at, ((site, indices), share) in enumerate(zip(pieces, shares, strict=True)):
        files, sources, readers = manifest.for_part(site, indices)
        parts.append(
            Part(
                subgroup=subgroup_id(group.group, group.next_number + at),
                epoch=group.epoch + 1 + at,
                site=site,
                indices=indices,
                files=files,
                sources=sources,
                readers=readers,
                max_parallel=share,
                attempt_base=group.attempt_base(indices),
                exported=indices.issubset(group.exported),
                room=_room(core, group, site, indices),
                unguarded=broken or (unguarded and guard.shuns(core, group.group, site)),
            )
        )
    core.waiting_notes.pop(group.group, None)
    reason = recall.told(group, IndexSet.union(part.indices for part in parts), decision.reason)
    decision = msgspec.structs.replace(decision, reason=reason)
    core.persist(GroupPlaced(group=group.group, decision=decision, parts=tuple(parts)))
    for part in parts:
        if part.site == core.site:
            inputs.begin(core, core.state.custodies[(part.subgroup, part.epoch)])
        else:
            origin.offer(core, group, group.subgroups[part.subgroup])
    core.notify(group.group)


def _room(core: Context, group: Group, site: SiteId, indices: IndexSet) -> int:
    """Return the number of the room kept for them at the site; 0: none. Room at home is taken by this."""
    room = recall.room_for(group, indices)
    processors = len(indices) * group.spec.resources.processors
    if room and site == core.site and not promised_capacity.take(core, site, room, processors):
        return 0
    return room


def _by_export(group: Group, indices: IndexSet) -> list[IndexSet]:
    """Divide jobs that were exported from others: a subgroup was exported as a whole or not at all."""
    return [some for some in (indices - group.exported, indices & group.exported) if some]
