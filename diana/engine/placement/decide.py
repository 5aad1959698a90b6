"""From quotes to a decision: cost table -> whole or split -> parts that are offered, or begin at home.

A `Draft` is one placement in the making. It is volatile: after a crash groups with unplaced jobs are drafted anew,
and a submission that was not answered yet never was.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from heapq import nsmallest
from math import ceil
from typing import assert_never

import msgspec

from diana.engine.journal.effects import DecisionMade, Refusal, Reply
from diana.engine.journal.state import Group
from diana.engine.matching import site_names
from diana.engine.placement import (
    candidates,
    foretelling,
    late,
    parts,
    planning,
    recall,
)
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
from diana.engine.placement.gangs import placing as gang_placing
from diana.engine.placement.gangs import planning as gang_planning
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.planning import PlannedDraft
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer, RequestTimer
from diana.model.job.spec import GroupSpec
from diana.model.views.decision import Decision, SiteCost
from diana.model.words import counted
from diana.policy.allocation import splitting

MOST_NAMED = 8
"""Sites that are named for one reason of a refusal."""
MOST_NEAR = 256
"""Resources among which the one that was meant is looked for, beside this site's: those of most sites."""
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
        if draft.spec.is_gang:
            gang_queues.leave(core, placement.group)
        return
    # Jobs may have been cancelled or held while the quotes came in, and others come back.
    waiting = group.placeable()
    if draft.spec.is_gang:
        _place_gangs(core, draft, placement, group)
        return
    indices, to = recall.next_of(group, waiting & draft.indices)
    if not waiting.issubset(indices):
        core.to_place.add(group.group)
    if to != placement.to:
        # Ordered to another site while the quotes came in.
        core.to_place.add(group.group)
        return
    left, cap = parallel_left(group, draft.spec), draft.spec.max_parallel
    if cap and left < cap:
        # A part keeps the share it gets; jobs beyond that share's part of the group wait for another.
        indices, later = indices.take(ceil(len(indices) * left / cap))
        if later:
            core.to_place.add(group.group)
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
    waits = bool(plan.parts) and placement.to is None and late.may_wait(core, draft, plan.decision)
    if plan.parts and placement.to is None and not (group.decisions or late.waits(core, group)):
        planned, waits = planning.looked_ahead(core, draft, manifest, planned, waits=waits)
    if waits:
        late.bind(core, group, draft, manifest, planned)
    elif plan.parts:
        plan = _foretold(core, draft, planned)
        parts.place(core, group, plan, parallel, manifest, unguarded=draft.unguarded)
    else:
        refusal = _unplaceable(core, planned, draft.spec)
        _wait(core, draft, placement, group, refusal.text, refusal.decision)


def _place_gangs(core: Context, draft: Draft, placement: Placement, group: Group) -> None:
    # A component that came back while the quotes were asked reads its checkpoint as the others do.
    draft.indices = group.placeable()
    manifest = Manifest(core, draft)
    if manifest.missing:
        placed, why, refused = gang_placing.GangTry(False, manifest.missing_line())
    else:
        placed, why, refused = gang_placing.place_next(core, group, draft, manifest)
    gang_queues.tried(core, group, placed=placed, why=why)
    if why:
        _wait(core, draft, placement, group, why, refused)


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
            _refuse(core, purpose, _missing(manifest))
        return
    if draft.spec.is_gang:
        _decide_gang(core, draft, purpose, manifest, ask_again)
        return
    parallel = parallel_left(None, draft.spec)
    planned = planning.planned(core, draft, manifest, parallel)
    plan = planned.plan
    if not plan.parts:
        if not ask_again():
            _refuse(core, purpose, _unplaceable(core, planned, draft.spec))
        return
    match purpose:
        case NewGroup():
            group = accept(core, purpose)
            waits = late.may_wait(core, draft, plan.decision)
            planned, waits = planning.looked_ahead(core, draft, manifest, planned, waits=waits)
            if waits:
                late.bind(core, group, draft, manifest, planned)
            else:
                plan = _foretold(core, draft, planned)
                parts.place(core, group, plan, parallel, manifest, unguarded=draft.unguarded)
        case PlanOnly(event):
            waits = late.may_wait(core, draft, plan.decision)
            plan = _foretold(core, draft, planned, waits=waits)
            core.reply(Reply(event.request, DecisionMade(plan.decision, waits)))
        case Probe(told):
            told(None)
        case _:
            assert_never(purpose)


def _missing(manifest: Manifest) -> Refusal:
    name, silent = manifest.held_by_silent()
    if not silent or manifest.trouble:
        return Refusal(code="usage", text=manifest.missing_line())
    sites = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
    text = f"dataset {name}: held by {sites}, and no answer came from there in time; try again"
    return Refusal(code="retry", text=text, retry_after_s=5.0)


