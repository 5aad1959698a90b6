"""Placements that are over without any result, remembered for what their sites may still say of them."""

from __future__ import annotations

from diana.engine.journal.state import Group, Past, Subgroup

REMEMBERED = 64
"""Placements remembered of one group; the oldest is forgotten first."""


def remember(group: Group, subgroup: Subgroup) -> None:
    """Make the subgroup a past placement: it is no part of the group any more."""
    del group.subgroups[subgroup.subgroup]
    group.past[subgroup.subgroup] = Past(
        site=subgroup.site, batches=subgroup.batches, disowned=subgroup.disowned, epoch=subgroup.epoch
    )
    if len(group.past) > REMEMBERED:
        del group.past[next(iter(group.past))]
