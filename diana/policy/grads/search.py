"""The choice of machines for an application (SPEC G4; papers/grads-scheduling.txt, section 4.5): sets of machines are
tried by mapper and model, and the one of the least predicted time is taken. Resource-aware search (figure 1.4),
simulated annealing (figure 1.5), and all sets of few machines as the measure of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import exp, inf
from random import Random
from typing import NamedTuple, Protocol, TypeVar

MOST_SITES = 12
"""Sites whose collections are searched: those with the most computation."""
MOST_EXHAUSTIVE = 12
"""Machines of which all sets are tried."""


MOST_STEPS = 10
"""Times `steps` after which a temperature is left though steps still bring something better."""


class SearchMachine(NamedTuple):
    """A machine that may be chosen."""

    name: str
    site: str
    speed: float
    """Items per second, or any figure that grows with them."""
    memory_bytes: float


class Ranked(Protocol):
    """Whatever the search orders: it has the values of a machine."""

    @property
    def name(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def speed(self) -> float: ...
    @property
    def memory_bytes(self) -> float: ...


Of = TypeVar("Of", bound=Ranked)


class Chosen(NamedTuple):
    """The outcome of a search."""

    machines: tuple[SearchMachine, ...]
    """In the order in which they were tried; empty: no set is a schedule."""
    seconds: float
    """Predicted; infinite: there is none."""
    runner_up: tuple[SearchMachine, ...]
    """The second best set; empty: there was one at most."""
    models: int
    """Sets of which a prediction was made."""


Predict = Callable[[tuple[SearchMachine, ...]], float]
"""Mapper and model of the application: predicted seconds on these machines in this order; infinite: they do not do."""


class _Tried:
    """Predictions made, each order of machines once."""

    def __init__(self, predict: Predict) -> None:
        self._predict = predict
        self._known: dict[tuple[SearchMachine, ...], float] = {}

    def of(self, machines: tuple[SearchMachine, ...]) -> float:
        found = self._known.get(machines)
        if found is None:
            found = self._predict(machines)
            # What is no number is no schedule.
            found = self._known[machines] = found if 0 <= found < inf else inf
        return found

    def chosen(self) -> Chosen:
        """Return the best; ties go to fewer machines, then to their names."""
        order = sorted(
            (seconds, len(some), [one.name for one in some], some)
            for some, seconds in self._known.items()
            if seconds < inf
        )
        if not order:
            return Chosen((), inf, (), len(self._known))
        best = order[0]
        second = next((one[3] for one in order[1:] if set(one[3]) != set(best[3])), ())
        return Chosen(best[3], best[0], second, len(self._known))


def resource_aware(machines: Sequence[SearchMachine], predict: Predict) -> Chosen:
    """Try, of each collection of sites, the first machines by computation, by memory and by both, of each number. With
    p machines at s sites no more than 3 p 2^s predictions are made; those of more than `MOST_SITES` sites are left
    out."""
    tried = _Tried(predict)
    for order in orders(machines, best_sites(machines)):
        for count in range(1, len(order) + 1):
            tried.of(tuple(order[:count]))
    return tried.chosen()


def orders(machines: Sequence[Of], sites: Sequence[str]) -> Iterator[list[Of]]:
    """Yield the machines of each collection of these sites, the best first by computation, by memory and by both."""
    for some in _collections(sites):
        within = [machine for machine in machines if machine.site in some]
        for metric in _metrics(within):
            yield sorted(within, key=lambda machine: (-metric(machine), machine.name))


def bound(machines: int, sites: int) -> int:
    """Return the most predictions that the resource-aware search makes: 3 p 2^s (section 4.5.1)."""
    return int(3 * machines * 2**sites)


def annealed(
    machines: Sequence[SearchMachine],
    predict: Predict,
    rng: Random,
    *,
    least_memory_bytes: Callable[[int], float] = lambda count: 0.0,
    hottest: float = 1.0,
    coldest: float = 0.01,
    cooling: float = 0.85,
    steps: int = 12,
) -> Chosen:
    """Anneal for each number of machines, among those with the memory that each needs then. A step takes one machine
    for another and changes the places of two; a worse set is taken with chance exp(-dE / T), its dE relative to the
    set at hand. T falls by `cooling` once `steps` steps at one T brought nothing better. `rng`: the search is the same
    for the same one."""
    tried = _Tried(predict)
    for count in range(1, len(machines) + 1):
        able = [machine for machine in machines if machine.memory_bytes >= least_memory_bytes(count)]
        if len(able) < count:
            continue
        now = tuple(rng.sample(able, count))
        now_s = tried.of(now)
        heat = hottest
        while heat > coldest:
            still = 0
            for _ in range(MOST_STEPS * steps):
                if still == steps:
                    break
                other = _moved(now, able, rng)
                other_s = tried.of(other)
                still += 1
                if other_s < now_s:
                    now, now_s, still = other, other_s, 0
                elif now_s == inf:
                    # Where nothing is a schedule, any step is as good.
                    now = other
                elif other_s < inf and rng.random() < exp(-(other_s - now_s) / max(now_s, 1e-9) / heat):
                    now, now_s = other, other_s
            heat *= cooling
    return tried.chosen()


def exhaustive(machines: Sequence[SearchMachine], predict: Predict) -> Chosen:
    """Try every set of machines, in the order given. ValueError for more than `MOST_EXHAUSTIVE`."""
    if len(machines) > MOST_EXHAUSTIVE:
        raise ValueError(f"{len(machines)} machines: all sets are tried of {MOST_EXHAUSTIVE} at most")
    tried = _Tried(predict)
    for count in range(1, len(machines) + 1):
        for some in combinations(machines, count):
            tried.of(some)
    return tried.chosen()


def best_sites(machines: Sequence[SearchMachine], most: int = MOST_SITES) -> list[str]:
    """Return the sites with the most computation, by name."""
    speed: dict[str, float] = {}
    for machine in machines:
        speed[machine.site] = speed.get(machine.site, 0.0) + machine.speed
    return sorted(sorted(speed, key=lambda site: (-speed[site], site))[:most])


def _collections(sites: Sequence[str]) -> Iterator[frozenset[str]]:
    for count in range(1, len(sites) + 1):
        yield from map(frozenset, combinations(sites, count))


def _metrics(machines: Sequence[Ranked]) -> tuple[Callable[[Ranked], float], ...]:
    """Return (computation, memory, both): both is the product of the two against the best of the collection."""
    most = max((machine.memory_bytes for machine in machines), default=0.0) or 1.0
    fastest = max((machine.speed for machine in machines), default=0.0) or 1.0

    def speed(machine: Ranked) -> float:
        return machine.speed

    def memory(machine: Ranked) -> float:
        return machine.memory_bytes

    def dual(machine: Ranked) -> float:
        return machine.speed / fastest * machine.memory_bytes / most

    return speed, memory, dual


def _moved(now: tuple[SearchMachine, ...], able: Sequence[SearchMachine], rng: Random) -> tuple[SearchMachine, ...]:
    """Take one machine out and another in, and let two change places."""
    some = list(now)
    others = [machine for machine in able if machine not in now]
    if others:
        some[rng.randrange(len(some))] = others[rng.randrange(len(others))]
    if len(some) > 1:
        first, second = rng.sample(range(len(some)), 2)
        some[first], some[second] = some[second], some[first]
    return tuple(some)
