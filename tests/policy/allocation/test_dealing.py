"""How a split is dealt: within 1 % of an exhaustive search on small cases, exactly so without data (SPEC D6)."""

from __future__ import annotations

import random
import time
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.allocation import exact, heuristics
from diana.policy.allocation.deal import Deal
from diana.policy.allocation.splitting import decide
from diana.policy.allocation.water_filling import Lines, fill
from diana.policy.pricing.cost import table_of
from diana.policy.pricing.demand import Block, Candidate, Demand, LinkForecast, blocks, by_holders
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.turnaround import price
from tests.policy.grids import demand, need, site

MB = 1_000_000


def case(seed: int, most_jobs: int) -> tuple[Grid, list[Block]]:
    rng = random.Random(seed)
    jobs = rng.randint(2, most_jobs)
    names = ["home", "b", "c"][: rng.randint(2, 3)]
    some = [
        Candidate(
            site=SiteId(name),
            slots=rng.choice([1, 2, 3, 8]),
            speed=rng.choice([0.5, 1.0, 3.0]),
            work_ahead_s=rng.choice([0.0, 10.0, 100.0]),
            rtt_s=0.0 if name == "home" else rng.choice([0.0, 0.01, 0.3]),
            out_bytes_per_s=0.0 if name == "home" else rng.choice([0.1 * MB, 1.0 * MB, 50.0 * MB]),
            links={
                SiteId(other): LinkForecast(
                    bytes_per_s=rng.choice([0.1 * MB, 1.0 * MB, 50.0 * MB]),
                    rtt_s=0.01,
                    backlog_bytes=rng.choice([0.0, 0.0, 10.0 * MB]),
                )
                for other in names
                if other != name
            },
        )
        for name in names
    ]
    needs = []
    for n in range(rng.choice([0, 1, 1, 2])):
        start = rng.randint(0, jobs - 1)
        span = IndexSet.span(start, rng.randint(start + 1, jobs)) if rng.random() < 0.7 else IndexSet.span(0, jobs)
        needs.append(need(f"d{n}", rng.choice([MB, 20 * MB, 500 * MB]), span, rng.choice(names)))
    asked = Demand(
        indices=IndexSet.span(0, jobs),
        processors=1,
        work_s=rng.choice([1.0, 5.0, 60.0]),
        needs=tuple(needs),
        max_subgroup=1_000_000,
        output_bytes=rng.choice([0.0, 0.0, 1.0 * MB]),
    )
    return Grid(asked, table_of(asked, some)), blocks(asked)


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to share `total` jobs over `parts` sites."""
    if parts == 1:
        return [(total,)]
    return [(head, *rest) for head in range(total + 1) for rest in compositions(total - head, parts - 1)]


def exhaustive_s(grid: Grid, some: list[Block]) -> float:
    """Every deal there is, looked at."""
    best = float("inf")
    for counts in product(*(compositions(len(b.indices), len(grid.table)) for b in some)):
        deal = Deal(grid, some)
        for number, row in enumerate(counts):
            for s, jobs in enumerate(row):
                if jobs:
                    deal.give(number, jobs, s)
        best = min(best, deal.makespan_s())
    return best


def ways(grid: Grid, some: list[Block]) -> int:
    return prod(len(compositions(len(b.indices), len(grid.table))) for b in some)


@pytest.mark.wide
def test_a_small_split_ends_within_one_percent_of_the_best_of_all_deals() -> None:
    looked_at = 0
    for seed in range(150):
        grid, some = case(seed, 7)
        if ways(grid, some) > 400:
            continue
        looked_at += 1
        dealt = heuristics.split(grid, some)
        assert dealt is not None
        assert dealt.makespan_s() <= 1.01 * exhaustive_s(grid, some), f"seed {seed}"
    assert looked_at > 70


def test_beyond_the_exact_search_greedy_stays_within_one_percent_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy is used only where the exact search is too dear: there, against that search given all it wants."""
    compared = 0
    for seed in range(120):
        grid, some = case(seed, 40)
        if not exact.MOST_STATES < prod(len(b.indices) + 1 for b in some) < 600:
            continue
        greedy = heuristics.split(grid, some)
        with monkeypatch.context() as lifted:
            lifted.setattr(exact, "MOST_STATES", 600)
            lifted.setattr(exact, "MOST_ENDS", 10_000)
            best = exact.deal(grid, some)
        assert greedy is not None and best is not None
        assert greedy.makespan_s() <= 1.01 * best.makespan_s(), f"seed {seed}"
        compared += 1
    assert compared > 5


@given(st.integers(0, 10_000))
def test_every_deal_gives_each_job_to_one_site_and_no_site_more_than_its_limit(seed: int) -> None:
    grid, some = case(seed, 60)
    grid.table.max_jobs[:] = [7 + seed % 60, 100, 100][: len(grid.table)]
    for unit in (0, 5):
        dealt = heuristics.split(grid, some, unit)
        assert dealt is not None
        assert dealt.counts.sum(axis=1).tolist() == [len(b.indices) for b in dealt.blocks]
        assert (dealt.jobs <= grid.table.max_jobs).all()
        assert (dealt.counts >= 0).all()


