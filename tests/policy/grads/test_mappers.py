"""Maps of an application's data: equal shares, shares that end at one time, databases that lie at some machines alone;
memory is kept, and the order of sites spares long round trips (GrADS, section 4.4)."""

from __future__ import annotations

import random
from itertools import permutations, product
from math import inf

import pytest

from diana.policy.grads.mappers import (
    DatabaseMap,
    DataMap,
    HeldDatabase,
    Unmapped,
    WorkMachine,
    chain_s,
    data_locality,
    equal,
    in_order,
    time_balance,
)


def machines(*item_s: float, room: float = inf) -> list[WorkMachine]:
    return [WorkMachine(f"m{at}", "s", one, 0.0, room) for at, one in enumerate(item_s)]


def drawn(rng: random.Random, count: int, *, tight: bool = False) -> list[WorkMachine]:
    return [
        WorkMachine(
            f"m{at}",
            f"s{at % 3}",
            rng.uniform(0.5, 5.0),
            rng.choice([0.0, 0.0, rng.uniform(0.0, 8.0)]),
            float(rng.randint(1, 8)) if tight else inf,
        )
        for at in range(count)
    ]


def slowest_s(items: tuple[int, ...], some: list[WorkMachine]) -> float:
    return max((m.start_s + m.item_s * got for got, m in zip(items, some, strict=True) if got), default=0.0)


def test_equal_shares_differ_by_one_item_at_most() -> None:
    found = equal(10, machines(1.0, 2.0, 3.0))
    assert found == DataMap((4, 3, 3), 9.0)


def test_equal_shares_beyond_a_machines_memory_are_told_with_what_is_missing() -> None:
    found = equal(10, [*machines(1.0, 1.0), WorkMachine("small", "s", 1.0, 0.0, 2.0)])
    assert found == Unmapped("small has memory for 2 of 3 items, 1 too few")


def test_time_balance_gives_work_by_speed_and_beats_equal_shares_where_speeds_differ() -> None:
    some = machines(1.0, 2.0, 4.0)
    balanced, even = time_balance(70, some), equal(70, some)
    assert balanced == DataMap((40, 20, 10), 40.0)
    assert isinstance(even, DataMap) and isinstance(balanced, DataMap) and balanced.seconds < even.seconds / 2
    assert time_balance(9, machines(1.0, 1.0, 1.0)) == equal(9, machines(1.0, 1.0, 1.0))


def test_a_machine_that_starts_too_late_gets_nothing() -> None:
    some = [WorkMachine("now", "s", 1.0), WorkMachine("late", "s", 1.0, 100.0)]
    assert time_balance(10, some) == DataMap((10, 0), 10.0)


def test_rounding_to_whole_items_goes_beyond_no_memory() -> None:
    some = [WorkMachine("small", "s", 1.0, 0.0, 2.5), WorkMachine("large", "s", 1.0)]
    assert time_balance(5, some) == DataMap((2, 3), 3.0)


def test_memory_is_kept_and_what_is_missing_is_told() -> None:
    some = [WorkMachine("fast", "s", 1.0, 0.0, 5.0), WorkMachine("slow", "s", 10.0)]
    assert time_balance(8, some) == DataMap((5, 3), 30.0)
    small = machines(1.0, 1.0, room=3.0)
    assert time_balance(8, small) == Unmapped("m0, m1 have memory for 6 of 8 items, 2 too few")


@pytest.mark.parametrize("seed", range(40))
def test_no_map_of_whole_items_ends_much_before_the_balanced_one(seed: int) -> None:
    """Against all maps of few items: at most one item of the slowest machine worse, which rounding costs."""
    rng = random.Random(seed)
    some, items = drawn(rng, 3, tight=True), rng.randint(1, 9)
    every = [
        shares
        for shares in product(range(items + 1), repeat=3)
        if sum(shares) == items and all(got <= m.room for got, m in zip(shares, some, strict=True))
    ]
    found = time_balance(items, some)
    if not every:
        assert isinstance(found, Unmapped)
        return
    assert isinstance(found, DataMap) and sum(found.items) == items
    assert all(got <= m.room for got, m in zip(found.items, some, strict=True))
    best = min(slowest_s(shares, some) for shares in every)
    assert found.seconds == slowest_s(found.items, some)
    assert best - 1e-9 <= found.seconds <= best + max(m.item_s for m in some) + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_many_items_are_balanced_to_the_optimum(seed: int) -> None:
    rng = random.Random(seed)
    some, items = drawn(rng, 20), 100_000
    found = time_balance(items, some)
    assert isinstance(found, DataMap)
    used = [m.start_s + m.item_s * got for got, m in zip(found.items, some, strict=True) if got]
    assert max(used) - min(used) <= 2 * max(m.item_s for m in some)


