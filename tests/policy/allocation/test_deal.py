"""Short cuts of a split change nothing of it (SPEC D6; PERFORMANCE P3): what is not dealt out could not have paid, what
is given together is as if given one by one, what is looked at together as if alone."""

from __future__ import annotations

import random
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bench_placement import scattered
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.allocation import exact, heuristics, splitting, water_filling
from diana.policy.allocation.deal import Deal
from diana.policy.allocation.models import soonest_s
from diana.policy.allocation.splitting import decide
from diana.policy.allocation.water_filling import Lines, fill
from diana.policy.pricing.cost import table_of
from diana.policy.pricing.demand import Block, Candidate, Demand, LinkForecast, blocks, by_holders
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.turnaround import Weights, price
from tests.policy.allocation.test_dealing import MB, case
from tests.policy.grids import demand, need, site

seeds = st.integers(0, 10_000)
FIELDS = ("jobs", "shared_s", "own_s", "units", "plain", "bytes_in", "readers", "counts", "linked")


def small_case(seed: int) -> tuple[Demand, list[Candidate]]:
    """Few jobs beside few slots, where pieces of a second decide."""
    rng = random.Random(seed)
    jobs = rng.randint(1, 12)
    names = ["home", "b", "c", "d"][: rng.randint(1, 4)]
    some = [
        Candidate(
            site=SiteId(name),
            slots=rng.choice([1, 4, 20]),
            speed=rng.choice([0.5, 1.0, 3.0]),
            work_ahead_s=rng.choice([0.0, 5.0, 100.0]),
            rtt_s=0.0 if name == "home" else rng.choice([0.01, 0.3]),
            out_bytes_per_s=0.0 if name == "home" else rng.choice([0.1 * MB, 50.0 * MB]),
            link=LinkForecast(bytes_per_s=rng.choice([0.1 * MB, 5.0 * MB]), rtt_s=0.01),
            max_jobs=rng.choice([0, 0, 0, 3]),
            uplink_bytes_per_s=rng.choice([0.0, 0.0, 1.0 * MB]),
        )
        for name in names
    ]
    needs = []
    for n in range(rng.choice([0, 0, 1, 2])):
        start = rng.randint(0, jobs - 1)
        span = IndexSet.span(start, rng.randint(start + 1, jobs)) if rng.random() < 0.5 else IndexSet.span(0, jobs)
        needs.append(need(f"d{n}", rng.choice([MB, 20 * MB]), span, rng.choice(names)))
    asked = Demand(
        indices=IndexSet.span(0, jobs),
        processors=1,
        work_s=rng.choice([0.1, 1.0, 60.0]),
        needs=tuple(needs),
        max_subgroup=rng.choice([1_000_000, 3]),
        max_parallel=rng.choice([0, 0, 2]),
        output_bytes=rng.choice([0.0, 0.0, 1.0 * MB]),
        executable_bytes=rng.choice([0.0, 1.0 * MB]),
    )
    return asked, some


@pytest.mark.wide
@settings(max_examples=300)
@given(seeds, st.sampled_from(["turnaround", "paper"]), st.sampled_from([Weights(), Weights(wait=3.0, run=0.5)]))
def test_a_group_that_is_not_dealt_out_would_not_have_been_split(seed: int, model: str, weights: Weights) -> None:
    asked, some = small_case(seed)

    def decided() -> splitting.Plan:
        return decide(asked, some, 0.0, model=model, weights=weights)  # type: ignore[arg-type]

    plan = decided()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(splitting, "soonest_s", lambda grid, _: np.full(grid.sites, -np.inf))
        always = decided()
    assert (plan.parts, plan.decision.plan, plan.decision.parts) == (
        always.parts,
        always.decision.plan,
        always.decision.parts,
    )
    assert plan.decision.candidates == always.decision.candidates


@given(seeds)
def test_no_site_of_any_deal_ends_before_its_soonest(seed: int) -> None:
    asked, some = small_case(seed)
    grid = Grid(asked, table_of(asked, some))
    soonest = soonest_s(grid, price(grid))
    dealt = heuristics.split(grid, blocks(asked))
    if dealt is not None:
        used = dealt.jobs > 0
        assert (dealt.ends()[used] >= soonest[used] - 1e-9).all()


