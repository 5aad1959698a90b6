"""The sites that are asked about a gang in a large grid: enough of the emptiest, and of the largest, to hold it (SPEC
K8)."""

from __future__ import annotations

import random

import pytest

from diana.model.ids import SiteId
from diana.policy.gang.policies import POLICIES, request_in
from diana.policy.gang.requests import Component, FlexibleRequest, GangPlacement, GangRequest, Rooms, SiteRoom
from diana.policy.gang.short_list import MOST_ASKED, SPARE, short_list
from diana.policy.pricing.demand import Candidate
from diana.policy.pricing.sites import SiteTable


def told(*sites: tuple[str, int, int]) -> SiteTable:
    """Sites by name, idle processors and all processors."""
    return SiteTable.of([Candidate(site=SiteId(n), slots=s, busy_fraction=1 - i / s) for n, i, s in sites])


def anybody(_: SiteId) -> bool:
    return True


def test_the_emptiest_are_asked_until_they_hold_the_gang_twice_and_the_largest_likewise() -> None:
    table = told(*((f"s{n:02}", n, 20) for n in range(20)), ("big", 0, 200))
    assert short_list(table, request_in("3x8"), anybody) == ["s19", "s18", "s17", "big"]


def test_a_wide_component_is_looked_for_among_sites_that_can_hold_it_however_much_the_narrow_ones_have() -> None:
    table = told(*((f"s{n:02}", 30, 30) for n in range(40)), ("wide", 32, 32))
    assert "wide" in short_list(table, request_in("1x32"), anybody)
    assert "wide" in short_list(table, [*request_in("20x4"), Component(32)], anybody)  # type: ignore[misc]


def test_sites_that_the_group_may_not_have_or_that_are_silent_make_room_for_others() -> None:
    table = told(("a", 64, 64), ("b", 32, 64), ("c", 32, 32))
    assert short_list(table, request_in("1x32"), lambda site: site != "a") == ["b", "c"]


def test_components_whose_site_is_given_need_no_other_and_never_more_sites_are_asked_than_such_a_gang_can_use() -> None:
    table = told(*((f"s{n:04}", 1, 1) for n in range(1000)))
    assert not short_list(table, [Component(1, site="s0001")], anybody)
    assert len(short_list(table, request_in("20x1"), anybody)) == SPARE * 20
    assert len(short_list(table, request_in("1000x1"), anybody)) == MOST_ASKED
    assert len(short_list(table, FlexibleRequest(500, most_components=8), anybody)) == SPARE * 8


@pytest.mark.parametrize("seed", range(60))
def test_what_all_sites_hold_the_listed_ones_hold_in_whatever_order_they_are_known(seed: int) -> None:
    chance = random.Random(seed)
    sites = [(f"s{n:03}", chance.randint(0, size), size) for n in range(100) for size in [chance.choice((2, 8, 40))]]
    request: GangRequest = [Component(chance.choice((1, 2, 5, 8, 30))) for _ in range(chance.randint(1, 20))]
    policy = "worst-fit"
    if seed % 2:
        policy, request = "flexible-min", FlexibleRequest(chance.randint(2, 200), chance.randint(1, 2), 8)
    listed = short_list(told(*sites), request, anybody)

    def placed(some: list[tuple[str, int, int]]) -> object:
        rooms = Rooms([SiteRoom(name, idle, total) for name, idle, total in some])
        return POLICIES[policy](request, rooms, lambda *_: 0.0, None)

    if isinstance(placed(sites), GangPlacement):
        assert isinstance(placed([row for row in sites if row[0] in listed]), GangPlacement)
        assert len(listed) <= 4 * SPARE * 20
    chance.shuffle(sites)
    table = SiteTable()
    for name, idle, total in sites:
        table.add(Candidate(site=SiteId(name), slots=total, busy_fraction=1 - idle / total))
    assert short_list(table, request, anybody) == listed
