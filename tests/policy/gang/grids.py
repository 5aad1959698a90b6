"""Grids of the papers for the tests of gangs."""

from diana.policy.gang.requests import Component, Rooms, SiteRoom

DAS = {"VU": 67, "UvA": 20, "Delft": 26, "Utrecht": 28, "Leiden": 19}
"""Idle nodes of the DAS in the communication-aware paper."""


def rooms(idle: dict[str, int]) -> Rooms:
    return Rooms([SiteRoom(name, free, free) for name, free in idle.items()])


def equal(count: int, processors: int) -> list[Component]:
    return [Component(processors)] * count


def no_transfer(source: str, site: str, size: float) -> float:
    return 0.0
