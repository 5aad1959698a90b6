"""Groups that wait for groups (SPEC J4): who waits, what for, and what becomes of them when that does not end well.

A group with `after` is placed, and its data looked up, once all groups named there are done. One that waits for a group
that ended otherwise, or for a group that waits for such a one, is *blocked*: it shows as held and final, costs nothing,
and goes on by itself when the group at fault is retried. Both are derived from the groups' states, never stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from diana.engine.journal.state import Group
from diana.engine.site.context import Context
from diana.model.ids import GroupId


class Dependencies:
    """Groups behind groups. Volatile: `rebuild` derives it from the state."""

    def __init__(self) -> None:
        self.dependents: dict[GroupId, list[GroupId]] = {}
        """Group -> those that are to come after it."""
        self.blocked: set[GroupId] = set()
        """Groups that wait for one that did not end well."""
        self.first_closed_s = -inf
        """Site time before which no group here was closed."""


def is_final(core: Context, group: Group) -> bool:
    """True if nothing more will happen to the group by itself."""
    return bool(group.state) or group.group in core.book(Dependencies).blocked


def rebuild(core: Context) -> None:
    """Derive it all from the state, at start."""
    core.book(Dependencies).dependents.clear()
    core.book(Dependencies).blocked.clear()
    for name in sorted(core.state.groups):
        register(core, core.state.groups[name])
    for name in sorted(core.state.groups):
        group = core.state.groups[name]
        if (
            group.after
            and not group.state
            and name not in core.book(Dependencies).blocked
            and _at_fault(core, group) is not None
        ):
            core.book(Dependencies).blocked.add(name)
            _spread(core, name)


def register(core: Context, group: Group) -> None:
    """Enter a group that was just accepted, or is known from before."""
    for before in group.after:
        core.book(Dependencies).dependents.setdefault(before, []).append(group.group)


def forget(core: Context, group: Group) -> None:
    """Drop a group that expired."""
    core.book(Dependencies).dependents.pop(group.group, None)
    core.book(Dependencies).blocked.discard(group.group)
    for before in group.after:
        if group.group in core.book(Dependencies).dependents.get(before, ()):
            core.book(Dependencies).dependents[before].remove(group.group)


def waiting_for(core: Context, name: GroupId) -> list[GroupId]:
    """Return the groups that are not over and are to come after this one."""
    behind = core.book(Dependencies).dependents.get(name, ())
    return [one for one in behind if one in core.state.groups and not core.state.groups[one].state]


def waits(core: Context, group: Group) -> bool:
    """True if some group it is to come after is not done; False for good once it was placed, whatever expired since."""
    return not group.decisions and any(not _is_done(core, before) for before in group.after)


def changed(core: Context, group: Group) -> None:
    """Follow a group that was closed or is open again: those behind it may go on, are blocked, or wait once more."""
    core.book(Dependencies).blocked.discard(group.group)
    if not group.state and _at_fault(core, group) is not None:
        core.book(Dependencies).blocked.add(group.group)
    if group.state == "done":
        core.to_place.update(core.book(Dependencies).dependents.get(group.group, ()))
    _spread(core, group.group)


def downstream(core: Context, group: GroupId) -> Iterator[GroupId]:
    """Yield every group that waits for `group`, directly or not, nearest first, each once."""
    seen, row = {group}, deque([group])
    while row:
        for name in core.book(Dependencies).dependents.get(row.popleft(), ()):
            if name not in seen and name in core.state.groups:
                seen.add(name)
                row.append(name)
                yield name


def note(core: Context, group: Group) -> str:
    """Return what the group waits for, in one line; empty: it does not wait."""
    if group.state or not waits(core, group):
        return ""
    if group.group in core.book(Dependencies).blocked:
        return _blocked_note(core, group)
    waited = [before for before in group.after if not _is_done(core, before)]
    shown = ", ".join(called(core, before) for before in waited[:3])
    return f"waits for {shown}" + (f" and {len(waited) - 3} more" if len(waited) > 3 else "")


def called(core: Context, name: GroupId) -> str:
    """Return the group's id with its name, as `alpha-1 (stage-1)`."""
    group = core.state.groups.get(name)
    return f"{name} ({group.spec.name})" if group is not None and group.spec.name else name


def at_fault(core: Context, name: GroupId) -> tuple[str, str, str]:
    """Return (the group where the fault began, how it ended, the command that tries it again; empty: there is nothing
    left to try). `name`: a group that is blocked, or over and not done."""
    while name in core.book(Dependencies).blocked:
        before = _at_fault(core, core.state.groups[name])
        assert before is not None, "a blocked group has a group at fault before it"
        name = before
    known = core.state.groups.get(name)
    if known is None:
        return name, "is not known here any more", ""
    option = {"cancelled": "--cancelled ", "held": "--held "}.get(known.state, "")
    ended = {"cancelled": "was cancelled", "held": "is held"}.get(known.state, "failed")
    return called(core, name), ended, f"diana retry {option}{name}"


def expirable(core: Context, keep_s: float) -> list[GroupId]:
    """Return the groups closed for longer than `keep_s`. Groups of one submission go together, so that its key keeps
    its meaning; a group stays as long as an open group is to come after it."""
    groups = core.state.groups
    if core.now - core.book(Dependencies).first_closed_s <= keep_s:
        return []
    closed = {name: group.closed_s for name, group in groups.items() if group.state}
    core.book(Dependencies).first_closed_s = min(closed.values(), default=core.now)
    over = {name for name, at_s in closed.items() if core.now - at_s > keep_s}
    if not over:
        return []
    for name in sorted(groups):
        group = groups[name]
        if not group.state:
            over.difference_update(group.after)
    for name in sorted(groups):
        chain = [member for member in groups[name].chain if member in groups]
        if not over.issuperset(chain):
            over.difference_update(chain)
    return sorted(over)


def _is_done(core: Context, name: GroupId) -> bool:
    group = core.state.groups.get(name)
    return group is not None and group.state == "done"


def _at_fault(core: Context, group: Group) -> GroupId | None:
    """Return the first group it comes after that is blocked, gone, or over and not done; None also once it was
    placed."""
    for before in group.after if not group.decisions else ():
        known = core.state.groups.get(before)
        if known is None or before in core.book(Dependencies).blocked or known.state not in ("", "done"):
            return before
    return None


def _spread(core: Context, start: GroupId) -> None:
    """Block or unblock what lies behind `start`; stops where nothing changes."""
    row = deque([start])
    while row:
        for name in core.book(Dependencies).dependents.get(row.popleft(), ()):
            group = core.state.groups.get(name)
            if group is None or group.state:
                continue
            core.notify(name)
            blocked = _at_fault(core, group) is not None
            if blocked != (name in core.book(Dependencies).blocked):
                (core.book(Dependencies).blocked.add if blocked else core.book(Dependencies).blocked.discard)(name)
                row.append(name)


def _blocked_note(core: Context, group: Group) -> str:
    """Return a line that names the group where the fault began, and the mend."""
    fault = _at_fault(core, group)
    assert fault is not None, "a blocked group has a group at fault before it"
    who, how, mend = at_fault(core, fault)
    again = f"try it again: {mend}, or " if mend else ""
    return f"waits for {who}, which {how}; {again}cancel this one: diana cancel {group.group}"
