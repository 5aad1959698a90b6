"""Answers to those who ask: views made from the state and from what destinations say."""

from __future__ import annotations

import msgspec

from diana.engine.data.output_datasets import Registrations
from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import capacity, maintenance
from diana.engine.guard import guard
from diana.engine.handover import inputs as staging
from diana.engine.handover import leases, machine_events
from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import Ask
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.membership import trust_ledger
from diana.engine.migration import metascheduling, rescheduling, swaps
from diana.engine.placement import outcomes
from diana.engine.placement.reservations import Reservations
from diana.engine.recovery import stocktaking
from diana.engine.site import dependencies, journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.dependencies import Dependencies, is_final
from diana.engine.site.view import standing
from diana.engine.views import ended, gangs, gauges, links, past, peers, queries, sites
from diana.engine.views import guard as views_guard
from diana.model.ids import GroupId, SiteId, no_group, origin_of
from diana.model.trust.principal import Role
from diana.model.views import views
from diana.model.views.datasets import Dataset
from diana.model.views.group import SiteShare
from diana.model.views.site import Site
from diana.model.words import counted
from diana.policy.queueing.priority import Level
from diana.policy.trust.authorise import Action, authorise

_SAID_SITES = 3

_ACTION = {
    "groups": Action.LIST_GROUPS,
    "history": Action.LIST_GROUPS,
    "history-site": Action.LIST_GROUPS,
    "sites": Action.READ_SITES,
    "links": Action.READ_SITES,
    "paths": Action.READ_SITES,
    "datasets": Action.READ_DATASETS,
    "info": Action.READ_INFO,
    "ledger": Action.READ_SITES,
    "peers": Action.READ_SITES,
    "figures": Action.READ_SITES,
    "queue": Action.READ_QUEUE,
    "may-upload": Action.UPLOAD,
    "may-add-dataset": Action.ADD_DATASET,
    "may-stop": Action.STOP,
}


def ask(core: Context, event: Ask) -> None:
    answer = _answer(core, event)
    if answer is not None:
        core.reply(Reply(event.request, answer))


def _answer(core: Context, event: Ask) -> views.Answer | Refusal | None:
    """Return the answer; None: other sites are asked first, or `queries` has answered."""
    if event.what in ("group", "ended", "job", "explain"):
        group = core.state.groups.get(event.group or GroupId(""))
        own = bool(event.group) and origin_of(GroupId(event.group or "")) == core.site
        if group is None and event.group and own and journal_doubt.forgotten(core, event.group):
            text = (
                f"no group {event.group} at {core.site}: if it was accepted, it went with the end of a lost database; "
            )
            return Refusal(code="usage", text=text + stocktaking.hope(core))
        if group is None or authorise(event.principal, Action.READ_GROUP, group.owner):
            return Refusal(code="usage", text=no_group(event.group or GroupId(""), core.site))
        if event.what == "group":
            return group_view(core, group)
        if event.what == "ended":
            return ended.page(group, event.outcome, event.first, event.limit)
        if event.what == "job":
            if event.first in group.unused:
                text = f"{group.group} has no job {event.first}: its gang was divided into fewer components"
                return Refusal(code="usage", text=text)
            return _job_place(core, group, event.first)
        queries.explain(core, event, group)
        return None
    action = _ACTION.get(event.what)
    if action is None:
        return Refusal(code="usage", text=f"nothing called {event.what!r} can be asked")
    why = authorise(event.principal, action)
    if why:
        return Refusal(code="denied", text=why)
    match event.what:
        case "groups":
            return _groups(core, event)
        case "sites":
            held = views_guard.Held(core)
            every = (sites.home(core), *(sites.peer(core, s) for s in sites.met_first(core)))
            return views.Sites(tuple(_guarded(site, *held.at(SiteId(site.site))) for site in every))
        case "links" | "paths":
            return links.links(core, event)
        case "datasets":
            return _datasets(core)
        case "history":
            return past.page(core, event)
        case "history-site":
            return past.site(core, event)
        case "queue":
            queries.ask_queue(core, event)
            return None
        case "ledger":
            return trust_ledger.view(core)
        case "peers":
            return peers.peers(core)
        case "figures":
            return gauges.figures(core)
        case "info":
            return views.Info(
                site=core.site,
                db_uuid=core.state.db_uuid,
                generation=core.state.generation,
                groups=len(core.state.groups),
                queued_jobs=capacity.queued_jobs(core),
                running_jobs=capacity.running_jobs(core),
                slots=core.workers.slots(),
                free_slots=core.workers.free_slots(),
                jobs_done=core.counters.get("jobs_done", 0),
                jobs_exported=core.counters.get("jobs_exported", 0),
                jobs_imported=core.counters.get("jobs_imported", 0),
                queue_wait_s=core.line.flow.figures(core.now).mean_wait_s,
            )
    return views.Ok()


