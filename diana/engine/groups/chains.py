"""A submission of several groups that wait for each other: all become durable in one transaction, or none.

Members are checked before the answer: each one that reads data no other member makes, or that is not surely placeable,
is priced once without being placed, so that a wrong name is refused while its author looks on.
"""

from __future__ import annotations

from functools import partial

import msgspec

from diana.engine.data import outputs
from diana.engine.journal.effects import GroupAccepted, GroupsAccepted, Refusal, Reply
from diana.engine.journal.events import Member, SubmitChain, SubmitGroup
from diana.engine.journal.state import Group
from diana.engine.placement import quote_round
from diana.engine.placement.accept import beyond_limits, other_body, refusal, store_group, surely_placeable
from diana.engine.placement.draft import Chain, Draft, Drafts, NewGroup, Probe
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.engine.site.dependencies import Dependencies
from diana.engine.site.timers import RequestTimer
from diana.model.data import newest_of
from diana.model.ids import GroupId, group_id
from diana.model.indexset import IndexSet
from diana.model.job.spec import encode_spec
from diana.policy.trust.authorise import Action, authorise

MOST_MEMBERS = 1000
"""Groups of one submission."""


def submit(core: Context, event: SubmitChain) -> None:
    why = authorise(event.principal, Action.SUBMIT)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    if event.key and _known_key(core, event):
        return
    why_not = _refused(core, event)
    if why_not:
        core.reply(Reply(event.request, why_not))
        return
    chain = Chain(event)
    drafts = _probes(core, chain)
    chain.asking = {draft.number for draft in drafts}
    core.book(Drafts).chains.append(chain)
    for draft in drafts:
        if not chain.over:
            quote_round.ask(core, draft)
    if not drafts:
        _accept(core, chain)


def _refused(core: Context, event: SubmitChain) -> Refusal | None:
    if not 0 < len(event.members) <= MOST_MEMBERS:
        text = f"{len(event.members)} groups in one submission; want 1 to {MOST_MEMBERS}"
        return Refusal(code="usage", text=text)
    for member in event.members:
        why_not = refusal(core, _alone(event, member)) or _after_refused(core, event, member)
        if why_not:
            return _about(event, member, why_not)
    clash = _shares_folder(event.members)
    if clash:
        return _about(event, clash[0], Refusal(code="usage", text=clash[1]))
    # Limits apply to all the jobs of the submission together.
    jobs = sum(member.jobs for member in event.members)
    return beyond_limits(core, event.principal.name, jobs)


def _after_refused(core: Context, event: SubmitChain, member: Member) -> Refusal | None:
    for name in member.after_groups:
        group = core.state.groups.get(name)
        if group is None or authorise(event.principal, Action.READ_GROUP, group.owner):
            return Refusal(code="usage", text=f"after: no group {name} of yours at {core.site}; see: diana status")
        if group.state not in ("", "done") or name in core.book(Dependencies).blocked:
            who, how, mend = dependencies.at_fault(core, name)
            what = (
                f"{dependencies.called(core, name)} waits for {who}, which"
                if name in core.book(Dependencies).blocked
                else who
            )
            text = f"after: {what} {how}; mend that first: {mend or f'diana cancel {name}'}"
            return Refusal(code="usage", text=text)
    return None


def _shares_folder(members: tuple[Member, ...]) -> tuple[Member, str] | None:
    """Return the first member whose outputs would meet those of another in a folder of the user's, and why."""
    first: dict[tuple[str, str], Member] = {}
    any_in: dict[str, tuple[Member, outputs.InJobsFolders]] = {}
    found_in: dict[str, tuple[Member, outputs.InJobsFolders]] = {}
    for member in members:
        for place in sorted(outputs.places(member.spec)):
            other = first.setdefault(place, member)
            if other is not member:
                return member, _meets(other, place[1], member)
        mine = outputs.in_jobs_folders(member.spec)
        if mine is None:
            continue
        if met := (any_in if mine.found else found_in).get(mine.folder):
            return member, _meets(met[0], met[1].name, member)
        any_in.setdefault(mine.folder, (member, mine))
        if mine.found:
            found_in.setdefault(mine.folder, (member, mine))
    return None


def _meets(other: Member, name: str, member: Member) -> str:
    return (
        f"outputs.to: group {other.spec.name} puts its {name!r} into {member.spec.outputs.to} too;"
        " name another folder, or put {group} into the file names"
    )


def _about(event: SubmitChain, member: Member, why_not: Refusal) -> Refusal:
    """Name the group meant in the refusal, if the submission has several."""
    if len(event.members) == 1:
        return why_not
    return msgspec.structs.replace(why_not, text=f"group {member.spec.name}: {why_not.text}")


