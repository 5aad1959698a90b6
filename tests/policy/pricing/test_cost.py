"""The turnaround price of a whole group, term by term, against sums done by hand (SPEC D1)."""

from __future__ import annotations

from math import inf

import pytest

from diana.model.indexset import IndexSet
from diana.model.views.decision import SiteCost
from diana.policy.pricing import cost
from tests.policy.grids import demand, need, site

MB = 1_000_000


def price(*candidates: object, **asked: object) -> dict[str, SiteCost]:
    rows = cost.whole(demand(**asked), candidates)  # type: ignore[arg-type]
    return {row.site: row for row in rows}


def test_run_time_is_work_over_lanes_and_speed() -> None:
    """100 jobs of 60 s on 10 slots at double speed: 100 * 60 / (10 * 2)."""
    row = price(site("a", 10, speed=2.0), jobs=100, work_s=60.0)["a"]
    assert row.run_s == pytest.approx(300.0)
    assert row.total_s == pytest.approx(300.0)


def test_a_group_takes_at_least_as_long_as_one_job() -> None:
    row = price(site("a", 100, speed=2.0), jobs=3, work_s=60.0)["a"]
    assert row.run_s == pytest.approx(30.0)


def test_a_job_of_four_processors_has_a_lane_per_four_slots() -> None:
    """10 slots are two lanes of four processors: 8 jobs of 60 s take 8 * 60 / 2, work being seconds of run time."""
    row = price(site("a", 10), jobs=8, work_s=60.0, processors=4)["a"]
    assert row.run_s == pytest.approx(240.0)


def test_max_parallel_limits_the_lanes() -> None:
    row = price(site("a", 100), jobs=10, work_s=60.0, max_parallel=2)["a"]
    assert row.run_s == pytest.approx(300.0)


def test_the_wait_is_the_work_ahead_over_all_slots_and_speed() -> None:
    """Work ahead counts processor-seconds at reference speed: 800 / (4 * 2)."""
    row = price(site("a", 4, speed=2.0, ahead=800.0), jobs=4, work_s=10.0)["a"]
    assert row.wait_s == pytest.approx(100.0)
    assert row.total_s == pytest.approx(100.0 + 5.0)


def test_staging_goes_on_while_the_group_waits() -> None:
    """max(wait, stage in) + run + network: 20 MB at 1 MB/s against a wait of 5, then of 50 s."""
    data = [need("d", 20 * MB, IndexSet.span(0, 2), "home")]
    near = site("a", 2, ahead=10.0, rates={"home": 1.0 * MB}, rtt=0.25)
    busy = site("b", 2, ahead=100.0, rates={"home": 1.0 * MB}, rtt=0.25)
    rows = price(near, busy, jobs=2, work_s=7.0, needs=data)
    assert rows["a"].stage_in_s == pytest.approx(20.0)
    assert rows["a"].network_s == pytest.approx(0.5)
    assert rows["a"].total_s == pytest.approx(20.0 + 7.0 + 0.5)
    assert rows["b"].total_s == pytest.approx(50.0 + 7.0 + 0.5)
    assert rows["a"].bytes_in == 20 * MB
    assert rows["a"].bytes_per_s == pytest.approx(1.0 * MB)


def test_bytes_count_once_per_site_however_many_jobs_read_them() -> None:
    data = [need("d", 5 * MB, IndexSet.span(0, 1000), "home")]
    assert price(site("a", 1, rates={"home": 1.0 * MB}), jobs=1000, needs=data)["a"].bytes_in == 5 * MB


def test_a_holder_fetches_nothing_and_the_best_source_is_taken() -> None:
    data = [need("d", 10 * MB, IndexSet.span(0, 1), "home", "c")]
    rows = price(site("c"), site("a", rates={"home": 1.0 * MB, "c": 5.0 * MB}), jobs=1, needs=data)
    assert rows["c"].stage_in_s == 0.0
    assert rows["c"].bytes_in == 0
    assert rows["c"].bytes_per_s == 0.0
    assert rows["a"].stage_in_s == pytest.approx(2.0)


def test_data_that_cannot_be_brought_costs_for_ever() -> None:
    data = [need("d", 10 * MB, IndexSet.span(0, 1), "home")]
    assert price(site("a", 1), jobs=1, needs=data)["a"].total_s == inf


def test_rows_rise_in_total_home_wins_ties_and_the_rejected_come_last() -> None:
    rows = cost.whole(
        demand(4, work_s=10.0),
        [site("home", 4), site("b", 4, rejected="is full"), site("c", 4), site("a", 4, rejected="no"), site("d", 8)],
    )
    # Eight slots are no faster than four for four jobs: all three feasible sites tie.
    assert [r.site for r in rows] == ["home", "c", "d", "a", "b"]
    assert [r.rejected for r in rows] == ["", "", "", "no", "is full"]
    assert rows[-1].total_s == 0.0
