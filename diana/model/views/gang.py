"""Gangs for their users: where components hold processors and whom they wait for, or how they began together."""

from __future__ import annotations

from diana.model.ids import SiteId
from diana.model.views.shown import Shown


class ComponentsAt(Shown, frozen=True):
    """Alike components of a gang at one site."""

    site: SiteId
    components: int = 0
    processors: int = 0
    """Sum over the components."""
    state: str = ""
    """offered; staging: their inputs come; later: their claim is asked for later; waits: for processors; silent:
    waits, or was let go, and its site does not answer; holds them. Of a gang that was let go: starts; runs; done;
    failed; ended: cancelled, or nobody knows how."""
    since_s: float = 0.0
    """Seconds for which it has been so."""
    expected_s: float = 0.0
    """Seconds until their processors were expected to come free, when the gang was placed."""
    behind_s: float = 0.0
    """Seconds from the first start in their gang to theirs, by the clocks of the sites; negative: not known yet."""


class GangWait(Shown, frozen=True):
    """One gang that waits."""

    gang: int = 0
    """Its number in the group, from 0."""
    tries: int = 0
    """Attempts that were given up."""
    components: tuple[ComponentsAt, ...] = ()
    """None: it has no place."""
    gives_up_s: float = 0.0
    """Seconds until the attempt is given up; 0: its claims have not begun."""
    again_s: float = 0.0
    """Seconds until a gang without a place is tried again; 0: with the next look."""
    level: str = ""
    """The placement queue of a gang without a place."""


class GangRun(Shown, frozen=True):
    """One gang that was let go."""

    gang: int = 0
    """Its number in the group, from 0."""
    components: tuple[ComponentsAt, ...] = ()
    since_s: float = 0.0
    """Seconds since it was let go; 0: it is over, or its site of submission has started anew since."""
    began_s: float = 0.0
    """Seconds from the submission of its group to its first start; negative: not known yet."""
    spread_s: float = 0.0
    """Seconds from the first start of a component to the last, by the clocks of their sites; negative: not known
    before all of them have ended."""
    over: bool = False
