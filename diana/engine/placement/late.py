"""Late binding: jobs that can start at once are handed over, the others wait for their turn at several sites and are
handed over to the one that calls (the paper's global queue: work that may still move)."""

from __future__ import annotations

import msgspec

from diana.engine.guard import guard
from diana.engine.journal.state import Group
from diana.engine.messages.binding import TurnCall
from diana.engine.placement import foretelling, judging, parts, planning, pull_back, reservations
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.planning import PlannedDraft
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision, SiteCost
from diana.model.words import counted
from diana.policy.allocation import splitting
from diana.policy.binding import choice, patience


def may_wait(core: Context, draft: Draft, planned: Decision) -> bool:
    """True if jobs that cannot start at once may wait for their turn. All are bound at once under `max_parallel` and
    under requirements of a set of sites, if a site failed their group, while this site is drained, before it stops, and
    where one site alone may have them; also where data weigh a quarter of the runs, unless the job file says otherwise
    or the plan is to stay where they lie."""
    settings = core.state.settings
    if (draft.spec.bind or settings.binding) != "late" or settings.placement != "diana":
        return False
    if draft.spec.set_requirements:
        # A plan tells which sites they are; nobody knows who will call.
        return False
    if len(draft.spec.sites) == 1 or not (core.view.peers or core.state.peers):
        return False
    closed = core.drained() or core.book(reservations.Reservations).closed
    if draft.spec.max_parallel or draft.unguarded or closed:
        return False
    if not _weighty(draft, planned):
        return True
    near = patience.nearest([row for row in planned.candidates if not row.rejected])
    return near.issuperset(part.site for part in planned.parts)


def waits(core: Context, group: Group) -> bool:
    """True if jobs of the group wait for their turn already."""
    return group.group in core.book(reservations.Reservations).groups


def _weighty(draft: Draft, planned: Decision) -> bool:
    """True if data decide where the group goes, and not who comes free first."""
    return not draft.spec.bind and planned.job_class not in ("", "compute")


def _waited_s(core: Context, draft: Draft) -> float:
    group = core.state.groups.get(draft.group) if draft.group else None
    return core.now - group.submitted_s if group is not None else 0.0


def bind(core: Context, group: Group, draft: Draft, manifest: Manifest, planned: PlannedDraft) -> None:
    """Hand over the jobs that can start at once; the rest waits for its turn at the sites where it would end first."""
    field = planned.field
    priced = [row for row in planned.plan.decision.candidates if not row.rejected]
    let, again_s = patience.patience(
        priced, len(draft.indices), draft.spec.resources.processors, _waited_s(core, draft)
    )
    rows = [row for row in priced if row.site in let]
    if _weighty(draft, planned.plan.decision):
        # One site fetches them at a time: what it has then, it need not fetch for the next jobs.
        near = patience.nearest(priced)
        away = [row for row in rows if row.site not in near][:1]
        rows = [row for row in rows if row.site in near] + away
    seats = {row.site: _seat(draft, row) for row in rows if row.site in field.reserving and row.run_s > 0}
    if not seats:
        # None of them takes reservations, as sites of an older release.
        told = foretelling.told(core, draft, field, planned.plan.decision)
        whole = msgspec.structs.replace(planned.plan, decision=told)
        parts.place(core, group, whole, 0, manifest, unguarded=False)
        return
    told = foretelling.told(core, draft, field, planned.plan.decision, late=True)
    foretold, said = core.book(reservations.Reservations).foretold, told.foretold()
    if group.foretold is None and group.group not in foretold and said is not None:
        foretold[group.group] = said
    now = {row.site: field.startable[row.site] for row in rows if field.startable.get(row.site)}
    first = _first(draft, manifest, now)
    if first:
        plan = _plan(core, draft, first, manifest, planned, now)
        if plan.parts:
            plan = msgspec.structs.replace(plan, decision=_some(told, plan.decision, len(first), draft))
            parts.place(core, group, plan, 0, manifest, unguarded=False)
    some = dict(list(seats.items())[: reservations.MOST_SITES])
    reservations.reserve(core, group, draft, manifest, some, told, again_s)
    core.notify(group.group)


def _first(draft: Draft, manifest: Manifest, now: dict[SiteId, int]) -> IndexSet:
    """Return the jobs that start at once: of each site those whose data it has."""
    some, left = choice.lots(manifest.needs(draft.indices), draft.indices, now), draft.indices
    for site, jobs in now.items():
        left -= choice.choose(left, jobs, site, now, some)
    return draft.indices - left


def _plan(
    core: Context, draft: Draft, indices: IndexSet, manifest: Manifest, planned: PlannedDraft, now: dict[SiteId, int]
) -> splitting.Plan:
    """Plan the jobs that can start at once, at the sites where they can."""
    some = [c for c in planned.field.candidates if c.site in now]
    limited = [msgspec.structs.replace(c, max_jobs=min(c.max_jobs or now[c.site], now[c.site])) for c in some]
    plan = planning.divided(core)(planning.demand_of(core, draft, indices, manifest, 0), limited)
    return msgspec.structs.replace(plan, decision=judging.judged(plan.decision, planned.field))


def _some(whole: Decision, first: Decision, jobs: int, draft: Draft) -> Decision:
    """Return the decision on the jobs that start at once: with the prices and the end of the whole."""
    reason, of = first.reason, len(draft.indices)
    if jobs < of:
        sites = f"at {first.parts[0].site}" if len(first.parts) == 1 else f"at {len(first.parts)} sites"
        reason = f"{counted(jobs, 'job')} of {of:,} can start now, {sites}; the others wait for their turn"
    return msgspec.structs.replace(whole, plan=first.plan, parts=first.parts, reason=reason + draft.looked)


def _seat(draft: Draft, row: SiteCost) -> reservations.Seat:
    jobs, lanes = len(draft.indices), max(1, row.slots // draft.spec.resources.processors)
    part = min(1.0, lanes / jobs)
    # The group's run time there is that of its jobs, one after the other on each lane.
    each_s = row.run_s * part
    return reservations.Seat(weight=lanes / each_s, stage_s=row.stage_in_s * part, lanes=lanes, each_s=each_s)


def on_call(core: Context, sender: SiteId, call: TurnCall) -> None:
    """Bind jobs to the site whose turn they have there."""
    given = reservations.called(core, sender, call)
    if given is None:
        return
    group, waiting, left = given
    size, chosen = planning.largest(core, group.spec), []
    while left:
        some, left = left.take(size)
        chosen.append(splitting.PlacedPart(sender, some))
    if chosen:
        failing = guard.shunned(core, group.group)
        reason = f"their turn came at {sender}" + (f" ({failing})" if failing else "")
        decision = Decision(
            plan="whole",
            reason=reason,
            whole_s=0.0,
            split_s=0.0,
            candidates=(),
            parts=(),
            decided_at_s=core.now,
        )
        if waiting.new:
            # The prices that they wait by now are kept with the first that are bound by them.
            waiting.new = False
            reason += waiting.draft.looked
            decision = msgspec.structs.replace(waiting.told, reason=reason, parts=(), decided_at_s=core.now)
        plan = splitting.Plan(decision, tuple(chosen))
        parts.place(core, group, plan, 0, waiting.manifest, unguarded=False)
        pull_back.called(core, group, sender, waiting.seats[sender].stage_s)
    reservations.answered(core, group, sender)
