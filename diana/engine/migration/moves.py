"""The origin's decision which jobs leave a congested site (SPEC D7; papers/diana-bulk-scheduling sections IX, X).

Jobs that wait there are priced elsewhere and beside staying. Where they gain, room is asked for; the jobs it is granted
for are called back and sent there. The room is kept before anything moves: a site that many find idle at once is filled
and not flooded, and nobody gives up a place in one queue for none in another.
"""

from __future__ import annotations

from math import inf
from zlib import crc32

from diana.engine.dispatch import promised_capacity
from diana.engine.journal.state import Group
from diana.engine.messages.migration import RoomGrant, RoomRequest
from diana.engine.messages.wanted import carried
from diana.engine.migration.exports import may_move, shares_freed, still_there
from diana.engine.migration.table import Asked, Export, LongerPause, MigrationBook, migration_settings
from diana.engine.placement import candidates, recall
from diana.engine.placement.draft import Draft, quote_request
from diana.engine.placement.manifest import Manifest
from diana.engine.placement.planning import demand_of
from diana.engine.site.context import Context
from diana.engine.site.timers import RequestTimer
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import SiteCost
from diana.model.words import counted
from diana.policy.allocation import splitting
from diana.policy.migration import plan as migration_plan
from diana.policy.migration.migrants import Migrant, MigrantQuote, Move, Peer
from diana.policy.pricing import cost
from diana.policy.pricing.demand import Candidate
from diana.policy.pricing.turnaround import Weights

ROOMS_PER_BOOT = 10**9
MOST_TEXT = 200
"""Characters kept of a peer's words."""
VAIN_FIRST_S, VAIN_MOST_S = 60.0, 3600.0
"""Shortest and longest pause after which a site that invited work and refused it is believed again."""


def decide(core: Context, name: GroupId, export: Export, draft: Draft) -> None:
    """Plan the moves of a draft whose quotes are in, and ask for room."""
    core.book(MigrationBook).priced.discard(name)
    group = core.state.groups.get(name)
    manifest = Manifest(core, draft)
    if group is None or group.state or manifest.missing:
        return
    field = candidates.field(core, draft, manifest)
    asked = [c for c in field.candidates if c.site in export.among or c.site == export.site]
    single, every = priced(core, draft, manifest, asked)
    migrant = _migrant(core, draft, export, asked, single, every)
    peers = [_peer(core, draft, c) for c in asked if c.site != export.site]
    settings = core.state.settings
    plan = migration_plan.plan(
        migrant,
        peers,
        migration_settings(settings),
        budget=core.book(MigrationBook).moves_left(settings, core.now),
        seed=crc32(f"{core.site} {core.state.generation} {draft.number}".encode()),
        mode="paper" if settings.migration == "paper" else "default",
        cost_in_s=settings.cost_model == "turnaround",
    )
    core.book(MigrationBook).kept[name] = tuple(
        f"at {export.site}, {counted(plan.kept, 'job')}: {reason}" for reason in plan.reasons
    )
    left = IndexSet.union(some for _, some in export.parts)
    for move in plan.moves:
        left, going = migration_plan.split_off(left, move.jobs)
        _ask_for_room(core, group, export, draft, move, going)


def priced(
    core: Context, draft: Draft, manifest: Manifest, some: list[Candidate]
) -> tuple[dict[SiteId, SiteCost], dict[SiteId, SiteCost]]:
    """Return the costs of (one job, all of them) at each site that would take them."""
    settings = core.state.settings
    model, raw, weights = settings.cost_model, settings.cost_raw, Weights(**settings.cost_weights)
    first, every = (demand_of(core, draft, jobs, manifest, 0) for jobs in (draft.indices.take(1)[0], draft.indices))
    rows = splitting.decide(first, some, core.now, model=model, weights=weights, raw=raw).decision.candidates
    return {row.site: row for row in rows}, {row.site: row for row in cost.whole(every, some)}


def _migrant(
    core: Context,
    draft: Draft,
    export: Export,
    asked: list[Candidate],
    single: dict[SiteId, SiteCost],
    every: dict[SiteId, SiteCost],
) -> Migrant:
    told, home = export.told, single.get(export.site)
    if core.state.settings.cost_model == "turnaround":
        # Seconds: those until it is through, and those that its outputs and messages take from there.
        here = told.ends_s + (home.stage_out_s + home.network_s if home and not home.rejected else 0.0)
    else:
        here = home.cost if home and not home.rejected else inf
    processors = draft.spec.resources.processors
    quotes = []
    for one in asked:
        if one.site != export.site:
            quotes.append(_quote(core, one, single.get(one.site), every.get(one.site), len(draft.indices), processors))
    return Migrant(
        key=str(draft.group),
        jobs=len(draft.indices),
        processors=processors,
        jobs_ahead=told.jobs_ahead,
        cost=here,
        ends_s=told.ends_s,
        processors_per_s=told.processors_per_s,
        data_elsewhere=told.data_elsewhere,
        quotes=tuple(quotes),
    )


