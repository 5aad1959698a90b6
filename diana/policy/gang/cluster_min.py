"""Cluster Minimisation: few sites, so that few messages of the program cross between them (Sonmez et al., Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from diana.policy.gang.requests import Component, GangPlacement, Rooms, TransferTime, Unplaced, one_by_one


def cluster_minimisation(
    components: Sequence[Component], rooms: Rooms, transfer_time: TransferTime
) -> GangPlacement | Unplaced:
    """Place each component at the first site with room, in an order that is made once: by decreasing number of idle
    processors."""
    order = rooms.by_idle()
    return one_by_one(components, rooms, transfer_time, lambda: order)
