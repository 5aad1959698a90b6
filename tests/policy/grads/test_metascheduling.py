"""Decisions of an origin between its own programs (SPEC G7)."""

from __future__ import annotations

from math import inf

import pytest

from diana.model.ids import GroupId, SiteId
from diana.policy.grads.metascheduling import ContractsAt, WayIn, YieldingJob, harmed, permission, refused

ONE, TWO = SiteId("one"), SiteId("two")


def holder(name: str, site: SiteId, remaining_s: float, processors: int = 1) -> YieldingJob:
    return YieldingJob(GroupId(name), 0, site, processors, remaining_s)


def test_a_long_job_makes_way_for_a_short_one_that_gains_more_than_it_loses() -> None:
    found = permission([WayIn(((ONE, 1),), 100.0, 340.0)], [holder("a-1", ONE, 340.0)], 30.0)
    assert [one.group for one in found.stop] == ["a-1"]
    assert found.gain_s == pytest.approx(335.0 - 110.0)
    assert found.reason == "it would end 335 s sooner, and a-1.0 at one up to 110 s later"


@pytest.mark.parametrize(
    ("run_s", "remaining_s"),
    [(100.0, 104.0), (400.0, 300.0), (100.0, 20.0)],
    ids=["as long as what is left", "longer than what is left", "over soon"],
)
def test_nobody_is_stopped_where_that_costs_more_than_it_gains(run_s: float, remaining_s: float) -> None:
    assert not permission([WayIn(((ONE, 1),), run_s, inf)], [holder("a-1", ONE, remaining_s)], 10.0).stop


def test_a_gain_below_the_least_one_stops_nobody() -> None:
    ways, holders = [WayIn(((ONE, 1),), 100.0, inf)], [holder("a-1", ONE, 340.0)]
    assert permission(ways, holders, 334.0).stop and not permission(ways, holders, 336.0).stop


def test_room_elsewhere_is_taken_before_anybody_is_stopped() -> None:
    ways = [WayIn(((ONE, 1),), 100.0, 340.0), WayIn(((TWO, 0),), 150.0, 0.0)]
    assert permission(ways, [holder("a-1", ONE, 340.0)], 10.0) == ((), 0.0, "there is room at two")


def test_a_wait_that_ends_by_itself_counts_for_what_it_is() -> None:
    holders = [holder("a-1", ONE, 1000.0)]
    assert permission([WayIn(((ONE, 1),), 100.0, 1000.0)], holders, 10.0).stop
    assert not permission([WayIn(((ONE, 1),), 100.0, 60.0)], holders, 10.0).stop, "another job there ends soon"
    short_elsewhere = [WayIn(((ONE, 1),), 100.0, 1000.0), WayIn(((TWO, 1),), 100.0, 60.0)]
    assert not permission(short_elsewhere, holders, 10.0).stop, "its turn at two comes soon"


def test_the_largest_holders_are_stopped_and_no_more_than_are_needed() -> None:
    holders = [holder("a-1", ONE, 900.0, 1), holder("a-2", ONE, 900.0, 4), holder("a-3", ONE, 950.0, 4)]
    found = permission([WayIn(((ONE, 4),), 50.0, inf)], holders, 10.0)
    assert [one.group for one in found.stop] == ["a-3"], "the longest of the largest is enough"
    found = permission([WayIn(((ONE, 7),), 50.0, inf)], holders, 10.0)
    assert [one.group for one in found.stop] == ["a-3", "a-2"]
    assert not permission([WayIn(((ONE, 10),), 50.0, 900.0)], holders, 10.0).stop, "all together are too few"


def test_a_job_is_stopped_for_a_gang_at_each_of_its_sites_and_for_an_ordinary_one_at_one() -> None:
    holders = [holder("a-1", ONE, 900.0), holder("a-2", TWO, 900.0)]
    assert len(permission([WayIn(((ONE, 1), (TWO, 1)), 50.0, inf)], holders, 10.0).stop) == 2
    assert len(permission([WayIn(((ONE, 1), (TWO, 0)), 50.0, inf)], holders, 10.0).stop) == 1
    assert not permission([WayIn(((ONE, 2), (TWO, 1)), 50.0, inf)], holders, 10.0).stop, "one has too little to give"
    assert not permission([WayIn(((ONE, 2),), 50.0, inf), WayIn(((TWO, 2),), 50.0, inf)], holders, 10.0).stop


def test_half_of_the_contracts_broken_is_harm_and_fewer_are_not() -> None:
    found = harmed({ONE: ContractsAt(1, 1, 2.5), TWO: ContractsAt(2, 1, 9.0), SiteId("three"): ContractsAt(3, 0, 0.0)})
    assert found == {ONE: "a job of this origin there broke the contract, 2.5 times as slow as foretold"}


def test_a_newcomer_is_kept_from_harm_only_while_it_can_go_elsewhere() -> None:
    harm = {ONE: "slow", TWO: "slow too"}
    assert refused(harm, [ONE, SiteId("three")]) == {ONE: "slow"}
    assert refused(harm, [ONE, TWO]) == {} and refused(harm, [ONE]) == {} and refused(harm, []) == {}
