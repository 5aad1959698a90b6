"""The acceptance of a submission as a group: the checks it must pass; made durable first, then answered."""

from __future__ import annotations

import msgspec

from diana.engine.data import output_datasets, outputs
from diana.engine.dispatch import capacity
from diana.engine.journal.effects import GroupAccepted, Refusal, Reply
from diana.engine.journal.events import SubmitGroup
from diana.engine.journal.records import GroupSubmitted
from diana.engine.journal.state import Group
from diana.engine.matching import facts, gang_choice
from diana.engine.matching.match import allowed
from diana.engine.messages.messages import Authorisation
from diana.engine.placement.draft import Drafts, NewGroup
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.model.ids import GroupId, group_id
from diana.model.job.components import check_components, check_flexible, check_slowdown
from diana.model.job.resources import request_of
from diana.model.job.spec import GroupSpec, encode_spec
from diana.model.words import counted
from diana.policy.queueing import limits

MANY_PEERS = 64
"""With more known peers than this, the roster's table is asked instead of each peer's summary."""


def _no_gangs(core: Context, event: SubmitGroup) -> str:
    """Return why its jobs are no gangs; empty: they are, or need not be."""
    if not event.spec.is_gang:
        return ""
    try:
        check_components(event.spec.components)
        if event.spec.flexible is not None:
            check_flexible(event.spec.flexible)
    except ValueError as error:
        return str(error)
    try:
        check_slowdown(event.spec.slowdown)
    except ValueError as error:
        return f"gang.slowdown: {error}"
    if why := gang_choice.unknown(core, event.spec.gang_placement):
        return why
    size = event.spec.gang_size
    return f"{event.jobs} indices: want {size} for each gang" if event.jobs % size and not event.plan_only else ""


def refusal(core: Context, event: SubmitGroup) -> Refusal | None:
    if core.low_room and not event.plan_only:
        return Refusal(code="retry", text=f"{core.site}: {core.low_room}", retry_after_s=60.0)
    if why := journal_doubt.waiting_for(core):
        by_hand = core.term and journal_doubt.fallen(core)
        return Refusal(code="retry", text=f"{core.site} {why}", retry_after_s=60.0 if by_hand else 5.0)
    if why := _permit_refused(core, event):
        return Refusal(code="denied", text=why)
    if why := _no_gangs(core, event):
        return Refusal(code="usage", text=why)
    if event.jobs < 1:
        return Refusal(code="usage", text="the sweep is empty: give it at least one value")
    if event.spec.resources.processors < 1:
        return Refusal(code="usage", text=f"processors = {event.spec.resources.processors}: want 1 or more")
    if event.spec.outputs.merge and core.workers.slots() < 1:
        return Refusal(code="usage", text=f"the merge would run at {core.site}, which has no slots; submit elsewhere")
    shared = outputs.shared(core, event.spec)
    if shared:
        return Refusal(code="usage", text=shared)
    if event.spec.outputs.dataset:
        taken = output_datasets.taken(core, event.principal.name, event.spec.outputs.dataset)
        if taken:
            return Refusal(code="usage", text=taken)
    return beyond_limits(core, event.principal.name, event.jobs)


def beyond_limits(core: Context, user: str, jobs: int) -> Refusal | None:
    """Return why this site takes no more jobs, or none of this user; None: it takes so many."""
    if jobs + capacity.queued_jobs(core) > core.state.settings.max_queued_jobs:
        limit = core.state.settings.max_queued_jobs
        if jobs > limit:
            text = f"{counted(jobs, 'job')}: {core.site} takes {limit:,} at most; submit them in pieces"
            return Refusal(code="usage", text=text)
        return Refusal(
            code="retry", text=f"{core.site} holds its limit of {counted(limit, 'job')}; try later", retry_after_s=30.0
        )
    settings = core.state.settings
    if not settings.user_max_queued:
        return None
    why = limits.queued(settings, jobs, capacity.queued_of(core, user) + capacity.unplaced_of(core, user))
    if not why:
        return None
    text = f"{core.site} {why}"
    if jobs > settings.user_max_queued:
        return Refusal(code="usage", text=f"{text}; submit fewer jobs")
    return Refusal(code="retry", text=f"{text}; try later", retry_after_s=30.0)


