"""The sites that are asked for quotes where summaries already decide: of many idle sites a few are enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diana.model.ids import SiteId
from diana.policy.membership import drawn

FEW = 4
"""Sites that are asked then."""
BEST = 2
"""Those of them that promise the first end; the others are drawn, so that origins that hear the same summaries do not
all go to the same sites."""
SPARE = 2
"""A site counts as idle if it has room for the group so many times over: its summary is some seconds old."""


class ToldRoom(NamedTuple):
    """A site by its summary."""

    site: SiteId
    free: int
    """Processors that nothing holds."""
    queued: int
    """Jobs that wait there."""


def few(listed: Sequence[ToldRoom], processors: int, seed: int) -> list[SiteId]:
    """Return the sites to ask about a group of so many processors in all, which needs no data: all that are listed,
    best first, unless the first `FEW` of them are idle. Then the best and some of the other idle ones."""
    idle = [one.site for one in listed if not one.queued and one.free >= SPARE * processors]
    if len(listed) <= FEW or idle[:FEW] != [one.site for one in listed[:FEW]]:
        return [one.site for one in listed]
    return idle[:BEST] + drawn(idle[BEST:], FEW - BEST, seed)