def test_most_small_groups_need_no_dealing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job, one site, or home idle with room for all."""
    monkeypatch.setattr(heuristics, "split", None)
    home, away = site("home", 10), site("b", 100, rtt=0.01)
    assert decide(demand(1), [site("home", 1, ahead=9.0), away], 0.0).decision.plan == "whole"
    assert decide(demand(500), [home], 0.0).decision.plan == "whole"
    assert decide(demand(10), [home, away], 0.0).decision.reason.endswith("splitting it would not end earlier")
    alone = decide(demand(10), [home, site("b", 0)], 0.0).decision
    assert alone.reason.startswith("home is the only site that can take it")


@given(seeds)
def test_what_is_given_at_once_is_as_if_given_one_by_one(seed: int) -> None:
    grid, some = case(seed, 40)
    rng = np.random.default_rng(seed)
    together, single = Deal(grid, some), Deal(grid, some)
    for number in range(len(some)):
        counts = rng.integers(0, 4, grid.sites)
        together.give_all(number, counts)
        for s, jobs in enumerate(counts.tolist()):
            for _ in range(jobs):
                single.give(number, 1, s)
            single.ends()
    for name in FIELDS:
        assert getattr(together, name) == pytest.approx(getattr(single, name)), name
    assert together.ends() == pytest.approx(single.ends())


@given(seeds)
def test_the_ends_of_many_small_deals_worked_out_as_one_are_those_of_each(seed: int) -> None:
    grid, some = case(seed, 5)
    vectors = np.array(list(product(*(range(len(b.indices) + 1) for b in some))))
    ends = exact.site_ends(grid, some, vectors)
    for v in {0, len(vectors) // 2, len(vectors) - 1}:
        one = Deal(grid, some)
        for number, jobs in enumerate(vectors[v].tolist()):
            for s in range(grid.sites):
                if jobs:
                    one.give(number, jobs, s)
        assert ends[v] == pytest.approx(one.ends())


numbers = st.floats(0.0, 100.0)
rows = st.tuples(numbers, st.floats(0.01, 10.0), numbers, st.sampled_from([0.0, 2.0, 17.0]), st.integers(0, 400))


@given(st.lists(rows, min_size=1, max_size=8), st.integers(1, 60), st.sampled_from([1, 5]), st.booleans())
def test_the_last_units_looked_at_one_by_one_end_as_if_narrowed_down(
    sites: list[tuple[float, float, float, float, int]], units: int, unit: int, tailed: bool
) -> None:
    start, rate, least, had, room = (np.array(column, dtype=np.float64) for column in zip(*sites, strict=True))
    none = np.zeros(len(sites))
    lines = Lines(
        start_s=start,
        rate=rate,
        had=had,
        least_s=least,
        tail_start_s=start[::-1] * tailed,
        tail_rate=rate[::-1] if tailed else none + np.inf,
        tail_had=none,
        tail_least_s=none,
        room=room,
        first=none,
    )
    filled = fill(lines, units * unit, unit)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(water_filling, "_few", lambda sites: 0)
        slow = fill(lines, units * unit, unit)
    assert filled.sum() == slow.sum()
    ends = []
    for counts in (filled, slow):
        used = np.flatnonzero(counts)
        with np.errstate(divide="ignore"):
            ends.append(float(lines.ends(counts[used].astype(np.float64), used).max(initial=0.0)))
    assert ends[0] <= ends[1] * (1 + 1e-6) + 1e-6


def test_blocks_of_data_all_over_the_grid_are_joined_where_they_lie_until_few_enough_are_left() -> None:
    """Six files, each at two of four sites: by both sites four places, by the first of them fewer."""
    pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    files = [need(f"d{n}", MB, IndexSet.span(n, n + 1), *pair) for n, pair in enumerate(pairs)]
    asked = demand(6, needs=files)

    def held(most: int) -> list[tuple[int, ...]]:
        return [b.needs for b in by_holders(asked, blocks(asked), most)]

    assert len(held(0)) == len(held(6)) == 6
    assert held(5) == [(0, 1, 2), (3, 4), (5,)]
    assert sorted(n for some in held(1) for n in some) == list(range(6))


def test_a_block_that_reads_from_several_places_lies_where_the_largest_of_them_does() -> None:
    files = [
        need("small", MB, IndexSet.span(0, 4), "a"),
        need("large", 9 * MB, IndexSet.span(0, 2), "b"),
        need("other", 9 * MB, IndexSet.span(2, 4), "c"),
        need("third", 9 * MB, IndexSet.span(1, 2), "b"),
    ]
    asked = demand(4, needs=files)
    found = by_holders(asked, blocks(asked), 1)
    assert [b.indices for b in found] == [IndexSet.span(0, 2), IndexSet.span(2, 4)]


def test_what_all_jobs_of_some_blocks_read_travels_as_one_lot() -> None:
    every = IndexSet.span(0, 4)
    files = [need(f"d{n}", MB, every, "b") for n in range(100)] + [need("own", MB, IndexSet.span(0, 2), "b")]
    asked = demand(4, needs=files)
    some = [site("home", 1, rates={"b": 1.0 * MB}), site("b", 1)]
    deal = Deal(Grid(asked, table_of(asked, some)), blocks(asked))
    assert sorted(deal.cargo.size) == [MB, 100 * MB]
    deal.give(0, 1, 0)
    assert deal.bytes_in.tolist() == [101 * MB, 0.0]


def test_every_piece_of_a_cut_follows_the_one_before() -> None:
    whole = IndexSet((0, 3, 10, 14, 20, 21))
    cut = list(splitting._cut(whole, [2, 3, 3]))
    assert [list(one) for one in cut] == [[0, 1], [2, 10, 11], [12, 13, 20]]


@pytest.mark.wide
def test_thousands_of_files_scattered_over_the_grid_cost_no_more_than_in_proportion() -> None:
    """Each at two sites of many: beyond some hundreds of places they are dealt together."""
    scattered(60, 128, 2)
    few = min(scattered(60, 128, 2) for _ in range(2))
    began = time.thread_time()
    many = scattered(60, 4096, 2)
    assert many < 32 * few
    assert time.thread_time() - began < 30


def block_jobs(some: list[Block]) -> int:
    return sum(len(b.indices) for b in some)


@given(seeds)
def test_joining_blocks_loses_no_job(seed: int) -> None:
    rng = random.Random(seed)
    files = [
        need(f"d{n}", rng.choice([0, MB]), IndexSet.span(n, n + rng.randint(1, 4)), *rng.sample("abcde", 2))
        for n in range(30)
    ]
    asked = demand(40, needs=files)
    for most in (0, 1, 4, 9):
        assert block_jobs(by_holders(asked, blocks(asked), most)) == 40
