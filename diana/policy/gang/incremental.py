"""Incremental claiming: which components of a gang a try starts, re-places or makes room for (Mohamed & Epema, section
6.2, Algorithm 2; SPEC K5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from diana.policy.gang.queues import GangLevel
from diana.policy.gang.requests import PlacedComponent, Unplaced

Replace = Callable[[int], PlacedComponent | Unplaced]
"""The placement policy for one component, with the processors that are idle now."""


class RunningWork(NamedTuple):
    """Work that a claim may end: pre-emptible, of a lower level."""

    name: str
    site: str
    processors: int
    level: GangLevel
    start_s: float
    """Its JST."""


class ClaimTry(NamedTuple):
    """Deeds of one try."""

    go_on: bool
    """False: the share of components that could start is below the threshold, nothing is claimed."""
    share: float
    """F."""
    claimed: tuple[PlacedComponent, ...] = ()
    replaced: tuple[int, ...] = ()
    """Components that are claimed at another site than before."""
    pre_empted: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    """Components that have to wait for the next try."""


def claim_try(
    placed: Sequence[PlacedComponent],
    started: frozenset[int],
    idle: Mapping[str, int],
    threshold: float,
    level: GangLevel,
    now_s: float,
    start_s: float,
    replace: Replace,
    lower: Iterable[RunningWork] = (),
) -> ClaimTry:
    """Decide one try. `started` are components that earlier tries claimed; `idle` processors of each site; `threshold`
    is T, 1 for a claim of all or none; `now_s` is the JCT and `start_s` the JST.

    A component whose site has no room is placed anew if its files can be there before the start; else work of lower
    levels gives way at its own site, the newest start first. Super-low gangs end nobody's work.
    """
    left = dict(idle)
    waiting = [part for part in placed if part.component not in started]
    now: list[PlacedComponent] = []
    lacking: list[PlacedComponent] = []
    for part in sorted(waiting, key=lambda each: -each.processors):
        if left.get(part.site, 0) >= part.processors:
            left[part.site] -= part.processors
            now.append(part)
        else:
            lacking.append(part)
    share = (len(started) + len(now)) / len(placed)
    if share < threshold:
        return ClaimTry(False, share, missing=tuple(sorted(part.component for part in waiting)))
    victims = sorted(lower, key=lambda work: -work.start_s)
    replaced: list[int] = []
    ended: list[str] = []
    missing: list[int] = []
    for part in lacking:
        other = replace(part.component)
        if (
            isinstance(other, PlacedComponent)
            and now_s + other.transfer_s < start_s
            and left.get(other.site, 0) >= other.processors
        ):
            left[other.site] -= other.processors
            now.append(other)
            replaced.append(part.component)
        elif level is not GangLevel.SUPER_LOW and (given := _given_way(part, left, victims, level, ended)) is not None:
            ended += given
            now.append(part)
        else:
            missing.append(part.component)
    return ClaimTry(True, share, tuple(sorted(now)), tuple(sorted(replaced)), tuple(ended), tuple(sorted(missing)))


def _given_way(
    part: PlacedComponent, left: dict[str, int], victims: Sequence[RunningWork], level: GangLevel, ended: Sequence[str]
) -> list[str] | None:
    """Return the work that ends so that the component fits, or None if all of it would not do. Takes the room."""
    room, chosen = left.get(part.site, 0), list[str]()
    for work in victims:
        if room >= part.processors:
            break
        if work.site == part.site and work.level.rank > level.rank and work.name not in ended:
            room += work.processors
            chosen.append(work.name)
    if room < part.processors:
        return None
    left[part.site] = room - part.processors
    return chosen