def _job_place(core: Context, group: Group, index: int) -> views.JobPlace:
    for subgroup in group.subgroups.values():
        if index in subgroup.indices:
            return views.JobPlace(
                site=subgroup.site,
                subgroup=subgroup.subgroup,
                epoch=subgroup.epoch,
                note=subgroup.unreachable,
                decision=subgroup.decision,
                held=index in subgroup.holding,
            )
    if index in group.holding:
        return views.JobPlace(site=None, note=f"held until it is released: diana release {group.group}", held=True)
    return views.JobPlace(site=None, note=core.waiting_notes.get(group.group) or group.on_hold)


def _groups(core: Context, event: Ask) -> views.Groups:
    """Return the groups that were asked for, of a list the first `views.GROUPS_AT_ONCE`. Others' groups and those
    beyond the limit cost a look each, no more: nobody who asks pays for a flood of them."""
    if event.named:
        some = (core.state.groups.get(name) for name in event.named)
        mine = [g for g in some if g is not None and not authorise(event.principal, Action.READ_GROUP, g.owner)]
        return views.Groups(tuple(group_view(core, group) for group in mine))
    name = event.principal.name
    everybodys = event.principal.role is Role.OPERATOR and not event.mine
    going: list[Group] = []
    ended: list[Group] = []
    # As they were submitted: the newest stands last.
    for group in reversed(core.state.groups.values()):
        if everybodys or group.owner == name:
            (ended if is_final(core, group) else going).append(group)
    found = going if event.active else going + ended
    kept = found[: event.limit] if event.limit else found
    kept.sort(key=_number)
    told, more = kept[: views.GROUPS_AT_ONCE], tuple(group.group for group in kept[views.GROUPS_AT_ONCE :])
    return views.Groups(tuple(group_view(core, group) for group in told), len(found) - len(kept), more)


def _number(group: Group) -> int:
    return int(group.group.rpartition("-")[2])


