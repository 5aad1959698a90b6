"""The reason of each component's place in words, by what the sites had when it was its turn (SPEC K2)."""

from __future__ import annotations

from diana.policy.gang.requests import GangPlacement, PlacedComponent, Rooms


def reasons(answer: GangPlacement, fixed: frozenset[int], rooms: Rooms, *, by_files: bool) -> dict[int, str]:
    """Return component -> the reason of its place. `fixed`: components whose site the job names. `rooms`: of all
    sites, at the time for which the gang was placed. `by_files`: the policy chose, where no site with room holds the
    files of a component, the one to which they come soonest.

    Only what the rooms show is told, whichever policy chose: that a site has the most idle is said where no other has
    more."""
    left = {name: rooms.left(name) for name in rooms.names()}
    said: dict[int, str] = {}
    for part in _in_turn(answer, fixed):
        idle = left[part.site]
        most = idle >= max(left.values())
        left[part.site] = idle - part.processors
        if part.component in fixed:
            why = "the job names it"
        elif part.files and all(file.source == part.site for file in part.files):
            why = "has its files"
        elif part.files and by_files:
            why = "near its files"
        else:
            why = "the emptiest" if most else ""
        said[part.component] = f"{why}{', ' if why else ''}takes {part.processors:,} of {idle:,} idle"
    return said


def _in_turn(answer: GangPlacement, fixed: frozenset[int]) -> list[PlacedComponent]:
    return sorted(answer.parts, key=lambda part: (part.component not in fixed, -part.processors, part.component))