def known_key(core: Context, event: SubmitGroup) -> bool:
    """Answer a repeated submission key from what stands; False if the key is new."""
    owner = event.principal.name
    body = encode_spec(event.spec)
    known = core.state.keys.get(f"{owner} {event.key}")
    if known is not None:
        group = core.state.groups[known]
        same = group.spec_bytes == body and not group.after and len(group.chain) < 2
        core.reply(Reply(event.request, GroupAccepted(known, group.jobs) if same else other_body(event.key, known)))
        return True
    for draft in core.book(Drafts).open.values():
        other = draft.purpose
        if isinstance(other, NewGroup) and (other.event.principal.name, other.event.key) == (owner, event.key):
            if encode_spec(other.event.spec) == body:
                other.requests.append(event.request)
            else:
                core.reply(Reply(event.request, other_body(event.key, "a group being submitted")))
            return True
    if any((c.event.principal.name, c.event.key) == (owner, event.key) for c in core.book(Drafts).chains):
        core.reply(Reply(event.request, other_body(event.key, "groups being submitted")))
        return True
    return False


def other_body(key: str, known: str) -> Refusal:
    return Refusal(code="usage", text=f"key {key!r} belongs to {known}, which asks for something else; use another key")


def surely_placeable(core: Context, spec: GroupSpec) -> bool:
    """True if some allowed site known here surely has the processors: no quotes are needed before the answer."""
    request = request_of(spec)
    if not request.is_plain or spec.requires:
        return False
    if spec.model or spec.learned:
        return False
    if allowed(spec, core.site) and core.workers.widest() >= request.processors:
        return True
    if len(core.view.peers) > MANY_PEERS and not spec.sites and not spec.not_sites:
        return core.roster.has_processors(request.processors)
    alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
    summaries = [core.view.peers[s].summary for s in alive if allowed(spec, s)]
    return any(s is not None and s.accepting and facts.may_fit(s, request) for s in summaries)


def accept(core: Context, submission: NewGroup) -> Group:
    """Make the group durable and answer its submitters."""
    event = submission.event
    group = store_group(core, event, key=event.key)
    for request in submission.requests:
        core.reply(Reply(request, GroupAccepted(group.group, event.jobs)))
    return group


def _permit(core: Context, event: SubmitGroup, group: GroupId, body: bytes) -> Authorisation:
    """Return the user's own signature where there is one, else this site's."""
    if event.permit is None:
        return core.keyring.authorise(event.principal.name, group, body)
    permit: Authorisation = msgspec.structs.replace(event.permit, group=group)
    return permit


def _permit_refused(core: Context, event: SubmitGroup) -> str:
    """Return why the user's signature does not cover this submission; empty: it does. The call that brought it has
    compared already which submission was signed."""
    permit = event.permit
    if permit is None:
        return ""
    if permit.signer != f"user:{event.principal.name}" or permit.owner != event.principal.name:
        return f"{permit.signer} signed for {permit.owner}, but {event.principal.name} submits; use one credential"
    if permit.audience != core.site:
        return f"what was signed is for site {permit.audience}, this is {core.site}; submit again"
    named = msgspec.structs.replace(permit, group=group_id(core.site, core.state.next_group))
    return core.keyring.check(named, encode_spec(event.spec))


def store_group(
    core: Context, event: SubmitGroup, *, key: str, after: tuple[GroupId, ...] = (), chain: tuple[GroupId, ...] = ()
) -> Group:
    """Store the next group of this site, durable with the other records of the transaction."""
    group = group_id(core.site, core.state.next_group)
    body = encode_spec(event.spec)
    core.persist(
        GroupSubmitted(
            group=group,
            owner=event.principal.name,
            key=key,
            spec=body,
            jobs=event.jobs,
            refs=event.refs,
            submitted_s=core.now,
            wall_s=event.wall_s,
            authorisation=_permit(core, event, group, body),
            after=after,
            chain=chain,
            notify=event.notify,
        )
    )
    core.count("groups_submitted")
    return core.state.groups[group]
