"""The choice of machines: resource-aware search against all sets for Jacobi- and Life-like programs, annealing where
affinities mislead, as for FASTA; and the number of models that each evaluates (GrADS, section 4.5)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from math import inf, nan

import pytest

from diana.policy.grads.mappers import (
    DataMap,
    HeldDatabase,
    Unmapped,
    WorkMachine,
    data_locality,
    in_order,
    time_balance,
)
from diana.policy.grads.search import Predict, SearchMachine, annealed, exhaustive, resource_aware

SITES = ("utk", "ucsd", "uiuc")
ITEMS = 10_000
MEMORY_OF_ITEM = 1e6


class Counted:
    """A prediction that counts how often it is asked."""

    def __init__(self, predict: Predict) -> None:
        self.predict, self.asked = predict, 0

    def __call__(self, machines: tuple[SearchMachine, ...]) -> float:
        self.asked += 1
        return self.predict(machines)


def grid(seed: int, machines: int = 10, sites: Sequence[str] = SITES) -> list[SearchMachine]:
    rng = random.Random(seed)
    return [
        SearchMachine(f"m{at:02}", sites[at % len(sites)], rng.uniform(100.0, 1000.0), rng.uniform(1e9, 2e10))
        for at in range(machines)
    ]


def far_s(one: str, other: str) -> float:
    return 0.0002 if one == other else 0.02 + 0.01 * abs(SITES.index(one) - SITES.index(other))


def _map(machines: tuple[SearchMachine, ...]) -> DataMap | Unmapped:
    work = [WorkMachine(m.name, m.site, 1.0 / m.speed, 0.0, m.memory_bytes / MEMORY_OF_ITEM) for m in machines]
    return time_balance(ITEMS, work)


def jacobi(machines: tuple[SearchMachine, ...]) -> float:
    """Each iteration: the machines compute in balance, then each tells all others."""
    found = _map(machines)
    if isinstance(found, Unmapped):
        return inf
    told = max((far_s(a.site, b.site) for a, b in combinations(machines, 2)), default=0.0)
    return found.seconds + 0.05 * len(machines) + 10 * told


def life(machines: tuple[SearchMachine, ...]) -> float:
    """Each iteration: strips in balance, then neighbours exchange borders; the mapper orders them."""
    found = _map(machines)
    if isinstance(found, Unmapped):
        return inf
    rtt_s = {(a, b): far_s(a, b) for a in SITES for b in SITES}
    order = in_order([WorkMachine(m.name, m.site, 1.0) for m in machines], rtt_s)
    chain = [machines[at].site for at in order]
    return found.seconds + 20 * max((far_s(a, b) for a, b in pairwise(chain)), default=0.0)


def fasta(seed: int, machines: Sequence[SearchMachine]) -> Predict:
    """Databases at few machines, chosen without regard to their speed or memory; each machine used costs a start."""
    rng = random.Random(f"fasta {seed}")
    names = [machine.name for machine in machines]
    databases = [HeldDatabase(f"d{n}", rng.randint(500, 4000), frozenset(rng.sample(names, 2))) for n in range(4)]

    @cache
    def of_set(some: frozenset[SearchMachine]) -> float:
        found = data_locality(databases, [WorkMachine(m.name, m.site, 1.0 / m.speed) for m in sorted(some)])
        return inf if isinstance(found, Unmapped) else found.seconds + 1.5 * len(some)

    return lambda some: of_set(frozenset(some))


@pytest.mark.parametrize("program", [jacobi, life])
@pytest.mark.parametrize("seed", range(8))
def test_resource_aware_search_is_within_a_tenth_of_all_sets(program: Predict, seed: int) -> None:
    machines = grid(seed)
    counted = Counted(program)
    found, best = resource_aware(machines, counted), exhaustive(machines, program)
    assert found.seconds <= 1.1 * best.seconds
    assert found.models == counted.asked <= 3 * len(machines) * 2 ** len(SITES)
    assert best.models == 2 ** len(machines) - 1
    assert found.seconds == program(found.machines)


@pytest.mark.parametrize(("machines", "sites"), [(1, 1), (7, 1), (30, 4), (60, 6)])
def test_models_stay_below_the_papers_bound(machines: int, sites: int) -> None:
    names = [f"s{n}" for n in range(sites)]
    found = resource_aware(grid(3, machines, names), lambda some: 1.0 / sum(m.speed for m in some))
    assert 0 < found.models <= 3 * machines * 2**sites


def test_sites_beyond_the_short_list_are_left_out_and_not_searched() -> None:
    names = [f"s{n:02}" for n in range(15)]
    found = resource_aware(grid(5, 15, names), lambda some: 1.0 / sum(m.speed for m in some))
    assert found.models <= 3 * 15 * 2**12
    slowest = sorted(grid(5, 15, names), key=lambda machine: machine.speed)[:3]
    assert not set(slowest) & set(found.machines)


def test_annealing_finds_better_machines_where_affinities_mislead() -> None:
    """FASTA does not want the fastest machines but those with its databases: over six grids annealing is never worse,
    better in most, and close to the best of all sets."""
    better = 0
    for seed in range(6):
        machines = grid(seed, 7)
        predict = fasta(seed, machines)
        aware, cooled = resource_aware(machines, predict), annealed(machines, predict, random.Random(seed))
        best = exhaustive(machines, predict)
        assert cooled.seconds <= aware.seconds + 1e-9
        assert cooled.seconds <= 1.1 * best.seconds
        better += cooled.seconds < aware.seconds - 1e-9
    assert better >= 4


def test_machines_are_tried_by_computation_by_memory_and_by_both() -> None:
    fast, large, both = (
        SearchMachine("a", "x", 9.0, 1.0),
        SearchMachine("b", "x", 1.0, 9.0),
        SearchMachine("c", "x", 6.0, 6.0),
    )
    for wanted in (fast, large, both):
        found = resource_aware([fast, large, both], lambda some, one=wanted: 1.0 if some == (one,) else 9.0)  # type: ignore[misc]
        assert found.machines == (wanted,)


def test_annealing_leaves_a_local_minimum() -> None:
    """All steps towards the three best machines are worse but the last."""
    machines, best = grid(8, 8), {"m00", "m03", "m06"}

    def predict(some: tuple[SearchMachine, ...]) -> float:
        among = len(best & {machine.name for machine in some})
        if len(some) != 3:
            return 20.0
        return 1.0 if among == 3 else 10.0 + among

    found = [annealed(machines, predict, random.Random(seed)) for seed in range(6)]
    assert [one.seconds for one in found] == [1.0] * 6


def test_the_same_chance_gives_the_same_search() -> None:
    machines = grid(1, 5)
    first, again = (annealed(machines, life, random.Random("alpha-7")) for _ in range(2))
    assert first == again


def test_annealing_leaves_out_machines_with_too_little_memory_for_so_few() -> None:
    machines = grid(2, 6)

    def least(count: int) -> float:
        return ITEMS * MEMORY_OF_ITEM / count

    seen: list[tuple[SearchMachine, ...]] = []

    def predict(some: tuple[SearchMachine, ...]) -> float:
        seen.append(some)
        return life(some)

    found = annealed(machines, predict, random.Random(0), least_memory_bytes=least)
    assert seen and all(machine.memory_bytes >= least(len(some)) for some in seen for machine in some)
    assert found.machines and {len(some) for some in seen} >= {6}


def test_what_is_no_schedule_or_no_number_is_never_chosen() -> None:
    machines = grid(4, 4)

    def predict(some: tuple[SearchMachine, ...]) -> float:
        return {1: nan, 2: -5.0, 3: inf}.get(len(some), 7.0)

    for found in (
        resource_aware(machines, predict),
        annealed(machines, predict, random.Random(1)),
        exhaustive(machines, predict),
    ):
        assert (len(found.machines), found.seconds, found.runner_up) == (4, 7.0, ())
    nothing = resource_aware(machines, lambda some: nan)
    assert (nothing.machines, nothing.seconds) == ((), inf)


def test_the_second_best_set_is_told() -> None:
    machines = grid(6, 4)
    found = exhaustive(machines, life)
    others = [life(some) for n in range(1, 5) for some in combinations(machines, n) if some != found.machines]
    assert life(found.runner_up) == min(others)


def test_all_sets_are_tried_of_few_machines_only() -> None:
    with pytest.raises(ValueError, match="13 machines: all sets are tried of 12 at most"):
        exhaustive(grid(0, 13), life)