# --- databases -----------------------------------------------------------------------------------------------


def test_every_database_is_searched_whole_and_only_where_it_is() -> None:
    some = machines(1.0, 1.0, 1.0)
    databases = [HeldDatabase("a", 30, frozenset({"m0", "m1", "m2"})), HeldDatabase("b", 30, frozenset({"m2"}))]
    found = data_locality(databases, some)
    assert isinstance(found, DatabaseMap) and found.seconds == 30.0
    assert found.items[1] == (0, 0, 30) and found.items[0][2] == 0 and sum(found.items[0]) == 30


def test_a_database_at_several_machines_is_divided_so_that_they_end_together() -> None:
    found = data_locality([HeldDatabase("a", 900, frozenset({"m0", "m1"}))], machines(1.0, 2.0, 1.0))
    assert found == DatabaseMap(((600, 300, 0),), 600.0)


def test_a_database_at_one_slow_machine_is_searched_there_regardless() -> None:
    some = machines(1.0, 100.0)
    found = data_locality(
        [HeldDatabase("a", 10, frozenset({"m1"})), HeldDatabase("b", 10, frozenset({"m0", "m1"}))], some
    )
    assert found == DatabaseMap(((0, 10), (10, 0)), 1000.0)


def test_a_database_that_no_machine_has_and_one_that_does_not_fit_are_told() -> None:
    some = machines(1.0, 1.0, room=5.0)
    assert data_locality([HeldDatabase("a", 3, frozenset({"elsewhere"}))], some) == Unmapped(
        "no machine has database a; it is at elsewhere"
    )
    assert data_locality([HeldDatabase("a", 12, frozenset({"m0", "m1"}))], some) == Unmapped(
        "the machines have memory for 10 of 12 items, 2 too few"
    )
    assert data_locality([HeldDatabase("a", 6, frozenset({"m0"}))], some) == Unmapped(
        "the machines that hold the databases have too little memory for them"
    )


@pytest.mark.parametrize("seed", range(25))
def test_few_items_of_databases_are_divided_nearly_as_the_best_of_all_maps(seed: int) -> None:
    rng = random.Random(seed)
    some = [machine._replace(start_s=0.0) for machine in drawn(rng, 3)]
    databases = [
        HeldDatabase(f"d{n}", rng.randint(1, 4), frozenset(rng.sample([m.name for m in some], rng.randint(1, 3))))
        for n in range(2)
    ]

    def ways(one: HeldDatabase) -> list[tuple[int, ...]]:
        return [
            shares
            for shares in product(range(one.items + 1), repeat=3)
            if sum(shares) == one.items
            and all(not got or m.name in one.holders for got, m in zip(shares, some, strict=True))
        ]

    best = min(slowest_s(tuple(map(sum, zip(*rows, strict=True))), some) for rows in product(*map(ways, databases)))
    found = data_locality(databases, some)
    assert isinstance(found, DatabaseMap)
    for one, row in zip(databases, found.items, strict=True):
        assert sum(row) == one.items
        assert all(not got or m.name in one.holders for got, m in zip(row, some, strict=True))
    slack = len(databases) * max(m.item_s for m in some)
    assert best - 1e-9 <= found.seconds <= best + slack + 1e-9


# --- order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_machines_of_a_site_are_neighbours_and_the_chain_of_sites_is_the_shortest(seed: int) -> None:
    rng = random.Random(seed)
    sites = ["a", "b", "c", "d", "e"]
    rtt_s = {(one, other): rng.uniform(0.001, 0.2) for one in sites for other in sites if one < other}
    some = [WorkMachine(f"m{at}", rng.choice(sites), 1.0) for at in range(12)]
    order = [some[at].site for at in in_order(some, rtt_s)]
    blocks = [site for at, site in enumerate(order) if not at or order[at - 1] != site]
    assert len(blocks) == len(set(order))
    assert chain_s(blocks, rtt_s) == pytest.approx(min(chain_s(p, rtt_s) for p in permutations(sorted(set(order)))))


def test_of_many_sites_the_chain_goes_on_to_the_nearest() -> None:
    sites = [f"{'hbkdaljcgief'[n]}{n:02}" for n in range(12)]
    rtt_s = {(a, b): abs(int(a[1:]) - int(b[1:])) * 0.01 for a in sites for b in sites if a < b}
    some = [WorkMachine(site, site, 1.0) for site in reversed(sites)]
    order = [some[at].site for at in in_order(some, rtt_s)]
    assert order in (sites, sites[::-1])
