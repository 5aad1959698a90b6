"""SPEC D7 (sections IX and X of the paper): which queued work moves, whereto, and why the rest stays."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.migration.migrants import (
    Budget,
    Migrant,
    MigrantQuote,
    MigrationPlan,
    MigrationSettings,
    Peer,
)
from diana.policy.migration.plan import MOST_REASONS, RAISE, plan, split_off
from diana.policy.queueing.priority import Level, level

SETTINGS = MigrationSettings()


def quote(site: str, ahead: int = 0, cost: float = 20.0, rate: float = 1.0, **more: object) -> MigrantQuote:
    return MigrantQuote(SiteId(site), ahead, cost, more.pop("ends", cost), rate, **more)  # type: ignore[arg-type]


def peer(site: str, free: int = 100, queued: int = 0, **more: object) -> Peer:
    return Peer(SiteId(site), queued, free, more.pop("age", 1.0), **more)  # type: ignore[arg-type]


def migrant(
    key: str, *quotes: MigrantQuote, jobs: int = 50, ahead: int = 500, cost: float = 300.0, **more: object
) -> Migrant:
    told = {"processors": 1, "ends_s": cost, "processors_per_s": 1.0, **more}
    return Migrant(key=key, jobs=jobs, jobs_ahead=ahead, cost=cost, quotes=quotes, **told)  # type: ignore[arg-type]


def decide(m: Migrant, peers: list[Peer], budget: int = 100, seed: int = 1, **more: object) -> MigrationPlan:
    return plan(m, peers, more.pop("settings", SETTINGS), budget=budget, seed=seed, **more)  # type: ignore[arg-type]


def test_work_goes_where_fewer_jobs_stand_ahead_and_the_cost_is_not_higher() -> None:
    told = decide(migrant("g/0", quote("b", 40), quote("c", 3), quote("d", 3, 200.0)), peers=[*map(peer, "bcd")])
    (move,) = told.moves
    assert (move.site, move.jobs, move.processors, move.gain_s) == ("c", 50, 50, 280.0)
    assert move.reason == "site c: 3 jobs ahead there, 500 at home; saves up to 4m40s"
    assert not told.kept


def test_the_raise_is_one_level_for_good() -> None:
    assert level(-0.7) is Level.Q4 and level(-0.7 + RAISE) is Level.Q3


@pytest.mark.parametrize(
    ("there", "site", "why"),
    [
        (quote("c", 0, 41.0), peer("c"), "site c: cost 41.0 s is higher than 37.0 s at home"),
        (quote("c", 12, 5.0), peer("c"), "site c: 12 jobs ahead there, 12 at home"),
        (quote("c", 0, 30.0), peer("c"), "site c: saves 7.0 s, less than 10.0 s"),
        (quote("c", 0, 5.0), peer("c", age=60.0), "site c: its quote is 1m00s old"),
        (quote("c", 0, 5.0), peer("c", refused="is drained"), "site c: is drained"),
        (quote("c", 0, 5.0, rejected="has no gpu"), peer("c"), "site c: has no gpu"),
        (quote("c", 0, 5.0), peer("d"), "site c: not known"),
        (
            quote("c", 0, 5.0, rate=0.0),
            peer("c", free=0),
            "site c: with 0 processors free, none would start early enough to save 10.0 s",
        ),
    ],
)
def test_what_stays_says_why(there: MigrantQuote, site: Peer, why: str) -> None:
    told = decide(migrant("g/0", there, jobs=9, ahead=12, cost=37.0), peers=[site])
    assert told == MigrationPlan((), 9, (why,))


def test_costs_that_read_the_same_are_told_apart() -> None:
    told = decide(migrant("g/0", quote("c", 0, 37.01), cost=37.0), peers=[peer("c")])
    assert told.reasons == ("site c: cost 37.01 s is higher than 37.0 s at home",)


def test_a_lone_burst_is_shared_and_not_passed_on_whole() -> None:
    """1,000 jobs, one a second here and one a second there: half of them go, less what the least gain asks for."""
    burst = migrant("g/0", quote("c", 0, 1.0), jobs=1000, ahead=999, cost=1000.0)
    told = decide(burst, peers=[peer("c", free=1)])
    assert 490 <= told.moves[0].jobs <= 500
    assert told.reasons == (f"site c: takes {told.moves[0].jobs} of it and no more now",)


def test_what_leaves_makes_it_sooner_at_home_for_the_rest_of_its_class() -> None:
    """Two a second are through here and ten there, behind many of others: at 830 gone both would end alike."""
    burst = migrant("g/0", quote("c", 0, 1.0, 10.0), jobs=1000, ahead=9000, cost=500.0, processors_per_s=2.0)
    (move,) = decide(burst, peers=[peer("c", free=1)]).moves
    assert move.jobs == pytest.approx(489 / 0.6, abs=3)


def test_a_class_spreads_over_the_sites_that_gain() -> None:
    quotes = [quote(site, 0, 10.0) for site in "bcde"]
    backlog = migrant("g/0", *quotes, jobs=500, ahead=499, cost=500.0)
    told = decide(backlog, peers=[peer(site, free=30) for site in "bcde"])
    assert sorted(move.site for move in told.moves) == ["b", "c", "d", "e"]
    sizes = [move.jobs for move in told.moves]
    assert max(sizes) - min(sizes) <= 8 and sum(sizes) == pytest.approx(410, abs=15)


def test_what_starts_at_once_at_one_site_is_not_scattered() -> None:
    quotes = [quote(site, 0, 10.0) for site in "bcde"]
    told = decide(migrant("g/0", *quotes, jobs=90), peers=[peer(site, free=100) for site in "bcde"])
    assert [move.jobs for move in told.moves] == [90]


def test_the_receiver_is_told_by_when_the_last_of_them_must_start_to_gain_enough() -> None:
    """It runs 4 s. At home the last of 50 ends after 300 s and the 50th from behind after 251."""
    there = quote("c", 0, 20.0, starts_s=16.0)
    (move,) = decide(migrant("g/0", there, jobs=50), peers=[peer("c")]).moves
    assert (move.jobs, move.within_s) == (50, 251.0 - 4.0 - SETTINGS.migration_gain_s)


def test_paper_mode_asks_for_no_least_gain() -> None:
    here = migrant("g/0", quote("c", 0, 36.0), jobs=1, ahead=12, cost=37.0)
    assert not decide(here, peers=[peer("c")]).moves
    (move,) = decide(here, peers=[peer("c")], mode="paper").moves
    assert move.within_s == move.gain_s == 1.0


def test_no_more_moves_start_than_the_budget_has() -> None:
    backlog = migrant("g/0", *[quote(site, 0, 10.0) for site in "bcde"], jobs=500, ahead=499, cost=500.0)
    told = decide(backlog, peers=[peer(site, free=30) for site in "bcde"], budget=2)
    assert len(told.moves) == 2
    assert decide(backlog, peers=[peer(site, free=30) for site in "bcde"], budget=0) == MigrationPlan(
        (), 500, ("no more moves may start now",)
    )


def test_the_budget_fills_with_time_and_never_beyond_a_minute() -> None:
    budget = Budget.full(SETTINGS, 0.0).spent(60)
    assert budget.at(SETTINGS, 10.0).left == 10.0
    assert budget.at(SETTINGS, 1e6).left == 60.0


def test_among_equals_two_are_drawn_and_the_emptier_taken() -> None:
    """A cent cheaper is no reason for everybody to go there; a shorter queue is none for everybody either."""
    quotes = [quote(f"s{n}", 0, 20.0 + n / 100) for n in range(8)]
    peers = [peer(f"s{n}") for n in range(8)]
    chosen = [decide(migrant("g/0", *quotes, jobs=5), peers=peers, seed=seed).moves[0].site for seed in range(200)]
    assert len(set(chosen)) >= 7 and max(map(chosen.count, set(chosen))) < 80
    fuller = [*peers[:7], peer("s7", free=1)]
    chosen = [decide(migrant("g/0", *quotes, jobs=50), peers=fuller, seed=seed).moves[0].site for seed in range(200)]
    assert "s7" not in chosen


@pytest.mark.parametrize("mode", ["paper", "default"])
def test_sites_that_are_equal_in_all_go_by_name_in_whatever_order_they_answer(mode: str) -> None:
    sites = [f"s{n}" for n in range(9)]
    for seed in range(10):
        told = {
            decide(migrant("g/0", *map(quote, order), jobs=1), peers=[*map(peer, order)], seed=seed, mode=mode)
            for order in (sites, sites[::-1], sites[4:] + sites[:4])
        }
        assert len(told) == 1 and (mode == "default" or told.pop().moves[0].site == "s0")


def test_the_papers_rule_asks_for_no_gain_and_draws_nothing() -> None:
    """Jobs ahead alone: with 10 at either and 30 here, 7 go to each, and 17 are ahead everywhere."""
    paper = migrant("g/0", quote("b", 10, 7.0), quote("c", 10, 6.9), jobs=30, ahead=30, cost=7.0)
    for seed in range(5):
        told = decide(paper, peers=[peer("b", 0), peer("c", 0)], seed=seed, mode="paper", cost_in_s=False)
        assert [(move.site, move.jobs) for move in told.moves] == [("c", 7), ("b", 7)]


def test_a_million_jobs_move_as_ten_do() -> None:
    big = migrant("g/0", quote("c", 0, 1.0, 1e5), jobs=10**6, ahead=10**6, cost=1e4, processors_per_s=100.0)
    (move,) = decide(big, peers=[peer("c", free=10**4)]).moves
    stays, moves = split_off(IndexSet.span(0, 10**6), move.jobs)
    assert len(moves) == move.jobs > 0 and len(moves.bounds) <= 2 and len(stays) + len(moves) == 10**6


def test_reasons_stay_few_among_many_sites() -> None:
    told = decide(
        migrant("g/0", *[quote(f"s{n:03}", 900) for n in range(100)]), peers=[peer(f"s{n:03}") for n in range(100)]
    )
    assert len(told.reasons) == MOST_REASONS + 1 and told.reasons[-1] == "84 more sites no better"


NAMES = ["b", "c", "d", "e", "f"]
quotes = st.builds(
    MigrantQuote,
    st.sampled_from([SiteId(name) for name in NAMES]),
    st.integers(0, 60),
    st.sampled_from([0.0, 10.0, 10.2, 40.0, 90.0]),
    st.floats(0, 300),
    st.floats(0, 5),
    st.integers(0, 40),
    starts_s=st.floats(0, 300),
)
migrants = st.builds(
    Migrant,
    st.uuids().map(str),
    st.integers(1, 200),
    st.integers(1, 4),
    st.integers(0, 300),
    st.sampled_from([10.0, 50.0, 100.0]),
    st.floats(0, 600),
    st.floats(0, 5),
    st.booleans(),
    st.lists(quotes, max_size=5, unique_by=lambda q: q.site).map(tuple),
)
peers = st.tuples(
    *[
        st.builds(Peer, st.just(SiteId(n)), st.integers(0, 9), st.integers(0, 90), st.just(0.0), st.integers(0, 60))
        for n in NAMES
    ]
)
situations = (migrants, peers, st.integers(0, 9), st.integers(0, 99))


@settings(max_examples=40)
@given(*situations, st.randoms(use_true_random=False))
def test_the_plan_is_the_same_in_whatever_order_it_is_asked(
    m: Migrant, sites: tuple[Peer, ...], budget: int, seed: int, rng: Random
) -> None:
    told = decide(m, peers=list(sites), budget=budget, seed=seed)
    mixed = m._replace(quotes=tuple(rng.sample(m.quotes, len(m.quotes))))
    assert told == decide(mixed, peers=rng.sample(sites, len(sites)), budget=budget, seed=seed)


@settings(max_examples=70)
@given(*situations)
def test_every_plan_keeps_the_rules(m: Migrant, sites: tuple[Peer, ...], budget: int, seed: int) -> None:
    told = decide(m, peers=list(sites), budget=budget, seed=seed)
    free = {site.site: site.free_processors for site in sites}
    assert len(told.moves) <= budget
    assert sum(move.jobs for move in told.moves) + told.kept == m.jobs
    assert len({move.site for move in told.moves}) == len(told.moves)
    assert bool(told.reasons) == bool(told.kept)
    for move in told.moves:
        q = next(q for q in m.quotes if q.site == move.site)
        assert q.jobs_ahead < m.jobs_ahead and q.cost <= m.cost and move.jobs <= (q.max_jobs or m.jobs)
        assert SETTINGS.migration_gain_s <= move.gain_s <= m.ends_s - q.ends_s
        # Whoever starts by then ends earlier than the last of them would have at home, by the least gain.
        assert 0 <= move.within_s <= m.ends_s - (q.ends_s - q.starts_s) - SETTINGS.migration_gain_s + 1e-6
        coming = q.processors_per_s * (move.gain_s + 1e-6)
        assert move.processors == move.jobs * m.processors <= free[q.site] + coming + 1e-6


@pytest.mark.parametrize(
    ("key", "value"), [("migration_gain_s", -1), ("alike", 2), ("quote_age_s", 0), ("moves_per_minute", -1)]
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{key} = "):
        MigrationSettings(**{key: value})
