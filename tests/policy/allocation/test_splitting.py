"""Whole or split, whichever ends earlier (SPEC D6; papers/diana-bulk-scheduling section VIII, Figure 4)."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.model.indexset import IndexSet
from diana.policy.allocation import models
from diana.policy.allocation.allotment import allot
from diana.policy.allocation.splitting import Plan, decide
from diana.policy.pricing.cost import MAX_ROWS, table_of
from diana.policy.pricing.demand import Candidate, Demand, blocks
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.turnaround import Weights
from tests.policy.grids import demand, jobs_by_site, need, site

MB = 1_000_000
FIGURE_4 = [site("a", 100), site("b", 200), site("c", 400), site("d", 600)]


def placed(plan: Plan) -> dict[str, int]:
    return jobs_by_site(plan.parts)


def test_figure_4_whole_takes_17_hours_and_our_split_comes_close_to_the_bound() -> None:
    """10,000 one-hour jobs on 100/200/400/600 CPUs: whole at best 16.6667 h, the fluid bound is 10,000/1,300 h."""
    plan = decide(demand(10_000, work_s=3600.0), FIGURE_4, 0.0)
    assert plan.decision.plan == "split"
    assert plan.decision.whole_s / 3600 == pytest.approx(16.6667, abs=1e-3)
    assert 7.692307 < plan.decision.split_s / 3600 < 7.9
    assert sum(placed(plan).values()) == 10_000
    fluid = max(
        jobs / slots for (_, jobs), slots in zip(sorted(placed(plan).items()), (100, 200, 400, 600), strict=True)
    )
    assert fluid < 7.9


def test_a_group_that_fits_at_home_stays_at_home() -> None:
    plan = decide(demand(4, work_s=10.0), [site("home", 4), site("b", 400), site("c", 400)], 5.0)
    assert plan.decision.plan == "whole"
    assert placed(plan) == {"home": 4}
    assert plan.decision.decided_at_s == 5.0


def test_equal_sites_share_a_group_that_is_too_large_for_one() -> None:
    plan = decide(demand(100, work_s=10.0), [site("home", 10), site("b", 10)], 0.0)
    assert plan.decision.plan == "split"
    assert placed(plan) == {"home": 50, "b": 50}


def test_a_single_site_takes_all_and_the_reason_says_so() -> None:
    plan = decide(demand(100), [site("home", 2), site("b", 2, rejected="has no slots")], 0.0)
    assert plan.decision.plan == "whole"
    assert plan.decision.reason.startswith("home is the only site that can take it")
    assert placed(plan) == {"home": 100}


def test_without_a_feasible_site_there_is_no_plan_but_the_reasons() -> None:
    plan = decide(demand(3), [site("home", rejected="has no slots"), site("b", rejected="is full")], 0.0)
    assert plan.parts == ()
    assert plan.decision.whole_s == inf
    assert {c.site: c.rejected for c in plan.decision.candidates} == {"home": "has no slots", "b": "is full"}


def test_a_site_that_cannot_get_the_data_gets_no_job() -> None:
    data = [need("d", MB, IndexSet.span(0, 100), "b")]
    plan = decide(demand(100, needs=data), [site("home", 50), site("b", 2), site("c", 2, rates={"b": 100.0 * MB})], 0.0)
    assert "home" not in placed(plan)
    assert sum(placed(plan).values()) == 100


def test_data_intensive_jobs_go_to_their_data() -> None:
    """Two halves of a group read 10 GB each at either site; moving one takes longer than all the work."""
    slow = 10.0 * MB
    halves = [need("x", 10_000 * MB, IndexSet.span(0, 50), "b"), need("y", 10_000 * MB, IndexSet.span(50, 100), "c")]
    sites = [
        site("home", 100, rates={"b": slow, "c": slow}),
        site("b", 5, rates={"c": slow}),
        site("c", 5, rates={"b": slow}),
    ]
    plan = decide(demand(100, needs=halves), sites, 0.0)
    assert {(p.site, str(p.indices)) for p in plan.parts} == {("b", "0-49"), ("c", "50-99")}
    assert sum(p.bytes_in for p in plan.decision.parts) == 0


def test_compute_intensive_jobs_split_although_their_data_must_move() -> None:
    data = [need("x", MB, IndexSet.span(0, 100), "b")]
    sites = [site("home", 10, rates={"b": 10.0 * MB}), site("b", 10)]
    plan = decide(demand(100, work_s=600.0, needs=data), sites, 0.0)
    assert plan.decision.plan == "split"
    assert min(placed(plan).values()) > 40


def test_no_part_is_larger_than_the_largest_subgroup() -> None:
    plan = decide(demand(1000, max_subgroup=64), [site("home", 10), site("b", 10)], 0.0)
    assert max(len(p.indices) for p in plan.parts) == 64
    assert sum(len(p.indices) for p in plan.parts) == 1000


def test_a_limit_on_parallel_jobs_makes_a_split_no_faster() -> None:
    """Two at once are two at once: with a site that has room for both there is nothing to gain."""
    plan = decide(demand(100, work_s=10.0, max_parallel=2), [site("home", 10), site("b", 10)], 0.0)
    assert plan.decision.plan == "whole"
    assert plan.decision.split_s >= plan.decision.whole_s - 1e-6


def test_under_a_limit_no_more_sites_are_used_than_jobs_may_run() -> None:
    plan = decide(demand(100, max_parallel=2), [site(n, 1) for n in ("home", "b", "c", "d")], 0.0)
    assert len(plan.parts) <= 2


def test_the_decision_keeps_at_most_64_rows_the_best_first() -> None:
    many = [site(f"s{n:03}", 1 + n % 7) for n in range(200)]
    rows = decide(demand(1000), many, 0.0).decision.candidates
    assert len(rows) == MAX_ROWS
    assert [r.total_s for r in rows] == sorted(r.total_s for r in rows)


# --- properties ------------------------------------------------------------------------------------------

names = ("home", "b", "c", "d", "e")


@st.composite
def grids(draw: st.DrawFn) -> tuple[Demand, list[Candidate]]:
    jobs = draw(st.integers(1, 300))
    count = draw(st.integers(1, 5))
    rate = st.sampled_from([0.1 * MB, 1.0 * MB, 50.0 * MB])
    some = [
        site(
            name,
            draw(st.integers(1, 50)),
            speed=draw(st.sampled_from([0.5, 1.0, 3.0])),
            ahead=draw(st.sampled_from([0.0, 10.0, 1000.0])),
            rtt=draw(st.sampled_from([0.0, 0.01, 0.3])),
            rates={other: draw(rate) for other in names if other != name},
        )
        for name in names[:count]
    ]
    needs = []
    for n in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, jobs - 1))
        span = IndexSet.span(start, draw(st.integers(start + 1, jobs)))
        holders = draw(st.lists(st.sampled_from(names[:count]), min_size=1, max_size=2, unique=True))
        needs.append(need(f"d{n}", draw(st.sampled_from([0, MB, 500 * MB])), span, *holders))
    limit = draw(st.sampled_from([0, 0, 1, 3, 1000]))
    asked = demand(
        jobs,
        work_s=draw(st.sampled_from([0.1, 5.0, 600.0])),
        needs=needs,
        max_subgroup=draw(st.sampled_from([7, 100, 1_000_000])),
        max_parallel=limit,
    )
    return asked, some


@settings(max_examples=60)
@given(grids())
def test_parts_partition_the_jobs_and_a_split_never_ends_later_than_the_best_whole(
    case: tuple[Demand, list[Candidate]],
) -> None:
    asked, some = case
    plan = decide(asked, some, 0.0)
    assert sorted(i for p in plan.parts for i in p.indices) == list(asked.indices)
    assert all(0 < len(p.indices) <= asked.max_subgroup for p in plan.parts)
    chosen = plan.decision.split_s if plan.decision.plan == "split" else plan.decision.whole_s
    assert chosen <= plan.decision.whole_s
    assert max(p.predicted_end_s for p in plan.decision.parts) == pytest.approx(chosen)
    assert sum(p.jobs for p in plan.decision.parts) == len(asked.indices)
    assert decide(asked, some, 0.0) == plan


@given(st.integers(1, 50), st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_an_allotment_gives_each_part_at_least_one_and_in_all_what_there_is(limit: int, sizes: list[int]) -> None:
    shares = allot(limit, sizes)
    assert len(shares) == len(sizes)
    assert min(shares) >= 1
    assert sum(shares) <= max(limit, len(sizes))
    assert allot(0, sizes) == [0] * len(sizes)


def test_an_allotment_is_in_proportion() -> None:
    assert allot(10, [700, 300]) == [7, 3]
    assert allot(3, [1000, 1, 1]) == [1, 1, 1]


def test_without_splitting_a_group_goes_whole_where_it_ends_first_unless_nobody_takes_it_whole() -> None:
    sites = [site("home", 10), site("b", 10)]
    plan = decide(demand(100, work_s=10.0), sites, 0.0, split=False)
    assert placed(plan) == {"home": 100}
    assert plan.decision.reason == "whole at home ends after 1m40s; by the settings a group is not split"
    small = [msgspec.structs.replace(one, max_jobs=60) for one in sites]
    assert placed(decide(demand(100, work_s=10.0), small, 0.0, split=False)) == {"home": 50, "b": 50}


def test_without_the_cost_of_data_a_group_goes_where_it_would_without_data() -> None:
    sites = [site("home", 4, rates={"b": 1e5}), site("b", 4, ahead=8.0, rates={"home": 1e5})]
    wanted = demand(4, work_s=10.0, needs=[need("d", 100 * MB, IndexSet.span(0, 4), "b")])
    assert placed(decide(wanted, sites, 0.0)) == {"b": 4}
    assert placed(decide(wanted, sites, 0.0, weights=Weights(stage_in=1e-9, stage_out=1e-9))) == {"home": 4}


def test_the_papers_model_splits_figure_4s_group_without_being_told_a_size() -> None:
    """SPEC D6: three idle sites share 10,000 one-hour jobs; a division of 1 keeps the paper's letter, whole where one
    site takes it."""
    idle = [site("home", 100), site("b", 100), site("c", 100)]
    plan = decide(demand(10_000, work_s=3600.0), idle, 0.0, model="paper")
    assert plan.decision.plan == "split"
    assert placed(plan) == {"home": 3400, "b": 3300, "c": 3300}
    assert plan.decision.subgroup_jobs == 100
    assert decide(demand(10_000, work_s=3600.0, division=1), idle, 0.0, model="paper").decision.plan == "whole"
    assert decide(demand(10_000, work_s=3600.0, division=3), idle, 0.0, model="paper").decision.subgroup_jobs == 3334


def test_the_papers_model_weighs_all_queues_against_small_sites() -> None:
    """SPEC D6: (Q/Pi) W6 grows with each subgroup and draws the next ones to the largest site; without it a hundred
    subgroups of 100 end near the bound of 7.6923 h."""
    whole = demand(10_000, work_s=3600.0)
    assert decide(whole, FIGURE_4, 0.0, model="paper").decision.split_s / 3600 == pytest.approx(13.1667, abs=1e-3)
    even = decide(whole, FIGURE_4, 0.0, model="paper", weights=Weights(all_queues=0.0))
    assert even.decision.split_s / 3600 == pytest.approx(8.0)


def test_jobs_with_data_of_their_own_are_priced_a_hundred_times_at_most() -> None:
    """SPEC D6: the default size bounds the subgroups of a group in which no two jobs read the same, too."""
    needs = [need(f"d{n}", MB, IndexSet.span(n, n + 1), "b") for n in range(400)]
    asked, sites = demand(400, needs=needs), [site(name, 10, rates={"b": 10.0 * MB}) for name in ("home", "b", "c")]
    deal = models.Paper(Grid(asked, table_of(asked, sites)), Weights(), False, 0).split(blocks(asked))
    assert deal is not None
    assert deal.jobs.sum() == 400
    assert len(deal.blocks) <= models.PAPER_SUBGROUPS