def group_view(core: Context, group: Group) -> views.GroupView:
    shares = [
        _share(core, group, s)
        for s in sorted(group.subgroups.values(), key=lambda s: s.epoch)
        # The merge is no job of the user's; retried jobs are another share's.
        if s.indices and s.indices.bounds[:1] != (group.jobs,)
    ]
    unreachable = sum(s.open_jobs() for s in group.subgroups.values() if out_of_reach(core, s))
    counted = [s for s in shares if s.state != "unreachable"]
    running = sum(s.running for s in counted)
    waits = sum(s.held for s in counted) + len(group.holding)
    blocked = group.group in core.book(Dependencies).blocked
    if blocked:
        waits += len(group.unplaced) - len(group.holding)
    expected = outcomes.expected(group, core.book(Reservations).foretold.get(group.group))
    every, waiting, going = gangs.counted(group)
    spare = len(gangs.spare(group))
    best = max((s for s in counted if s.level), key=lambda s: s.priority, default=None)
    return views.GroupView(
        group=group.group,
        name=group.spec.name,
        owner=group.owner,
        state=_state(core, group, running, unreachable, waits),
        jobs=group.jobs - len(group.unused) - spare,
        unplaced=0 if blocked else len(group.unplaced) - len(group.holding) - spare,
        staging=sum(s.staging for s in counted),
        queued=sum(s.queued for s in counted),
        running=running,
        done=len(group.done),
        failed=len(group.failed),
        cancelled=len(group.cancelled),
        held=len(group.held) + waits,
        unreachable=unreachable,
        gathering=len(group.gathers),
        final=is_final(core, group),
        submitted_wall_s=group.wall_s,
        age_s=max(0.0, core.now - group.submitted_s),
        first_start_s=group.first_start_s,
        last_end_s=group.last_end_s,
        bytes_moved=group.bytes_moved,
        shares=tuple(shares),
        level=best.level if best else "",
        priority=best.priority if best else 0.0,
        note=_waiting_note(core, group)
        or stocktaking.note(core, group)
        or _unreachable_note(core, group)
        or dependencies.note(core, group)
        or _staging_note(core, group)
        or guard.group_note(core, group)
        or rescheduling.note(core, group)
        or swaps.note(core, group)
        or "; ".join(filter(None, (group.note, gangs.ended_note(group)))),
        after=group.after,
        dataset=group.spec.outputs.dataset,
        components=group.spec.gang_size if group.spec.components else 0,
        gangs=every,
        gangs_waiting=waiting,
        gangs_running=going,
        expected_end_s=expected.end_s,
        expected_low_s=expected.low_s,
        expected_high_s=expected.high_s,
        durability=1,
        indices=group.jobs,
        outputs_to=group.spec.outputs.to,
        leaves=bool(group.spec.outputs.collect or group.spec.stdout or group.spec.stderr),
        superseded=tuple((part, s.superseded) for part, s in sorted(group.subgroups.items()) if s.superseded),
        on_their_way=tuple(group.gathers),
        merge=(group.merge or "waits") if group.spec.outputs.merge else "",
    )


def _state(core: Context, group: Group, running: int, unreachable: int, waits: int) -> str:
    if group.state:
        return group.state
    if group.merge == "running":
        return "merging"
    if group.group in core.book(Registrations).open.values():
        return "registering"
    if unreachable and unreachable == group.jobs - group.finished():
        return "unreachable"
    if waits and waits == group.jobs - group.finished():
        return "held"
    if running or (group.finished() and not group.on_hold):
        return "running"
    if group.on_hold:
        return "held"
    if dependencies.waits(core, group):
        return "waiting"
    return "placing" if len(group.unplaced) == group.jobs else "queued"


def _waiting_note(core: Context, group: Group) -> str:
    """Return why the group waits, and whether others were to make way for it."""
    waits, asked = core.waiting_notes.get(group.group, ""), metascheduling.note(core, group)
    return f"{waits}; {asked}" if waits and asked else waits


def _unreachable_note(core: Context, group: Group) -> str:
    """Return of each site that nobody can tell of why, as far as a line has room for."""
    said: dict[SiteId, str] = {}
    for subgroup in group.subgroups.values():
        if subgroup.open_jobs() and not said.get(subgroup.site):
            said[subgroup.site] = out_of_reach(core, subgroup)
    known = [why for why in said.values() if why]
    more = f"; so with {counted(len(known) - _SAID_SITES, 'more site')}" if len(known) > _SAID_SITES else ""
    return "; ".join(known[:_SAID_SITES]) + more


def out_of_reach(core: Context, subgroup: Subgroup) -> str:
    """Return why nobody can tell how its jobs fare (PROMISES 1.4 and 1.7); empty: their site is heard of. An offer
    needs no word here: it is taken back by itself."""
    if subgroup.unreachable or subgroup.site == core.site or subgroup.step is Step.OFFERED:
        return subgroup.unreachable
    if subgroup.site in core.view.banned:
        return f"{subgroup.site} is banned: {trust_ledger.why_banned(core, subgroup.site)}"
    peer = core.view.peers.get(subgroup.site)
    patience_s = core.state.settings.suspect_after_s
    age_s = core.now - peer.last_heard_s if peer is not None else core.now - core.started_at_s
    if age_s <= patience_s or (peer is not None and standing(peer, age_s, patience_s) in ("alive", "suspect")):
        return ""
    fate = leases.note(core, subgroup) or "its jobs there go on by themselves, or wait for it"
    return f"{subgroup.site} was last heard of {age_s:.0f} s ago; {fate}"


