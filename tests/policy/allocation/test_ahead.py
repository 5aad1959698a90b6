"""A look ahead: which ways are tried, and which of them is taken."""

from __future__ import annotations

from math import inf

import pytest

from diana.model.ids import SiteId
from diana.model.views.decision import SiteCost
from diana.policy.allocation import ahead
from diana.policy.allocation.ahead import Outlook, Rolls

A, B, C = SiteId("a"), SiteId("b"), SiteId("c")


def row(site: SiteId, **more: float | str) -> SiteCost:
    return SiteCost(site=site, **{"slots": 10, "run_s": 100.0, "total_s": 100.0, **more})  # type: ignore[arg-type]


def outlook(*rows: tuple[float, ...]) -> Outlook:
    return Outlook(tuple(Rolls(f"way {at}", one) for at, one in enumerate(rows)), events=1)


def test_the_planned_way_comes_first_then_those_it_was_weighed_against() -> None:
    rows = (row(A), row(B), row(C))
    ways = ahead.alternatives(rows, ((A, 5), (B, 5)), 10, waits=True)
    assert [way.name for way in ways] == ["waiting", "at once", "whole at a", "whole at b"]
    ways = ahead.alternatives(rows, ((A, 10),), 10, waits=False)
    assert [way.name for way in ways] == ["at once", "whole at b", "whole at c"]


def test_a_site_that_takes_none_or_not_all_of_the_group_is_no_way_for_the_whole() -> None:
    rows = (row(A), row(B, rejected="drained"), row(C, max_jobs=3))
    ways = ahead.alternatives(rows, ((A, 10),), 10, waits=True)
    assert [way.name for way in ways] == ["waiting", "at once"]
    assert [one.site for one in ahead.sites(rows, 10, 1)] == [A, C]


def test_the_time_of_one_job_is_told_by_that_of_the_group_over_the_lanes() -> None:
    few, many = ahead.sites((row(A), row(B, slots=5, run_s=400.0, wait_s=30.0)), 20, 1)
    assert (few.job_s, few.busy, few.lane_s) == (50.0, 0, 0.0)
    assert (many.job_s, many.busy, many.lane_s) == (100.0, 5, 30.0)


def test_busy_slots_without_a_wait_are_half_through() -> None:
    (one,) = ahead.sites((row(A, busy_fraction=0.4),), 10, 1)
    assert (one.busy, one.lane_s) == (4, 50.0)


def test_the_spread_is_that_of_the_site_that_saw_most() -> None:
    unseen, some = row(A), row(B, runs_seen=9, run_low_s=52.0, run_high_s=148.0)
    assert ahead.spread((unseen,)) == 0.0
    assert ahead.spread((unseen, some)) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        (((100.0,) * 4, (80.0,) * 4, (90.0,) * 4), 1),
        # Better by less than rolls can tell.
        (((100.0,) * 4, (97.0,) * 4), 0),
        # Better in the mean, by one lucky draw.
        (((100.0,) * 4, (10.0, 101.0, 101.0, 101.0)), 0),
        # A way that did not end within the bounds is no way.
        (((100.0,) * 4, (10.0, 10.0, 10.0, inf)), 0),
        (((), ()), 0),
    ],
)
def test_another_way_is_taken_only_where_it_is_clearly_better(rows: tuple[tuple[float, ...], ...], chosen: int) -> None:
    assert outlook(*rows).chosen() == chosen


def test_the_outlook_says_what_came_out_and_that_it_had_no_time() -> None:
    assert (
        outlook((100.0, 110.0), (80.0, 90.0)).told()
        == "looked ahead 2 times, mean turnaround: way 0 1m45s, way 1 1m25s"
    )
    assert "too low" in outlook((), ()).told()