def _alone(event: SubmitChain, member: Member) -> SubmitGroup:
    return SubmitGroup(
        request=event.request,
        principal=event.principal,
        key="",
        spec=member.spec,
        jobs=member.jobs,
        refs=member.refs,
        wall_s=event.wall_s,
        permit=member.permit,
        notify=member.notify,
    )


# --- what is asked before ----------------------------------------------------------------------------


def _probes(core: Context, chain: Chain) -> list[Draft]:
    event = chain.event
    made = {member.spec.outputs.dataset for member in event.members} - {""}
    drafts = []
    for member in event.members:
        refs = [(ref, jobs) for ref, jobs in member.refs if newest_of(ref) not in made]
        number, jobs = core.ticket(), IndexSet.span(0, member.jobs)
        probe = Probe(partial(_answered, core, chain, number, member))
        draft = Draft(number, member.spec, jobs, refs, owner=event.principal.name, purpose=probe)
        # Data of a group that waits for an earlier submission may be what that one is about to make.
        known_late = bool(member.after_groups)
        if (draft.sought() and not known_late) or not surely_placeable(core, member.spec):
            drafts.append(draft)
    return drafts


def _answered(core: Context, chain: Chain, number: int, member: Member, why_not: Refusal | None) -> None:
    chain.asking.discard(number)
    if chain.over:
        return
    if why_not:
        _end(core, chain)
        for request in chain.requests:
            core.reply(Reply(request, _about(chain.event, member, why_not)))
    elif not chain.asking:
        _accept(core, chain)


def _end(core: Context, chain: Chain) -> None:
    chain.over = True
    core.book(Drafts).chains.remove(chain)
    for number in sorted(chain.asking):
        core.book(Drafts).open.pop(number, None)
        core.timers.cancel(RequestTimer("quotes", number))


# --- accepting ---------------------------------------------------------------------------------------


def _accept(core: Context, chain: Chain) -> None:
    _end(core, chain)
    event = chain.event
    if event.key and _known_key(core, event):
        return
    # The groups they come after may have ended, or gone, while quotes were waited for.
    for member in event.members:
        why_not = _after_refused(core, event, member)
        if why_not:
            for request in chain.requests:
                core.reply(Reply(request, _about(event, member, why_not)))
            return
    first = core.state.next_group
    names = [group_id(core.site, first + at) for at in range(len(event.members))]
    accepted = []
    for at, member in enumerate(event.members):
        group = store_group(
            core,
            _alone(event, member),
            key="" if at else event.key,
            after=_after(member, names),
            chain=() if at else tuple(names),
        )
        assert group.group == names[at], "groups of one transaction are numbered in a row"
        dependencies.register(core, group)
        core.to_place.add(group.group)
        accepted.append(GroupAccepted(group.group, group.jobs))
    for request in chain.requests:
        core.reply(Reply(request, GroupsAccepted(tuple(accepted))))


def _after(member: Member, names: list[GroupId]) -> tuple[GroupId, ...]:
    return tuple(dict.fromkeys([*(names[at] for at in member.after), *member.after_groups]))


def _known_key(core: Context, event: SubmitChain) -> bool:
    """Answer a repeated submission from what stands or is on its way; False if the key is new."""
    owner = event.principal.name
    known = core.state.keys.get(f"{owner} {event.key}")
    if known is not None:
        groups = [core.state.groups[name] for name in core.state.groups[known].chain or (known,)]
        if _same(event, groups):
            body: GroupsAccepted | Refusal = GroupsAccepted(tuple(GroupAccepted(g.group, g.jobs) for g in groups))
        else:
            body = other_body(event.key, known)
        core.reply(Reply(event.request, body))
        return True
    purposes = [draft.purpose for draft in core.book(Drafts).open.values()]
    submitted = (purpose.event for purpose in purposes if isinstance(purpose, NewGroup))
    if any((s.principal.name, s.key) == (owner, event.key) for s in submitted):
        core.reply(Reply(event.request, other_body(event.key, "a group being submitted")))
        return True
    for chain in core.book(Drafts).chains:
        other = chain.event
        if (other.principal.name, other.key) == (owner, event.key):
            if other.members == event.members:
                chain.requests.append(event.request)
            else:
                core.reply(Reply(event.request, other_body(event.key, "groups being submitted")))
            return True
    return False


def _same(event: SubmitChain, groups: list[Group]) -> bool:
    names = [group.group for group in groups]
    return len(groups) == len(event.members) and all(
        group.spec_bytes == encode_spec(member.spec) and group.after == _after(member, names)
        for group, member in zip(groups, event.members, strict=True)
    )