def _staging_note(core: Context, group: Group) -> str:
    """Note on the first part whose inputs do not arrive, whose machine is away, or whose jobs wait for the end of a
    maintenance; empty: there is none."""
    for part, subgroup in sorted(group.subgroups.items()):
        if not subgroup.open_jobs():
            continue
        if subgroup.site == core.site:
            note = staging.note(core, (part, subgroup.epoch)) or machine_events.note(core, (part, subgroup.epoch))
            note = note or maintenance.note(core, (part, subgroup.epoch))
        else:
            told = core.view.progress.get(part)
            # From a peer: one line, whatever it sent.
            current = told is not None and told.epoch == subgroup.epoch
            note = staging.clipped(told.note) if told is not None and current else ""
        if note:
            return f"{subgroup.site}: {note}"
    return ""


def _share(core: Context, group: Group, subgroup: Subgroup) -> SiteShare:
    staging = queued = running = held = 0
    stands: tuple[str, float] = ("", 0.0)
    home = subgroup.site == core.site
    if home:
        custody = core.state.custodies.get((subgroup.subgroup, subgroup.epoch))
        if custody is not None:
            waiting = custody.startable()
            staging = len(waiting & core.book(StageBook).blocked(custody.key))
            running = capacity.running_here(core, custody)
            queued = len(waiting) - staging + len(custody.running) - running
            held = len(custody.pending) - len(waiting)
            stands = core.queues.best(custody.key)
    else:
        told = core.view.progress.get(subgroup.subgroup)
        if told is not None:
            # Progress is told now and then, results at once: never show more than is still open.
            running = min(told.running, subgroup.open_jobs())
            held = min(len(told.held), subgroup.open_jobs() - running)
            staging = min(told.staging, subgroup.open_jobs() - running - held)
            stands = (told.level, told.priority) if told.level in Level.__members__ else stands
        queued = subgroup.open_jobs() - staging - running - held
        if stocktaking.keeps_back(group):
            staging, queued, held = 0, 0, held + staging + queued
    peer = core.view.peers.get(subgroup.site)
    return SiteShare(
        site=subgroup.site,
        jobs=len(subgroup.indices),
        staging=staging,
        queued=queued,
        running=running,
        done=subgroup.done,
        failed=subgroup.failed,
        state=_share_state(core, group, subgroup),
        held=held,
        level=stands[0] if queued + staging else "",
        priority=stands[1] if queued + staging else 0.0,
        age_s=0.0 if home or peer is None else max(0.0, core.now - peer.last_heard_s),
    )


def _share_state(core: Context, group: Group, subgroup: Subgroup) -> str:
    home = subgroup.site == core.site
    if not subgroup.open_jobs():
        return "closed"
    if subgroup.unreachable:
        return "unreachable"
    if subgroup.control_acked < subgroup.control_seq and not home:
        if group.open_of(subgroup.cancelling):
            return "cancelling"
        if subgroup.recalled & subgroup.indices:
            return "moving"
        return "holding" if subgroup.holding else "releasing"
    if out_of_reach(core, subgroup):
        return "unreachable"
    if subgroup.step is Step.OFFERED:
        return "offered"
    return "local" if home else "committed"


def _guarded(site: Site, rows: tuple[views.GuardEntry, ...], more: int) -> views.SiteView:
    return views.SiteView(shown=msgspec.structs.replace(site, guarded_more=more) if more else site, guarded=rows)


def _datasets(core: Context) -> views.Datasets:
    rows = [
        Dataset(name=name, site=core.site, files=d.files, size_bytes=d.size_bytes)
        for name, d in core.state.datasets.items()
    ]
    for site, peer in core.view.peers.items():
        if peer.summary is not None:
            rows += [Dataset(name=n, site=site, files=-1, size_bytes=-1) for n in peer.summary.datasets]
    return views.Datasets(tuple(sorted(rows, key=lambda r: (r.name, r.site))))
