"""The policies to compare with place every job once, where it may run, by the rule they are named after (SPEC D13)."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.allocation import baselines
from diana.policy.allocation import chance as allocation_chance
from diana.policy.allocation.baselines import Baseline
from diana.policy.allocation.splitting import Plan
from diana.policy.pricing.demand import Candidate, Demand
from tests.policy.grids import demand, jobs_by_site, need, site

POLICIES: tuple[Baseline, ...] = get_args(Baseline)
MB = 1_000_000


def decided(
    policy: Baseline, wanted: Demand, sites: list[Candidate], turns: tuple[str, ...] = (), lot: str = "home-1/0"
) -> Plan:
    ring = tuple(SiteId(name) for name in turns)
    return baselines.decide(wanted, sites, 3.0, policy=policy, turns=ring, lot=lot)


def placed(plan: Plan) -> dict[str, int]:
    return jobs_by_site(plan.parts)


def like(one: Candidate, *, queued: int = 0, busy: float = 0.0, most: int = 0) -> Candidate:
    return msgspec.structs.replace(one, queued_jobs=queued, busy_fraction=busy, max_jobs=most)


def test_round_robin_deals_job_by_job_from_the_site_whose_turn_it_is() -> None:
    sites = [site("a", 4), site("b", 1), site("c", 4)]
    plan = decided("round-robin", demand(7), sites, ("b", "c", "a"))
    assert placed(plan) == {"b": 3, "c": 2, "a": 2}
    assert plan.decision.reason.startswith("dealt round robin over 3 sites; ends after ")
    assert decided("round-robin", demand(1), sites, ("c", "a", "b")).decision.reason.startswith(
        "round robin: the turn of c; ends after "
    )


def test_round_robin_goes_on_with_the_next_site_where_the_next_jobs_read_something_else() -> None:
    wanted = demand(6, needs=[need("x", MB, IndexSet.span(0, 2), "a"), need("y", MB, IndexSet.span(2, 6), "b")])
    plan = decided("round-robin", wanted, [site(name, rates={"a": 1e6, "b": 1e6}) for name in "abc"], tuple("abc"))
    assert placed(plan) == {"a": 2, "b": 2, "c": 2}


def test_random_draws_every_job_by_an_even_chance() -> None:
    sites = [site(name, 4) for name in "abcd"]
    many = Counter[str]()
    for number in range(400):
        many.update(placed(decided("random", demand(1), sites, tuple("abcd"), f"home-{number}/0")))
    assert all(70 <= many[name] <= 130 for name in "abcd")
    large = placed(decided("random", demand(1_000_000), sites, tuple("abcd")))
    assert all(abs(jobs - 250_000) < 2500 for jobs in large.values())
    assert len(set(large.values())) == 4
    assert large == placed(decided("random", demand(1_000_000), sites, tuple("abcd")))
    assert large != placed(decided("random", demand(1_000_000), sites, tuple("abcd"), "home-2/0"))


def test_shares_drawn_by_lot_have_the_binomials_mean_and_variance() -> None:
    for jobs, sites in ((60, 8), (400, 5), (3, 7)):
        first = [allocation_chance.shares(f"t{k}", jobs, sites)[0] for k in range(3000)]
        mean = sum(first) / 3000
        variance = sum((n - mean) ** 2 for n in first) / 2999
        chance = 1 / sites
        assert mean == pytest.approx(jobs * chance, rel=0.06)
        assert variance == pytest.approx(jobs * chance * (1 - chance), rel=0.12)


def test_the_fastest_site_with_idle_processors_takes_the_group_whole() -> None:
    full = like(site("b", 4, speed=3.0), queued=1, busy=1.0)
    sites = [site("a", 4, speed=1.0), full, like(site("c", 4, speed=2.0), busy=0.75), site("d", 2, speed=2.0)]
    plan = decided("fastest", demand(3), sites)
    assert placed(plan) == {"d": 3}
    assert plan.decision.plan == "whole"
    assert plan.decision.reason.startswith("fastest site with idle processors: d (speed 2); ends after ")
    none_idle = [like(one, queued=5, busy=1.0) for one in sites]
    assert placed(decided("fastest", demand(3), none_idle)) == {"b": 3}


def test_the_least_queue_is_the_one_with_fewest_jobs_waiting_per_processor() -> None:
    sites = [like(site("a", 2), queued=4), like(site("b", 100), queued=50), like(site("c", 4), queued=3)]
    plan = decided("least-queue", demand(3), sites)
    assert placed(plan) == {"b": 3}
    assert plan.decision.reason.startswith("least queue: b (0.5 jobs wait per processor); ends after ")
    assert placed(decided("least-queue", demand(3), [site("home"), site("a")])) == {"home": 3}


def test_two_choices_takes_the_better_of_two_sites_drawn_by_their_processors() -> None:
    plan = decided("two-choices", demand(3), [like(site("a", 4), busy=1.0), like(site("b", 4), busy=0.25)])
    assert placed(plan) == {"b": 3}
    assert plan.decision.reason.startswith("of two sites drawn b has fewer jobs (0.25 per processor); ends after ")
    # Of a, b and c the best, c, is drawn unless both others are; the worst, a, never goes first.
    sites = [like(site(name, 4), queued=queued, busy=1.0) for name, queued in (("a", 8), ("b", 4), ("c", 0))]
    many, large = Counter[str](), Counter[str]()
    for number in range(600):
        many.update(placed(decided("two-choices", demand(1), sites, lot=f"home-{number}/0")))
        unlike = [site("a", 1), like(site("b", 15), busy=0.5), like(site("c", 4), busy=1.0)]
        large.update(placed(decided("two-choices", demand(1), unlike, lot=f"home-{number}/0")))
    assert many.keys() == {"b", "c"} and 150 <= many["b"] <= 250
    # The idle site has one processor of 20, so that it is met in about one draw of eight.
    assert 30 <= large["a"] <= 150 < large["b"]


def test_two_choices_job_by_job_spreads_a_group_and_draws_the_same_again() -> None:
    sites = [site(name, 8) for name in "abcd"]
    plan = decided("two-choices", demand(400, max_subgroup=1), sites)
    assert all(90 <= jobs <= 110 for jobs in placed(plan).values()) and len(placed(plan)) == 4
    assert placed(plan) == placed(decided("two-choices", demand(400, max_subgroup=1), sites))
    drawn_anew = decided("two-choices", demand(41, max_subgroup=1), sites, lot="home-2/0")
    assert placed(drawn_anew) != placed(decided("two-choices", demand(41, max_subgroup=1), sites))


def test_parts_placed_one_after_the_other_see_those_before_them() -> None:
    sites = [site("a", 2), site("b", 2)]
    for policy in ("least-queue", "greedy", "fastest"):
        assert placed(decided(policy, demand(8, max_subgroup=2), sites)) == {"a": 4, "b": 4}


def test_data_local_jobs_go_to_their_data_however_long_the_queue() -> None:
    rates = {"a": 1e6, "b": 1e6, "c": 1e6}
    sites = [site("a", 4, rates=rates), like(site("b", 4, rates=rates), queued=900), site("c", 4, rates=rates)]
    whole = demand(4, needs=[need("x", 8 * MB, IndexSet.span(0, 4), "b"), need("y", MB, IndexSet.span(0, 4), "c")])
    plan = decided("data-local", whole, sites)
    assert placed(plan) == {"b": 4}
    assert plan.decision.reason.startswith("data-local: b lacks the fewest bytes (1000000); ends after ")
    apart = demand(5, needs=[need("x", MB, IndexSet.span(0, 2), "b"), need("y", MB, IndexSet.span(2, 5), "c")])
    assert placed(decided("data-local", apart, sites)) == {"b": 2, "c": 3}
    assert placed(decided("data-local", demand(5), sites)) == {"a": 5}


def test_greedy_takes_the_group_whole_where_it_is_done_first() -> None:
    sites = [site("a", 1), site("b", 4, ahead=20.0), site("c", 4, ahead=4.0)]
    plan = decided("greedy", demand(8, work_s=10.0), sites)
    assert placed(plan) == {"c": 8}
    assert plan.decision.parts[0].predicted_end_s == pytest.approx(21.0)
    assert [row.site for row in plan.decision.candidates] == ["c", "b", "a"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_nobody_can_take_is_not_placed_and_the_decision_says_why(policy: Baseline) -> None:
    plan = decided(policy, demand(2, processors=8), [site("a", 4), site("b", 2, rejected="drained")], ("a", "b"))
    assert not plan.parts
    assert plan.decision.reason == "no site can take this group"
    assert plan.decision.candidates[-1].rejected == "drained"


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_site_has_no_room_for_goes_to_the_next(policy: Baseline) -> None:
    sites = [like(site("a", 4), most=3), like(site("b", 4), most=4)]
    assert placed(decided(policy, demand(7), sites, ("a", "b"))) == {"a": 3, "b": 4}
    assert not decided(policy, demand(8), sites, ("a", "b")).parts


@st.composite
def cases(draw: st.DrawFn) -> tuple[Demand, list[Candidate], tuple[str, ...]]:
    names = [f"s{k}" for k in range(draw(st.integers(1, 7)))]
    rates = dict.fromkeys(names, 1e6)
    sites = [
        like(
            site(
                name,
                draw(st.integers(0, 5)),
                speed=draw(st.sampled_from((0.5, 1.0, 2.0))),
                ahead=draw(st.floats(0, 50)),
                rates=rates,
                rejected=draw(st.sampled_from(("", "", "", "no"))),
            ),
            queued=draw(st.integers(0, 5)),
            busy=draw(st.sampled_from((0.0, 0.5, 1.0))),
            most=draw(st.sampled_from((0, 0, 1, 5, 40))),
        )
        for name in names
    ]
    jobs = draw(st.integers(1, 60))
    needs = [
        need(f"d{k}", draw(st.integers(0, 5)) * MB, IndexSet.span(k, jobs), draw(st.sampled_from(names)))
        for k in range(draw(st.integers(0, min(3, jobs - 1))))
    ]
    wanted = msgspec.structs.replace(
        demand(jobs, processors=draw(st.integers(1, 3)), needs=needs),
        max_subgroup=draw(st.sampled_from((1_000_000, 7))),
        division=draw(st.sampled_from((0, 3))),
        max_parallel=draw(st.sampled_from((0, 0, 2))),
    )
    return wanted, sites, tuple(draw(st.permutations(names)))[: draw(st.integers(0, 7))]


@given(st.sampled_from(POLICIES), cases())
def test_every_job_is_placed_once_where_it_may_run_or_none_is(
    policy: Baseline, case: tuple[Demand, list[Candidate], tuple[str, ...]]
) -> None:
    wanted, sites, turns = case
    plan = decided(policy, wanted, sites, turns)
    able = {c.site: c for c in sites if not c.rejected and c.slots >= wanted.processors}
    room = sum(c.max_jobs or len(wanted.indices) for c in able.values())
    if not plan.parts:
        assert room < len(wanted.indices) or wanted.max_parallel
        return
    assert IndexSet.union(part.indices for part in plan.parts) == wanted.indices
    assert sum(len(part.indices) for part in plan.parts) == len(wanted.indices)
    got = placed(plan)
    assert got.keys() <= able.keys()
    assert all(not able[SiteId(name)].max_jobs or jobs <= able[SiteId(name)].max_jobs for name, jobs in got.items())
    assert all(len(part.indices) <= wanted.max_subgroup for part in plan.parts)
    assert not wanted.max_parallel or len(got) <= wanted.max_parallel
    assert {part.site: part.jobs for part in plan.decision.parts} == got
    assert plan.decision.plan == ("split" if len(got) > 1 else "whole")


def test_few_parts_are_laid_where_there_is_room_for_all() -> None:
    """Two sites may be used, and only the third, which is no better, has room for the most."""
    rooms = {"s0": 1, "s1": 1, "s2": 40}
    sites = [Candidate(site=SiteId(name), slots=1, speed=0.5, max_jobs=room) for name, room in rooms.items()]
    wanted = Demand(indices=IndexSet.span(0, 41), processors=1, work_s=1.0, max_subgroup=1000, max_parallel=2)
    plan = baselines.decide(wanted, sites, 0.0, policy="fastest")
    assert len({part.site for part in plan.parts}) == 2
    assert sum(len(part.indices) for part in plan.parts) == 41