def _decide_gang(
    core: Context, draft: Draft, purpose: NewGroup | PlanOnly | Probe, manifest: Manifest, ask_again: Callable[[], bool]
) -> None:
    answer = gang_planning.decide(core, draft, manifest)
    if isinstance(answer, Refusal) and (answer.code != "retry" or isinstance(purpose, PlanOnly)):
        if not ask_again():
            if answer.code == "retry":
                text = f"{answer.text}; submitted, it waits"
                answer = msgspec.structs.replace(answer, code="unplaceable", text=text)
            _refuse(core, purpose, answer)
        return
    match purpose:
        case PlanOnly(event):
            assert not isinstance(answer, Refusal)
            if (gangs := len(draft.indices) // draft.spec.gang_size) > 1:
                answer = msgspec.structs.replace(answer, reason=f"{answer.reason}; the first of {gangs:,} gangs")
            core.reply(Reply(event.request, DecisionMade(answer)))
        case NewGroup():
            group = accept(core, purpose)
            if isinstance(answer, Refusal):
                gang_queues.tried(core, group, placed=False, why=answer.text)
                _wait(core, draft, Placement(group.group), group, answer.text, answer.decision)
            elif gang_queues.others_wait(core):
                core.to_place.add(group.group)
            else:
                gang_placing.place(core, group, 0, answer, manifest)
        case Probe(told):
            told(None)
        case _:
            assert_never(purpose)


def _unplaceable(core: Context, planned: PlannedDraft, spec: GroupSpec) -> Refusal:
    of_set = planned.field.no_set
    some = planned.plan.decision.candidates
    alike: dict[str, list[str]] = {}
    for c in some:
        if not _is(c, of_set):
            alike.setdefault(f"{c.rejected or 'its data cannot be brought there'}{_but(c)}", []).append(c.site)
    rows = [f"{_sites_named(sites)}: {why}" for why, sites in alike.items()]
    # What a set lacks is said once, and not of each site.
    rows = [f"{of_set}{_mend(c)}" for c in some if _is(c, of_set)][:1] + rows
    unknown = site_names.unknown_sites(core, spec.sites)
    # Where a group is for some sites only, the others need no word.
    meant = [row for row in rows if not row.endswith((candidates.NOT_ALLOWED, candidates.NOT_MEANT))]
    rows = [*meant, *unknown] or rows
    if unknown and len(unknown) == len(spec.sites):
        return Refusal(code="usage", text="; ".join(unknown))
    rows += [f"{counted(some.sites, 'more site')}: {some.reason}" for some in planned.plan.decision.reasons[:3]]
    text = f"no site can take this group: {'; '.join(rows)}{_meant(core, spec)}"
    decision = msgspec.structs.replace(planned.plan.decision, reason=text)
    return Refusal(code="unplaceable", text=text, decision=decision)


def _sites_named(sites: list[str]) -> str:
    rest = len(sites) - MOST_NAMED
    return ", ".join(sites[:MOST_NAMED]) + (f" and {counted(rest, 'more site')}" if rest > 0 else "")


def _meant(core: Context, spec: GroupSpec) -> str:
    """Return in words the resource that was meant by the name of one that nobody known here declares; empty: none is
    like it. Only after quotes: what sites told of themselves may be a few seconds old."""
    if not spec.resources.others:
        return ""
    there = core.roster.resources()
    own = {name for machine in core.state.machines.values() for name, _ in machine.resources}
    name = next((name for name, _ in spec.resources.others if name not in own and name not in there), "")
    some = [*sorted(own), *nsmallest(MOST_NEAR, there.keys() - own, key=lambda one: (-there[one], one))]
    near = get_close_matches(name, some, 1) if name else []
    return f"; did you mean {near[0]} by {name}?" if near else ""


def _is(row: SiteCost, of_set: str) -> bool:
    return bool(of_set) and row.rejected == of_set


def _mend(row: SiteCost) -> str:
    return f" (takes it if {row.near_miss})" if row.near_miss else ""


def _but(row: SiteCost) -> str:
    if row.near_miss:
        return _mend(row)
    found = [one.found for one in row.failed if one.found]
    return f" ({'; '.join(found[:3])})" if found else ""


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


def _wait(
    core: Context, draft: Draft, placement: Placement, group: Group, why: str, refused: Decision | None = None
) -> None:
    """Price an accepted group again later, or elsewhere than where it was to go."""
    if placement.to is not None:
        recall.give_up(core, group, draft.indices, placement.to, why)
        return
    core.waiting_notes[group.group] = why
    if refused is not None and refused.requirements is not None:
        core.book(Drafts).refuse(group.group, why, refused)
    core.after(GroupTimer("place", group.group), RETRY_S)
    core.notify(group.group)
