"""Gangs that have not begun, for their users: where their components hold processors, and whom they wait for."""

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
    waits, and does not answer; holds them."""
    since_s: float = 0.0
    """Seconds for which it has been so."""
    expected_s: float = 0.0
    """Seconds until their processors were expected to come free, when the gang was placed."""


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
