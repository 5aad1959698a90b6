"""From a submission to a decision: view -> short list -> quotes -> cost table -> whole or split.

A `Draft` is one placement in the making. It is volatile: after a crash groups with unplaced jobs are drafted anew,
and a submission that was not answered yet never was.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from diana.engine import handover, load, staging
from diana.engine.context import Context
from diana.engine.effects import DecisionMade, GroupAccepted, Refusal, Reply
from diana.engine.events import SubmitGroup
from diana.engine.manifest import Manifest
from diana.engine.messages import Quote, QuoteRequest
from diana.engine.records import GroupPlaced, GroupSubmitted, Part
from diana.engine.state import Group
from diana.model.decision import Decision
from diana.model.ids import GroupId, SiteId, group_id, subgroup_id
from diana.model.indexset import IndexSet
from diana.model.principal import Principal
from diana.model.spec import GroupSpec, encode_spec
from diana.policy import limits, splitting
from diana.policy.allotment import allot
from diana.policy.authorise import Action, authorise
from diana.policy.demand import Candidate, Demand

SHORT_LIST = 16
"""Peers asked for quotes, besides those that hold data of the group."""
MAX_ASKED_REFS = 5000
"""Beyond this many file refs a quote is asked by dataset."""
RETRY_S = 5.0
"""After this long a group no site could take is priced again."""


class Draft:
    """Quotes being gathered for one placement."""

    def __init__(self, number: int, spec: GroupSpec, indices: IndexSet, refs: Iterable[tuple[str, IndexSet]]) -> None:
        self.number = number
        self.spec = spec
        self.indices = indices
        self.refs = tuple(refs)
        self.owner = ""
        self.submit: SubmitGroup | None = None
        self.requests: list[int] = []
        self.group: GroupId | None = None
        self.waiting: set[SiteId] = set()
        self.quotes: dict[SiteId, tuple[Quote, float]] = {}

    def waits_for_data(self) -> bool:
        return any(ref.startswith("dataset:") for ref, _ in self.refs)


# --- submission ------------------------------------------------------------------------------------------


def submit(core: Context, event: SubmitGroup) -> None:
    why = authorise(event.principal, Action.PLAN if event.plan_only else Action.SUBMIT)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    # What stands already is answered also by a site that takes nothing new.
    if event.key and not event.plan_only and _known_key(core, event):
        return
    refusal = _refuse(core, event)
    if refusal:
        core.reply(Reply(event.request, refusal))
        return
    draft = Draft(core.ticket(), event.spec, IndexSet.span(0, event.jobs), event.refs)
    draft.submit, draft.requests, draft.owner = event, [event.request], event.principal.name
    if not event.plan_only and not draft.waits_for_data() and _surely_placeable(core, event.spec):
        _accept(core, draft)
        draft.submit = None
    _ask(core, draft)


def _refuse(core: Context, event: SubmitGroup) -> Refusal | None:
    if core.low_room and not event.plan_only:
        return Refusal(code="retry", text=f"{core.site}: {core.low_room}", retry_after_s=60.0)
    if event.jobs < 1:
        return Refusal(code="usage", text="the sweep is empty: give it at least one value")
    if event.spec.resources.processors < 1:
        return Refusal(code="usage", text=f"processors = {event.spec.resources.processors}: want 1 or more")
    if event.spec.outputs.merge and core.state.settings.slots < 1:
        return Refusal(code="usage", text=f"the merge would run at {core.site}, which has no slots; submit elsewhere")
    if event.jobs + load.queued_jobs(core) > core.state.settings.max_queued_jobs:
        limit = core.state.settings.max_queued_jobs
        return Refusal(code="retry", text=f"{core.site} holds its limit of {limit} jobs; try later", retry_after_s=30.0)
    return _user_refused(core, event.principal.name, event.jobs)


def _user_refused(core: Context, user: str, jobs: int) -> Refusal | None:
    settings = core.state.settings
    if not settings.user_max_queued:
        return None
    why = limits.queued(settings, jobs, load.queued_of(core, user) + load.unplaced_of(core, user))
    if not why:
        return None
    text = f"{core.site} {why}"
    if jobs > settings.user_max_queued:
        return Refusal(code="usage", text=f"{text}; submit fewer jobs")
    return Refusal(code="retry", text=f"{text}; try later", retry_after_s=30.0)


def _known_key(core: Context, event: SubmitGroup) -> bool:
    """Answer a repeated submission key from what stands; False if the key is new."""
    owner = event.principal.name
    body = encode_spec(event.spec)
    known = core.state.keys.get(f"{owner} {event.key}")
    if known is not None:
        group = core.state.groups[known]
        same = group.spec_bytes == body
        core.reply(Reply(event.request, GroupAccepted(known, group.jobs) if same else _other_body(event.key, known)))
        return True
    for draft in core.drafts.values():
        other = draft.submit
        if other and not other.plan_only and (other.principal.name, other.key) == (owner, event.key):
            if encode_spec(other.spec) == body:
                draft.requests.append(event.request)
            else:
                core.reply(Reply(event.request, _other_body(event.key, "a group being submitted")))
            return True
    return False


def _other_body(key: str, known: str) -> Refusal:
    return Refusal(code="usage", text=f"key {key!r} belongs to {known}, which asks for something else; use another key")


def _surely_placeable(core: Context, spec: GroupSpec) -> bool:
    """Some allowed site that is heard of has the processors: no need to ask before the answer."""
    processors = spec.resources.processors
    asks_more = spec.resources.gpus or spec.resources.memory_bytes
    if asks_more:
        return False
    if _allowed(spec, core.site) and core.state.settings.slots >= processors:
        return True
    alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
    summaries = [core.view.peers[s].summary for s in alive if _allowed(spec, s)]
    return any(s is not None and s.accepting and s.slots >= processors for s in summaries)


def _allowed(spec: GroupSpec, site: SiteId) -> bool:
    return (not spec.sites or site in spec.sites) and site not in spec.not_sites


def _accept(core: Context, draft: Draft) -> Group:
    """The group becomes durable and its submitters are answered."""
    event = draft.submit
    assert event is not None
    group = group_id(core.site, core.state.next_group)
    body = encode_spec(event.spec)
    core.persist(
        GroupSubmitted(
            group=group,
            owner=event.principal.name,
            key=event.key,
            spec=body,
            jobs=event.jobs,
            refs=event.refs,
            submitted_s=core.now,
            wall_s=event.wall_s,
            authorisation=core.keyring.authorise(event.principal.name, group, body),
        )
    )
    for request in draft.requests:
        core.reply(Reply(request, GroupAccepted(group, event.jobs)))
    draft.group = group
    core.count("groups_submitted")
    return core.state.groups[group]


# --- quotes ----------------------------------------------------------------------------------------------


def replace(core: Context, group: Group) -> None:
    """Place what is unplaced of the group, unless that is under way."""
    core.timers.cancel(("place", group.group))
    waiting = group.unplaced - group.holding
    if group.state or group.on_hold or not waiting or not _parallel_left(group, group.spec):
        return
    if any(d.group == group.group for d in core.drafts.values()):
        return
    draft = Draft(core.ticket(), group.spec, waiting, group.refs)
    draft.group = group.group
    draft.owner = group.owner
    _ask(core, draft)


def _ask(core: Context, draft: Draft) -> None:
    core.drafts[draft.number] = draft
    for site in _short_list(core, draft):
        draft.waiting.add(site)
        core.send(site, _request(draft))
    if draft.waiting:
        core.after(("quotes", str(draft.number)), core.state.settings.quote_wait_s)
    else:
        _decide(core, draft)


def _request(draft: Draft) -> QuoteRequest:
    refs = sorted({ref for ref, _ in draft.refs if ref.startswith("dataset:")})
    if len(refs) > MAX_ASKED_REFS:
        refs = sorted({ref.partition("/")[0] for ref in refs})
    need = draft.spec.resources
    return QuoteRequest(
        quote=draft.number,
        processors=need.processors,
        memory_bytes=need.memory_bytes,
        gpus=need.gpus,
        jobs=len(draft.indices),
        refs=tuple(refs),
        owner=draft.owner,
    )


def _short_list(core: Context, draft: Draft) -> list[SiteId]:
    """All peers in a small grid; else those with the least wait by their summaries and those that hold data."""
    alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
    names = {ref.partition(":")[2].partition("/")[0] for ref, _ in draft.refs if ref.startswith("dataset:")}
    if not names:
        alive = [s for s in alive if _allowed(draft.spec, s)]
    if len(alive) <= SHORT_LIST:
        return alive
    waits: list[tuple[float, SiteId]] = []
    holders: set[SiteId] = set()
    for site in alive:
        summary = core.view.peers[site].summary
        if summary is None:
            continue
        if names & set(summary.datasets):
            holders.add(site)
        if summary.accepting and summary.slots and summary.speed > 0 and _allowed(draft.spec, site):
            waits.append((summary.work_ahead_s / (summary.slots * summary.speed), site))
    return sorted(holders | {site for _, site in sorted(waits)[:SHORT_LIST]})


def answer_quote(core: Context, sender: SiteId, message: QuoteRequest) -> None:
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why:
        core.warn(why)
        return
    core.send(sender, load.quote(core, message))


def on_quote(core: Context, sender: SiteId, quote: Quote) -> None:
    draft = core.drafts.get(quote.quote)
    if draft is None or sender not in draft.waiting:
        return
    draft.waiting.discard(sender)
    draft.quotes[sender] = (quote, core.now)
    if not draft.waiting:
        _decide(core, draft)


def quotes_due(core: Context, number: str) -> None:
    draft = core.drafts.get(int(number))
    if draft is not None:
        _decide(core, draft)


# --- decision --------------------------------------------------------------------------------------------


def _decide(core: Context, draft: Draft) -> None:
    del core.drafts[draft.number]
    core.timers.cancel(("quotes", str(draft.number)))
    group = core.state.groups.get(draft.group) if draft.group else None
    if draft.group and (group is None or group.state or not _parallel_left(group, draft.spec)):
        return
    # Jobs may have been cancelled or held while the quotes came in, and others come back.
    indices = draft.indices
    if group:
        waiting = group.unplaced - group.holding
        indices = waiting & draft.indices
        if not waiting.issubset(indices):
            core.to_place.add(group.group)
    if not indices:
        return
    manifest = Manifest(core, draft.spec, draft.refs, {s: q for s, (q, _) in draft.quotes.items()})
    if manifest.missing:
        _give_up(core, draft, group, Refusal(code="usage", text=manifest.missing_line()))
        return
    parallel = _parallel_left(group, draft.spec)
    plan = _plan(core, draft, indices, manifest, parallel)
    if draft.submit and draft.submit.plan_only:
        body = DecisionMade(plan.decision) if plan.parts else _unplaceable(plan, draft.spec)
        core.reply(Reply(draft.submit.request, body))
    elif not plan.parts:
        _give_up(core, draft, group, _unplaceable(plan, draft.spec))
    else:
        # What finds no room under max_parallel now is placed when a part is over.
        parts = plan.parts[:parallel] if draft.spec.max_parallel else plan.parts
        _place(core, group or _accept(core, draft), plan.decision, parts, manifest)


def _parallel_left(group: Group | None, spec: GroupSpec) -> int:
    """How many jobs may yet run at once beside those of the parts that stand; 1 where there is no limit."""
    if not spec.max_parallel:
        return 1
    held = sum(s.max_parallel for s in group.subgroups.values() if s.open_jobs()) if group else 0
    return max(0, spec.max_parallel - held)


def _plan(core: Context, draft: Draft, indices: IndexSet, manifest: Manifest, parallel: int) -> splitting.Plan:
    spec = draft.spec
    settings = core.state.settings
    demand = Demand(
        indices=indices,
        processors=spec.resources.processors,
        work_s=spec.resources.work_s or settings.default_work_s,
        needs=manifest.needs(indices),
        max_subgroup=min(spec.max_subgroup or settings.max_subgroup, settings.max_subgroup),
        max_parallel=parallel if spec.max_parallel else 0,
    )
    candidates = [_candidate(core, draft, site, manifest) for site in _everyone(core, draft)]
    plan = splitting.decide(demand, candidates, core.now)
    if spec.max_parallel and len(plan.parts) > parallel:
        best = plan.decision.candidates[0].site
        plan = splitting.decide(demand, [c for c in candidates if c.site == best], core.now)
    return plan


def _everyone(core: Context, draft: Draft) -> list[SiteId]:
    """Home first, then every known peer by id, so that home wins ties."""
    return [core.site, *sorted(core.view.peers)]


def _candidate(core: Context, draft: Draft, site: SiteId, manifest: Manifest) -> Candidate:
    default = core.state.settings.default_bytes_per_s
    home = site == core.site
    if not _allowed(draft.spec, site):
        return Candidate(site=site, rejected="not among the sites the group allows")
    if home:
        quote, at = load.quote(core, _request(draft), for_peer=False), core.now
    elif site in draft.quotes:
        quote, at = draft.quotes[site]
    else:
        peer = core.view.peers[site]
        silent = f"no answer for {core.now - peer.last_heard_s:.0f} s" if not peer.up else "gave no quote in time"
        return Candidate(site=site, rejected=silent)
    refused_until = core.avoid.get(draft.group, {}).get(site, 0.0) if draft.group else 0.0
    rejected = quote.rejected or _unusable(quote, draft.spec)
    if refused_until > core.now:
        rejected = rejected or "refused part of this group just now"
    links = {link.site: link.bytes_per_s for link in quote.links if link.bytes_per_s > 0}
    peer_view = core.view.peers.get(site)
    return Candidate(
        site=site,
        rejected=rejected,
        slots=quote.slots,
        speed=quote.speed,
        work_ahead_s=quote.work_ahead_s,
        age_s=core.now - at,
        rtt_s=0.0 if home or peer_view is None or peer_view.rtt_s is None else peer_view.rtt_s,
        fetch_bytes_per_s={holder: links.get(holder, default) for holder in manifest.holders() if holder != site},
    )


def _unusable(quote: Quote, spec: GroupSpec) -> str:
    """A quote is a peer's word: nothing is divided by what it says before this was asked."""
    if quote.slots < spec.resources.processors:
        return f"has {quote.slots} processors, a job needs {spec.resources.processors}"
    return "" if 0 < quote.speed < inf and 0 <= quote.work_ahead_s < inf else "gave a quote that makes no sense"


