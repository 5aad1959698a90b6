"""A site's memory of its own past beside its groups' ends: how it stood, and what users ordered."""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.indexset import IndexSet

MOST_MOMENTS = 256
"""Changes of a site that are remembered; the oldest is forgotten first."""
MOST_ORDERS = 64
"""Orders remembered of one group; later ones are not."""

OrderKind = Literal["cancel", "hold", "release", "move", "retry"]


class SiteMoment(msgspec.Struct, frozen=True):
    """How the site stood from `at_s` (site time) until the next moment."""

    at_s: float
    slots: int
    """Slots of its own machine."""
    speed: float
    drained: bool = False


class GroupOrder(msgspec.Struct, frozen=True):
    """An order that a user gave about jobs of a group, and that was obeyed."""

    at_s: float
    """Site time."""
    kind: OrderKind
    indices: IndexSet | None = None
    """Jobs it named; None: the whole group."""
    to: str = ""
    """The site of a move; empty: wherever it was best."""
