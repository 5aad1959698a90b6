"""From quotes to a decision: cost table -> whole or split -> parts that are offered, or begin at home.

A `Draft` is one placement in the making. It is volatile: after a crash groups with unplaced jobs are drafted anew,
and a submission that was not answered yet never was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from diana.engine.journal.effects import DecisionMade, Refusal, Reply
from diana.engine.journal.state import Group
from diana.engine.placement import candidates, foretelling, late, parts, planning, recall
from diana.engine.placement.accept import accept
from diana.engine.placement.draft import (
    Draft,
    Drafts,
    NewGroup,
    Placement,
    PlanOnly,
    Pricing,
    Probe,
    parallel_left,
)
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.planning import PlannedDraft
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer, RequestTimer
from diana.model.job.spec import GroupSpec
from diana.model.views.decision import SiteCost
from diana.policy.allocation import splitting

RETRY_S = 5.0
"""Seconds until a group no site could take is priced again."""


def decide(core: Context, draft: Draft, ask_again: Callable[[], bool]) -> None:
    """Decide a draft whose quotes are in. `ask_again` is called where no site can take it; False: nobody is left to
    ask."""
    del core.book(Drafts).open[draft.number]
    core.timers.cancel(RequestTimer("quotes", draft.number))
    match draft.purpose:
        case Pricing() as pricing:
            pricing.decided(draft)
        case Placement() as placement:
            _decide_placement(core, draft, placement)
        case NewGroup() | PlanOnly() | Probe() as new:
            _decide_new(core, draft, new, ask_again)
        case _:
            assert_never(draft.purpose)


def _decide_placement(core: Context, draft: Draft, placement: Placement) -> None:
    core.book(Drafts).groups.discard(placement.group)
    group = core.state.groups.get(placement.group)
    if group is None or group.state or not parallel_left(group, draft.spec):
        return
    # Jobs may have been cancelled or held while the quotes came in, and others come back.
    waiting = group.unplaced - group.holding
    indices, to = recall.next_of(group, waiting & draft.indices)
    if not waiting.issubset(indices):
        core.to_place.add(group.group)
    if to != placement.to:
        # Ordered to another site while the quotes came in.
        core.to_place.add(group.group)
        return
    # Only these jobs may be given up: others of the draft may be meant for another site by now.
    draft.indices = indices
    if not indices:
        return
    manifest = Manifest(core, draft)
    if manifest.missing:
        _wait(core, draft, placement, group, manifest.missing_line())
        return
    parallel = parallel_left(group, draft.spec)
    planned = planning.planned(core, draft, manifest, parallel)
    plan = planned.plan
    if plan.parts and placement.to is None and late.may_wait(core, draft, plan.decision):
        late.bind(core, group, draft, manifest, planned)
    elif plan.parts:
        plan = _foretold(core, draft, planned)
        parts.place(core, group, plan, parallel, manifest, unguarded=draft.unguarded)
    else:
        _wait(core, draft, placement, group, _unplaceable(plan, draft.spec).text)


def _foretold(core: Context, draft: Draft, planned: PlannedDraft, *, waits: bool = False) -> splitting.Plan:
    """Return the plan with the end that it is expected to have. `waits`: jobs may wait for their turn."""
    plan = planned.plan
    decision = foretelling.told(core, draft, planned.field, plan.decision, late=waits)
    return msgspec.structs.replace(plan, decision=decision)


def _decide_new(
    core: Context, draft: Draft, purpose: NewGroup | PlanOnly | Probe, ask_again: Callable[[], bool]
) -> None:
    """Decide about a group that is not accepted yet."""
    manifest = Manifest(core, draft)
    if manifest.missing:
        if not ask_again():
            _refuse(core, purpose, Refusal(code="usage", text=manifest.missing_line()))
        return
    parallel = parallel_left(None, draft.spec)
    planned = planning.planned(core, draft, manifest, parallel)
    plan = planned.plan
    if not plan.parts:
        if not ask_again():
            _refuse(core, purpose, _unplaceable(plan, draft.spec))
        return
    match purpose:
        case NewGroup():
            group = accept(core, purpose)
            if late.may_wait(core, draft, plan.decision):
                late.bind(core, group, draft, manifest, planned)
            else:
                plan = _foretold(core, draft, planned)
                parts.place(core, group, plan, parallel, manifest, unguarded=draft.unguarded)
        case PlanOnly(event):
            plan = _foretold(core, draft, planned, waits=late.may_wait(core, draft, plan.decision))
            core.reply(Reply(event.request, DecisionMade(plan.decision)))
        case Probe(told):
            told(None)
        case _:
            assert_never(purpose)


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


def _refuse(core: Context, purpose: NewGroup | PlanOnly | Probe, refusal: Refusal) -> None:
    match purpose:
        case NewGroup(requests=requests):
            for request in requests:
                core.reply(Reply(request, refusal))
        case PlanOnly(event):
            core.reply(Reply(event.request, refusal))
        case Probe(told):
            told(refusal)
        case _:
            assert_never(purpose)


def _wait(core: Context, draft: Draft, placement: Placement, group: Group, why: str) -> None:
    """Price an accepted group again later, or elsewhere than where it was to go."""
    if placement.to is not None:
        recall.give_up(core, group, draft.indices, placement.to, why)
        return
    core.waiting_notes[group.group] = why
    core.after(GroupTimer("place", group.group), RETRY_S)
    core.notify(group.group)