def _unplaceable(plan: splitting.Plan, spec: GroupSpec) -> Refusal:
    rows = [f"{c.site}: {c.rejected or 'its data cannot be brought there'}" for c in plan.decision.candidates]
    known = {c.site for c in plan.decision.candidates}
    rows += [f"{site}: no site known here; see diana sites" for site in spec.sites if site not in known]
    return Refusal(code="unplaceable", text="no site can take this group: " + "; ".join(rows))


def _give_up(core: Context, draft: Draft, group: Group | None, refusal: Refusal) -> None:
    """Refuse a submission that was not accepted yet; a group that was waits and is priced again."""
    if group is None:
        for request in draft.requests:
            core.reply(Reply(request, refusal))
        return
    core.waiting_notes[group.group] = refusal.text
    core.after(("place", group.group), RETRY_S)
    core.notify(group.group)


def _place(
    core: Context, group: Group, decision: Decision, chosen: tuple[splitting.PlacedPart, ...], manifest: Manifest
) -> None:
    parallel = _parallel_left(group, group.spec) if group.spec.max_parallel else 0
    shares = allot(parallel, [len(p.indices) for p in chosen])
    parts = []
    for at, (placed, share) in enumerate(zip(chosen, shares, strict=True)):
        files, sources, readers = manifest.for_part(placed.site, placed.indices)
        parts.append(
            Part(
                subgroup=subgroup_id(group.group, group.next_number + at),
                epoch=group.epoch + 1 + at,
                site=placed.site,
                indices=placed.indices,
                files=files,
                sources=sources,
                readers=readers,
                max_parallel=share,
                attempt_base=group.attempt_base(placed.indices),
            )
        )
    core.waiting_notes.pop(group.group, None)
    core.persist(GroupPlaced(group=group.group, decision=decision, parts=tuple(parts)))
    for part in parts:
        if part.site == core.site:
            staging.begin(core, core.state.custodies[(part.subgroup, part.epoch)])
        else:
            handover.offer(core, group, group.subgroups[part.subgroup])
    core.notify(group.group)
