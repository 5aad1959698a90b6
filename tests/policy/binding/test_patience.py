"""Patience for data: how long sites that must fetch more are held back (policy/binding)."""

from __future__ import annotations

from math import inf

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.views.decision import SiteCost
from diana.policy.binding.patience import SAME_S, nearest, patience


def row(site: str, wait_s: float, stage_in_s: float, run_s: float = 100.0) -> SiteCost:
    total_s = max(wait_s, stage_in_s) + run_s
    cost = SiteCost(site=SiteId(site), wait_s=wait_s, stage_in_s=stage_in_s, run_s=run_s, total_s=total_s)
    return msgspec.structs.replace(cost, slots=SLOTS)


SLOTS = 10


def let(some: list[SiteCost], waited_s: float, jobs: int = SLOTS) -> tuple[frozenset[SiteId], float]:
    return patience(some, jobs, 1, waited_s)


NEAR, AWAY = row("near", wait_s=60.0, stage_in_s=0.0), row("away", wait_s=0.0, stage_in_s=400.0)


def test_a_site_that_must_fetch_is_held_back_while_the_one_that_has_the_data_is_to_end_sooner() -> None:
    assert let([NEAR, AWAY], 0.0) == ({"near"}, 340.0)
    assert let([NEAR, AWAY], 339.0) == ({"near"}, 1.0)


def test_it_is_let_once_the_group_waited_for_as_long_as_that_would_have_saved() -> None:
    assert let([NEAR, AWAY], 340.0) == ({"near", "away"}, inf)


def test_it_is_let_at_once_where_the_wait_for_the_data_is_longer_than_fetching_them() -> None:
    assert let([row("near", 500.0, 0.0), AWAY], 0.0)[0] == {"near", "away"}


def test_a_slow_site_is_held_back_for_its_fetching_alone() -> None:
    slow = row("slow", wait_s=0.0, stage_in_s=20.0, run_s=5_000.0)
    assert let([NEAR, slow], 0.0) == ({"near"}, 20.0)


def test_a_site_is_not_held_back_from_a_group_that_keeps_the_one_with_the_data_busy_for_longer() -> None:
    near, away = row("near", 0.0, 0.0, run_s=500.0), row("away", 0.0, 10.0, run_s=500.0)
    assert let([near, away], 0.0, jobs=5 * SLOTS)[0] == {"near", "away"}, "a first job would end there after 110 s"
    assert let([near, away], 0.0, jobs=SLOTS)[0] == {"near"}


def test_sites_that_fetch_the_least_are_the_nearest() -> None:
    assert nearest([NEAR, AWAY, row("half", 0.0, SAME_S / 2)]) == {"near", "half"}
    assert nearest([]) == frozenset()


seconds = st.floats(0.0, 1e6)
rows = st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=8).map(
    lambda some: [row(f"s{n}", *one) for n, one in enumerate(some)]
)


@given(rows, seconds)
def test_the_nearest_are_never_held_back_and_nobody_is_after_the_time_of_its_fetching(
    some: list[SiteCost], waited_s: float
) -> None:
    sites, next_s = let(some, waited_s)
    assert sites >= nearest(some)
    assert next_s > 0
    for one in some:
        assert one.site in sites or one.stage_in_s > waited_s
