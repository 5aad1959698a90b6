"""The earliest time at which a gang finds its places (SPEC K2, K5)."""

from __future__ import annotations

from math import inf, nan

import pytest

from diana.policy.gang.policies import POLICIES, request_in
from diana.policy.gang.requests import GangPlacement, Rooms, SiteRoom, Unplaced
from diana.policy.gang.soonest import LaterRoom, Soonest, growing, soonest


def site(name: str, idle: int, *later: tuple[float, int], total: int = 8) -> tuple[SiteRoom, list[LaterRoom]]:
    return SiteRoom(name, idle, total), [LaterRoom(at_s, processors) for at_s, processors in later]


def placed(request: str, *sites: tuple[SiteRoom, list[LaterRoom]], policy: str = "worst-fit") -> Soonest:
    def place(rooms: Rooms) -> GangPlacement | Unplaced:
        return POLICIES[policy](request_in(request), rooms, lambda *_: 0.0, None)

    return soonest(place, [growing(now, later) for now, later in sites])


def places(found: Soonest) -> list[str]:
    assert isinstance(found.answer, GangPlacement), found.answer
    return [f"{part.processors}@{part.site}" for part in found.answer.parts]


def test_what_is_idle_now_is_taken_though_more_would_be_soon() -> None:
    found = placed("2x4", site("a", 4, (1.0, 8)), site("b", 4))
    assert (places(found), found.after_s) == (["4@a", "4@b"], 0.0)


@pytest.mark.parametrize("policy", ["worst-fit", "cluster-min", "close-to-files"])
def test_else_the_earliest_time_at_which_all_components_have_room(policy: str) -> None:
    sites = (site("a", 0, (10.0, 4), (90.0, 8)), site("b", 2, (40.0, 4), (50.0, 8)), site("c", 0, (70.0, 8)))
    found = placed("2x4", *sites, policy=policy)
    assert found.after_s == 40.0 and sorted(places(found)) == ["4@a", "4@b"]


def test_a_flexible_request_is_divided_at_the_earliest_time_too() -> None:
    found = placed("flexible 10", site("a", 0, (10.0, 4), (90.0, 8)), site("b", 2, (40.0, 6)), policy="flexible-min")
    assert found.after_s == 40.0 and places(found) == ["6@b", "4@a"]


def test_what_never_fits_and_what_is_not_foreseen_are_told_apart() -> None:
    never = placed("3x6", site("a", 0, (10.0, 8)), site("b", 0, (10.0, 8))).answer
    unforeseen = placed("2x6", site("a", 0, (10.0, 4)), site("b", 0)).answer
    assert isinstance(never, Unplaced) and never.never
    assert isinstance(unforeseen, Unplaced) and not unforeseen.never


def test_steps_that_cannot_be_are_left_out() -> None:
    room = growing(SiteRoom("a", 0, 8), [LaterRoom(at_s, 8) for at_s in (-1.0, inf, nan, 1e9)] + [LaterRoom(1.0, -4)])
    assert room.later == () and room.after(1e12).idle == 0
    assert growing(SiteRoom("a", 0, 8), [LaterRoom(1.0, 1 << 50)]).after(1.0).idle == 8


def test_the_time_at_which_a_site_has_so_many() -> None:
    room = growing(SiteRoom("a", 2, 8), [LaterRoom(9.0, 8), LaterRoom(3.0, 4)])
    assert [room.holds_after_s(count) for count in (2, 3, 4, 5, 9)] == [0.0, 3.0, 3.0, 9.0, 9.0]
