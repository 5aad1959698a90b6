"""Cluster Minimisation and Flexible Cluster Minimisation, digit by digit (Sonmez et al., section 4; SPEC K1, K2)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.gang.cluster_min import cluster_minimisation
from diana.policy.gang.flexible_min import flexible_minimisation
from diana.policy.gang.requests import Component, FlexibleRequest, GangPlacement, GangQuota, Rooms, SiteRoom, Unplaced
from diana.policy.gang.worst_fit import worst_fit
from tests.policy.gang.grids import DAS, equal, no_transfer, rooms

FIGURE_2 = {"C1": 18, "C2": 15, "C3": 12}


def sites_of(placement: GangPlacement | Unplaced) -> list[str]:
    assert isinstance(placement, GangPlacement), placement
    return [part.site for part in placement.parts]


def pieces(placement: GangPlacement | Unplaced) -> list[str]:
    assert isinstance(placement, GangPlacement), placement
    return [f"{part.processors}@{part.site}" for part in placement.parts]


@pytest.mark.parametrize(
    ("idle", "count", "size", "spread", "few"),
    [
        (FIGURE_2, 3, 8, ["C1", "C2", "C3"], ["C1", "C1", "C2"]),
        (DAS, 4, 16, ["VU", "VU", "VU", "Utrecht"], ["VU"] * 4),
        (DAS, 3, 24, ["VU", "VU", "Utrecht"], ["VU", "VU", "Utrecht"]),
    ],
)
def test_worst_fit_spreads_where_cluster_minimisation_fills(idle, count, size, spread, few):
    assert sites_of(worst_fit(equal(count, size), rooms(idle), no_transfer)) == spread
    assert sites_of(cluster_minimisation(equal(count, size), rooms(idle), no_transfer)) == few


@pytest.mark.parametrize(
    ("idle", "wanted", "placed"),
    [
        (FIGURE_2, 24, ["18@C1", "6@C2"]),
        (FIGURE_2, 45, ["18@C1", "15@C2", "12@C3"]),
        (FIGURE_2, 18, ["18@C1"]),
        (DAS, 72, ["67@VU", "5@Utrecht"]),
    ],
)
def test_flexible_requests_are_cut_to_the_emptiest_sites(idle, wanted, placed):
    assert pieces(flexible_minimisation(FlexibleRequest(wanted), rooms(idle), no_transfer)) == placed


def test_a_flexible_request_beyond_all_idle_processors_fails_and_takes_nothing():
    room = rooms(FIGURE_2)
    answer = flexible_minimisation(FlexibleRequest(46), room, no_transfer)
    assert isinstance(answer, Unplaced) and "45 idle" in answer.reason and answer.never
    assert [room.left(name) for name in FIGURE_2] == [18, 15, 12]


def test_sites_without_idle_processors_get_no_component():
    idle = {"A": 0, "B": 4, "C": 0, "D": 2}
    assert pieces(flexible_minimisation(FlexibleRequest(6), rooms(idle), no_transfer)) == ["4@B", "2@D"]


def test_the_last_component_gets_its_minimum_from_those_before():
    request = FlexibleRequest(20, minimum=5)
    assert pieces(flexible_minimisation(request, rooms(FIGURE_2), no_transfer)) == ["15@C1", "5@C2"]


def test_no_more_components_are_made_than_the_request_allows():
    request = FlexibleRequest(40, most_components=2)
    answer = flexible_minimisation(request, rooms(FIGURE_2), no_transfer)
    assert isinstance(answer, Unplaced) and "the 2 emptiest sites have 33 idle" in answer.reason


def test_a_quota_leaves_room_for_the_sites_own_users():
    # At A gangs hold twelve of the fifteen that they may have.
    sites = [SiteRoom("A", 10, 20, quota=GangQuota(3, 15)), SiteRoom("B", 8, 8, quota=GangQuota(6, 6))]
    assert pieces(flexible_minimisation(FlexibleRequest(9), Rooms(sites), no_transfer)) == ["6@B", "3@A"]
    for policy in (worst_fit, cluster_minimisation):
        assert sites_of(policy([Component(6), Component(3)], Rooms(sites), no_transfer)) == ["B", "A"]


@pytest.mark.parametrize(
    ("sizes", "told", "never"),
    [
        ([7], "component 1 wants 7 processors; the most that is idle is 6 at B, by its gang_quota", False),
        ([6, 4], "component 2 wants 4 processors; the most that is left is 3 at A, by its gang_quota", False),
        ([16], "component 1 wants 16 processors; the largest site, A, gives 15 at most by its gang_quota", True),
    ],
)
def test_a_refusal_names_the_quota_that_it_is_for(sizes, told, never):
    sites = [SiteRoom("A", 10, 20, quota=GangQuota(3, 15)), SiteRoom("B", 8, 8, quota=GangQuota(6, 6))]
    answer = worst_fit([Component(size) for size in sizes], Rooms(sites), no_transfer)
    assert isinstance(answer, Unplaced) and (answer.reason, answer.never) == (told, never)
    flexible = flexible_minimisation(FlexibleRequest(22), Rooms(sites), no_transfer)
    assert isinstance(flexible, Unplaced) and flexible.never
    assert flexible.reason.endswith("all sites together have 9 idle and 21 in all, by their gang_quota")
    fixed = worst_fit([Component(4, site="A")], Rooms(sites), no_transfer)
    assert isinstance(fixed, Unplaced)
    assert fixed.reason.endswith("A gives gangs 15 of its 20 at most (its gang_quota), 3 left now")


def test_a_component_that_fits_nowhere_is_told_with_the_nearest_there_is():
    answer = cluster_minimisation([Component(8), Component(30)], rooms(FIGURE_2), no_transfer)
    assert isinstance(answer, Unplaced) and answer.component == 1 and answer.never
    assert answer.reason == "component 2 wants 30 processors; the largest site, C1, gives 18 at most"


def test_a_fixed_component_keeps_its_room_from_larger_free_ones():
    request = [Component(18), Component(8, site="C1")]
    answer = worst_fit(request, rooms({"C1": 18, "C2": 18}), no_transfer)
    assert sites_of(answer) == ["C2", "C1"]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=5),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 5),
)
def test_a_flexible_division_is_found_whenever_there_is_one_and_uses_the_fewest_sites(idle, wanted, minimum, most):
    sites = {f"s{at}": free for at, free in enumerate(idle)}
    answer = flexible_minimisation(FlexibleRequest(wanted, minimum, most), rooms(sites), no_transfer)
    fewest = _fewest(list(sites.values()), wanted, minimum, most or len(sites))
    if fewest is None:
        assert isinstance(answer, Unplaced)
        return
    assert isinstance(answer, GangPlacement)
    assert sum(part.processors for part in answer.parts) == wanted
    assert len(answer.parts) == len(answer.sites) == fewest
    assert all(minimum <= part.processors <= sites[part.site] for part in answer.parts)


def _fewest(idle: list[int], wanted: int, minimum: int, most: int) -> int | None:
    """Look at every set of sites: the oracle."""
    for count in range(1, most + 1):
        for chosen in itertools.combinations(idle, count):
            if min(chosen) >= minimum and count * minimum <= wanted <= sum(chosen):
                return count
    return None