def _quote(
    core: Context, there: Candidate, one: SiteCost | None, every: SiteCost | None, jobs: int, processors: int
) -> MigrantQuote:
    if one is None or one.rejected or not one.total_s < inf:
        why = there.rejected or (one.rejected if one else "") or "its data cannot be brought there"
        return MigrantQuote(there.site, 0, inf, inf, 0.0, rejected=why)
    # The time that all of them take beyond one tells how fast they get through there, their own data counted.
    beyond_s = every.total_s - one.total_s if every is not None and not every.rejected else inf
    rate = (jobs - 1) * processors / beyond_s if 0 < beyond_s < inf else 0.0
    if not rate and one.run_s > 0:
        rate = there.slots / one.run_s
    in_s = core.state.settings.cost_model == "turnaround"
    return MigrantQuote(
        site=there.site,
        jobs_ahead=there.jobs_ahead,
        cost=one.total_s if in_s else one.cost,
        ends_s=one.total_s,
        processors_per_s=rate,
        max_jobs=there.max_jobs,
        starts_s=max(0.0, one.total_s - one.run_s - one.stage_out_s - one.network_s),
    )


def _peer(core: Context, draft: Draft, there: Candidate) -> Peer:
    free = round((1.0 - there.busy_fraction) * there.slots)
    refused = there.rejected or ("" if there.alive else "does not answer")
    return Peer(there.site, there.queued_jobs, max(0, free), there.age_s, refused=refused)


# --- room ------------------------------------------------------------------------------------------------


def _ask_for_room(core: Context, group: Group, export: Export, draft: Draft, move: Move, going: IndexSet) -> None:
    room = core.state.generation * ROOMS_PER_BOOT + core.ticket()
    parts = tuple((part, some & going) for part, some in export.parts if not some.isdisjoint(going))
    behind = core.state.settings.migration != "paper"
    state = "has work that waits" if behind else "is congested"
    invited = move.site in export.invited
    asked_for = f", and {move.site} invited it" if invited else ""
    why = f"{export.site} {state} ({export.reason}){asked_for}: {move.reason}"
    core.book(MigrationBook).asked[room] = Asked(group.group, move.site, parts, why, move.within_s, behind, invited)
    core.book(MigrationBook).priced.add(group.group)
    core.book(MigrationBook).moved()
    request = carried(RoomRequest, quote_request(draft), room=room, jobs=move.jobs, gain_s=move.within_s, behind=behind)
    if move.site == core.site:
        on_grant(core, core.site, promised_capacity.keep(core, core.site, request))
        return
    core.after(RequestTimer("room", room), core.state.settings.offer_wait_s)
    core.send(move.site, request)


def on_grant(core: Context, sender: SiteId, grant: RoomGrant) -> None:
    asked = core.book(MigrationBook).asked.get(grant.room)
    if asked is None or asked.to != sender:
        # Late, or of a former boot: the room is free again by itself.
        return
    forget(core, grant.room)
    group = core.state.groups.get(asked.group)
    if group is None or group.state:
        return
    if asked.invited:
        _judge_invitation(core, asked.to, kept=grant.jobs >= 1)
    if grant.jobs < 1:
        core.count("moves_refused")
        core.book(MigrationBook).kept[group.group] = (f"site {sender} keeps no room: {grant.reason[:MOST_TEXT]}",)
        return
    parts = [
        (subgroup, some & still_there(group, subgroup))
        for part, some in asked.parts
        if (subgroup := group.subgroups.get(part)) is not None and may_move(subgroup)
    ]
    # Those at the end of the queue wait longest.
    _, going = migration_plan.split_off(IndexSet.union(some for _, some in parts), grant.jobs)
    going_parts = [(subgroup, some & going) for subgroup, some in parts if not some.isdisjoint(going)]
    if group.spec.max_parallel and not shares_freed(group, going_parts):
        core.count("moves_refused")
        kept = f"site {asked.to} has room for {counted(grant.jobs, 'job')}; the others would keep all of max_parallel"
        core.book(MigrationBook).kept[group.group] = (kept,)
        return
    if going_parts:
        core.count("jobs_exported", len(going))
        recall.order(
            core,
            group,
            going_parts,
            IndexSet(),
            asked.to,
            asked.why,
            exported=True,
            room=grant.room,
            gain_s=asked.gain_s,
            behind=asked.behind,
        )


def forget(core: Context, room: int) -> None:
    """Forget room that was asked for: it was answered, or will not be."""
    asked = core.book(MigrationBook).asked.pop(room, None)
    core.timers.cancel(RequestTimer("room", room))
    if asked is not None and all(other.group != asked.group for other in core.book(MigrationBook).asked.values()):
        core.book(MigrationBook).priced.discard(asked.group)


def _judge_invitation(core: Context, site: SiteId, *, kept: bool) -> None:
    """Believe the invitations of a site that keeps room, and for a while not those of one that keeps none."""
    vain = core.book(MigrationBook).vain
    if kept:
        vain.pop(site, None)
    else:
        core.count("invitations_in_vain")
        vain[site] = vain.get(site, LongerPause()).again(core.now, VAIN_FIRST_S, VAIN_MOST_S)


def drop_unanswered(core: Context, room: int) -> None:
    core.count("moves_refused")
    asked = core.book(MigrationBook).asked.get(room)
    if asked is not None and asked.invited:
        _judge_invitation(core, asked.to, kept=False)
    forget(core, room)
