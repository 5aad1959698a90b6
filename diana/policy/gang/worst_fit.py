"""Worst-Fit: each component goes where most processors are idle, which balances the sites (Mohamed & Epema, section
5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from diana.policy.gang.requests import Component, GangPlacement, Rooms, TransferTime, Unplaced, one_by_one


def worst_fit(components: Sequence[Component], rooms: Rooms, transfer_time: TransferTime) -> GangPlacement | Unplaced:
    """Place each component where most processors remain."""
    return one_by_one(components, rooms, transfer_time, rooms.by_idle)
