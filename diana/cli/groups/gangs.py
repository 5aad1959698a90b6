"""Gangs as text: who holds processors, who is waited for, since when; how far apart the components began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli.shared import output

if TYPE_CHECKING:
    from diana.model.views.gang import ComponentsAt, GangRun, GangWait
    from diana.model.views.group import GroupStatus

_STATES = {
    "offered": "has been asked to take {them}",
    "staging": "has fetched inputs for {them}",
    "later": "is asked for {them} later",
    "waits": "has waited for {them}",
    "silent": "does not answer, and has been asked for {them}",
    "holds": "has held {them}",
}
_GOES_ON = {
    "starts": "is to start {them}",
    "runs": "runs {them}",
    "silent": "does not answer, and was to run {them}",
    "done": "is done",
    "failed": "failed",
    "ended": "was ended",
}
"""The same of a gang that was let go."""


def gang_lines(gangs: Sequence[GangWait]) -> list[str]:
    """Return a line for each gang."""
    return [_line(one) for one in gangs]


def run_lines(gangs: Sequence[GangRun]) -> list[str]:
    """Return a line for each gang that was let go."""
    return [_run_line(one) for one in gangs]


def _run_line(one: GangRun) -> str:
    parts = [f"let go {output.seconds(one.since_s)} ago"] if one.since_s > 0 else []
    if one.began_s >= 0:
        parts.append(f"began {output.seconds(one.began_s)} after submission")
    if one.spread_s >= 0 and sum(at.components for at in one.components) > 1:
        parts.append(f"all components within {output.seconds(one.spread_s)}")
    return f"gang {one.gang}: {'; '.join([', '.join(parts), *map(_runs_at, one.components)]).removeprefix('; ')}"


def _runs_at(at: ComponentsAt) -> str:
    does = _GOES_ON.get(at.state, at.state).format(them=output.counted(at.processors, "processor"))
    since = f" for {output.seconds(at.since_s)}" if at.since_s > 0 else ""
    return f"{at.site} {does}{since}{f', {output.seconds(at.behind_s)} later' if at.behind_s > 0 else ''}"


def _line(one: GangWait) -> str:
    tried = f", try {one.tries + 1}" if one.tries else ""
    if not one.components:
        when = (
            f"tried again in {output.seconds(one.again_s)} at the latest"
            if one.again_s > 0
            else "tried at the next scan"
        )
        return f"gang {one.gang}{tried}: no place yet, {when} (queue {one.level})"
    told = "; ".join(map(_at, one.components))
    until = f"; given up in {output.seconds(one.gives_up_s)} if it has not begun" if one.gives_up_s > 0 else ""
    return f"gang {one.gang}{tried}: {told}{until}"


def _at(at: ComponentsAt) -> str:
    does = _STATES.get(at.state, at.state).format(them=output.counted(at.processors, "processor"))
    since = f" for {output.seconds(at.since_s)}" if at.since_s > 0 and at.state != "later" else ""
    late = at.since_s > at.expected_s
    expected = ", longer than expected" if late else f", expected after {output.seconds(at.expected_s)}"
    expected = expected if at.state == "waits" and at.expected_s > 0 else ""
    return f"{at.site} {does}{since}{expected}"


def progress(group: GroupStatus) -> str:
    """Return the number of gangs and what they do: `12 gangs of 3: 6 wait, 2 run, 4 over`. Empty for ordinary jobs."""
    if not group.gangs:
        return ""
    over = group.gangs - group.gangs_waiting - group.gangs_running
    parts = [(group.gangs_waiting, "wait"), (group.gangs_running, "run"), (over, "over")]
    does = ", ".join(f"{count:,} {word}" for count, word in parts if count > 0)
    return f"{size(group) or output.counted(group.gangs, 'divided gang')}: {does}"


def up_to(group: GroupStatus) -> str:
    """Return the words before the number of jobs: empty where it is known, as it is not while flexible gangs have no
    place."""
    divided = group.gangs and not group.components
    return "up to " if divided and group.gangs_waiting and group.unplaced + group.held else ""


def size(group: GroupStatus) -> str:
    """Return the number of gangs, where jobs are components: `2 gangs of 3`. Empty for ordinary jobs."""
    if not group.components:
        return ""
    return f"{output.counted(group.jobs // group.components, 'gang')} of {group.components}"