@given(st.integers(0, 10_000))
def test_giving_back_what_was_given_leaves_nothing(seed: int) -> None:
    grid, some = case(seed, 60)
    deal = Deal(grid, some)
    for sign in (1, -1):
        for number, block in enumerate(some):
            for s in range(len(grid.table)):
                deal.give(number, sign * len(block.indices), s)
    assert not deal.jobs.any()
    assert deal.bytes_in.sum() == pytest.approx(0.0)
    assert deal.own_s.sum() == pytest.approx(0.0, abs=1e-6)
    assert not deal.units.any()


@given(st.integers(0, 10_000))
def test_the_whole_group_dealt_to_one_site_ends_when_its_price_says(seed: int) -> None:
    """With data all jobs share, or none; where files differ by job both are estimates of their own."""
    grid, some = case(seed, 60)
    if grid.data is not None and not grid.data.everyones.all():
        return
    terms = price(grid)
    for s in range(len(grid.table)):
        deal = Deal(grid, some)
        for number, block in enumerate(some):
            deal.give(number, len(block.indices), s)
        assert deal.makespan_s() == pytest.approx(terms.total_s[s])


numbers = st.floats(0.0, 100.0)


@given(st.lists(st.tuples(numbers, st.floats(0.01, 10.0), numbers), min_size=1, max_size=6), st.integers(1, 200))
def test_filling_ends_no_later_than_giving_each_job_to_where_it_ends_first(
    sites: list[tuple[float, float, float]], jobs: int
) -> None:
    start, rate, least = (np.array(column) for column in zip(*sites, strict=True))
    none = np.zeros(len(sites))
    lines = Lines(
        start_s=start,
        rate=rate,
        had=none,
        least_s=least,
        tail_start_s=none,
        tail_rate=none + np.inf,
        tail_had=none,
        tail_least_s=none,
        room=none + np.inf,
        first=none,
    )

    def ends(counts: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.where(counts > 0, start + np.maximum(counts / rate, least), 0.0)  # type: ignore[no-any-return]

    filled = fill(lines, jobs)
    greedy = np.zeros(len(sites))
    for _ in range(jobs):
        greedy[np.argmin(ends(greedy + 1) + np.where(greedy + 1 > 0, 0.0, np.inf))] += 1
    assert filled.sum() == jobs
    assert ends(filled).max() <= ends(greedy).max() * (1 + 1e-6) + 1e-6


def test_a_shared_need_of_jobs_with_files_of_their_own_moves_once() -> None:
    """Beyond many blocks jobs are taken together by where their files lie; what all of them read stays in one piece."""
    count = heuristics.MANY_BLOCKS + 40
    files = [need(f"d{n}", MB, IndexSet.span(n, n + 1), "b") for n in range(count)]
    asked = demand(count, work_s=100.0, needs=[*files, need("all", 50 * MB, IndexSet.span(0, count), "b")])
    assert by_holders(asked, blocks(asked))[0].shared == (count,)
    some = [site("home", 10, rates={"b": 10.0 * MB}), site("b", 10)]
    parts = {p.site: p for p in decide(asked, some, 0.0).decision.parts}
    home = parts[SiteId("home")]
    assert home.bytes_in == 50 * MB + home.jobs * MB
    assert parts[SiteId("b")].bytes_in == 0


def test_a_split_over_many_sites_costs_no_more_for_a_thousand_times_the_jobs() -> None:
    """10^3 and 10^6 jobs over 1,000 sites: the same array operations."""
    many = [site(f"s{n:04}", 1 + n % 97, ahead=float(n % 100), rtt=0.01) for n in range(1000)]
    took = []
    for jobs in (1000, 1_000_000):
        asked = demand(jobs, work_s=60.0)
        grid = Grid(asked, table_of(asked, many))
        best = float("inf")
        for _ in range(5):
            began = time.thread_time()
            dealt = heuristics.split(grid, blocks(asked))
            best = min(best, time.thread_time() - began)
        assert dealt is not None and dealt.jobs.sum() == jobs
        took.append(best)
    assert took[1] < 10 * took[0]


def test_more_slots_never_end_a_group_later() -> None:
    ends = []
    for slots in (1, 2, 4, 8, 16):
        some = [site("home", 4), site("b", slots, rtt=0.1, rates={"home": 1.0 * MB})]
        asked = demand(200, work_s=5.0, needs=[need("d", 30 * MB, IndexSet.span(0, 100), "home")])
        decision = decide(asked, some, 0.0).decision
        ends.append(min(decision.whole_s, decision.split_s))
    assert all(later <= before * (1 + 1e-3) for before, later in pairwise(ends))
