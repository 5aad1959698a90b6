"""Groups that are over go: by themselves after `keep_s`, or at their user's word."""

from __future__ import annotations

from diana.engine.journal.effects import DropGroup, Refusal, Reply
from diana.engine.journal.events import DropGroups
from diana.engine.journal.records import GroupExpired
from diana.engine.journal.state import Group
from diana.engine.recovery import stocktaking
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.model.ids import GroupId, no_group
from diana.model.job.urls import is_url
from diana.model.views.views import GroupsDropped
from diana.policy.trust.authorise import Action, authorise

_SHOWN = 3


def expire(core: Context, keep_s: float) -> None:
    """Drop the groups that were closed for longer; what they gathered stays."""
    for name in dependencies.expirable(core, keep_s):
        _drop(core, core.state.groups[name], outputs=False)


def drop(core: Context, event: DropGroups) -> None:
    """Drop groups at their user's word: all that are named, or none. With `each` those that can be dropped; the answer
    says why the others stay."""
    wanted = dict.fromkeys(event.groups)
    left = {name: why for name in wanted if (why := _kept(core, event, name))}
    # Groups of one submission go together, so that its key keeps its meaning.
    for group in core.state.groups.values():
        here = [name for name in group.chain if name in core.state.groups]
        stay = [name for name in here if name not in wanted or name in left]
        for name in here if stay else ():
            if name in wanted and name not in left:
                left[name] = _refused(f"{name} was submitted together with {_listed(stay)}; drop all of them at once")
    if left and not event.each:
        core.reply(Reply(event.request, next(iter(left.values()))))
        return
    dropped = tuple(name for name in wanted if name not in left)
    for name in dropped:
        group = core.state.groups[name]
        _drop(core, group, outputs=event.outputs or _stands_elsewhere(group))
    core.reply(Reply(event.request, GroupsDropped(dropped, tuple((name, why.text) for name, why in left.items()))))


def _kept(core: Context, event: DropGroups, name: GroupId) -> Refusal | None:
    """Return why the group stays, whatever becomes of others; None: it may go."""
    group = core.state.groups.get(name)
    why = authorise(event.principal, Action.DROP, group.owner if group else None)
    if group is None or (why and authorise(event.principal, Action.READ_GROUP, group.owner)):
        # Nobody else is told whose group it is, or whether it exists.
        return _refused(no_group(name, core.site))
    if why:
        return Refusal(code="denied", text=why)
    if not group.state:
        return _refused(f"{name} is not over; diana cancel {name} ends it")
    if unheard := stocktaking.in_doubt(core, group):
        # Jobs of it may have been tried again since the copy was made, and run there.
        return _refused(f"{core.site} was restored from a backup: dropping {name} {unheard}")
    if behind := dependencies.waiting_for(core, name):
        return _refused(f"{_listed(behind)} waits for {name}; diana cancel {behind[0]} ends that")
    if name in event.have_files and not (event.outputs or _rested_on(core, group) or _stands_elsewhere(group)):
        return _refused(
            f"{name} has outputs at the node; diana fetch {name} copies them, diana drop --outputs {name} deletes them"
        )
    return None


def _refused(text: str) -> Refusal:
    return Refusal(code="usage", text=text)


def _listed(names: list[GroupId]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _drop(core: Context, group: Group, *, outputs: bool) -> None:
    dependencies.forget(core, group)
    core.persist(GroupExpired(group=group.group))
    core.emit(DropGroup(group.group, outputs=outputs and not _rested_on(core, group)))


def _rested_on(core: Context, group: Group) -> bool:
    """True if a dataset rests on the files that the group gathered."""
    return group.registered and group.spec.outputs.dataset in core.state.datasets


def _stands_elsewhere(group: Group) -> bool:
    """True if all that the group left stands where its user wanted it: the node's own folder holds copies at most."""
    outputs = group.spec.outputs
    # What a merge command makes is not taken to a URL.
    return bool(outputs.to) and not group.not_gathered and not (outputs.merge and is_url(outputs.to))
