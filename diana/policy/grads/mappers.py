"""Maps: how many items of an application's data each of its machines gets, and in which order the machines stand (SPEC
G3; papers/grads-scheduling.txt, section 4.4). Equal shares, shares that end at one time, and shares of databases that
lie at some machines alone; each within the memory of the machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import floor, inf
from typing import NamedTuple

from diana.model.arrays import np

EXACT_SITES = 8
"""Up to so many sites the cheapest chain is found; beyond, one that goes on to the nearest site each time."""
_ROUNDING = 1e-9


class WorkMachine(NamedTuple):
    """A machine as a mapper sees it."""

    name: str
    site: str
    item_s: float
    """Seconds per item."""
    start_s: float = 0.0
    """Seconds that it takes beside, if it has any item."""
    room: float = inf
    """Most items that its memory holds."""


class DataMap(NamedTuple):
    items: tuple[int, ...]
    """Items of each machine, in the order of the machines."""
    seconds: float
    """Time of the slowest of those that have any."""


class DatabaseMap(NamedTuple):
    items: tuple[tuple[int, ...], ...]
    """Items of each database at each machine."""
    seconds: float


class Unmapped(NamedTuple):
    """There is no such map."""

    why: str


class HeldDatabase(NamedTuple):
    name: str
    items: int
    holders: frozenset[str]
    """Machines that have it, by name; it is searched nowhere else."""


def equal(items: int, machines: Sequence[WorkMachine]) -> DataMap | Unmapped:
    """Divide evenly in the order given: the default (section 4.4.1). The first machines get one item more where it does
    not come out even."""
    share, more = divmod(items, len(machines))
    given = tuple(share + (at < more) for at in range(len(machines)))
    for machine, got in zip(machines, given, strict=True):
        if got > machine.room:
            lacks = got - floor(machine.room)
            return Unmapped(
                f"{machine.name} has memory for {floor(machine.room):,} of {got:,} items, {lacks:,} too few"
            )
    return _mapped(given, machines)


def time_balance(items: int, machines: Sequence[WorkMachine]) -> DataMap | Unmapped:
    """Divide so that all machines with items end at one time as far as their memory lets them (section 4.4.2): the
    least T with start + item * w <= T, sum of w = items, 0 <= w <= room. One variable is left, T, and the items done by
    T rise along lines, so that it is found without a solver."""
    room = sum(machine.room for machine in machines)
    if room < items:
        full = ", ".join(machine.name for machine in machines[:8])
        return Unmapped(f"{full} have memory for {floor(room):,} of {items:,} items, {items - floor(room):,} too few")
    item_s, start_s, most = (
        np.array([getattr(machine, key) for machine in machines]) for key in ("item_s", "start_s", "room")
    )
    ends = start_s + item_s * np.minimum(most, items)
    corners = np.unique(np.concatenate([start_s, ends]))

    def done(at_s: float) -> float:
        return float(np.clip((at_s - start_s) / item_s, 0.0, most).sum())

    low, high = 0, len(corners) - 1
    while low < high:
        middle = (low + high) // 2
        if done(corners[middle]) >= items:
            high = middle
        else:
            low = middle + 1
    after, before = float(corners[high]), float(corners[high - 1]) if high else 0.0
    had, has = done(before), done(after)
    at_s = after if has <= had else before + (after - before) * (items - had) / (has - had)
    return _mapped(_whole(items, np.clip((at_s - start_s) / item_s, 0.0, most), most), machines)


def data_locality(databases: Sequence[HeldDatabase], machines: Sequence[WorkMachine]) -> DatabaseMap | Unmapped:
    """Divide databases over the machines that hold them so that the last one ends first, each database searched as a
    whole (section 4.4.3): a linear programme, then rounded to items. A machine that has a database counts its `start_s`
    also if it gets none of it."""
    held = {machine.name: at for at, machine in enumerate(machines)}
    places = [(d, held[name]) for d, one in enumerate(databases) for name in sorted(one.holders & held.keys())]
    for d, one in enumerate(databases):
        if one.items and not any(at == d for at, _ in places):
            return Unmapped(f"no machine has database {one.name}; it is at {', '.join(sorted(one.holders)) or 'none'}")
    room = sum(machine.room for machine in machines)
    if room < (total := sum(one.items for one in databases)):
        return Unmapped(
            f"the machines have memory for {floor(room):,} of {total:,} items, {total - floor(room):,} too few"
        )
    shares = _solved(databases, machines, places)
    if shares is None:
        return Unmapped("the machines that hold the databases have too little memory for them")
    items = [[0] * len(machines) for _ in databases]
    left = [machine.room for machine in machines]
    for d, one in enumerate(databases):
        columns = [k for k, (at, _) in enumerate(places) if at == d]
        own = np.array([shares[k] for k in columns])
        bound = np.array([left[places[k][1]] for k in columns])
        for k, got in zip(columns, _whole(one.items, own, bound), strict=True):
            at = places[k][1]
            items[d][at] = got
            left[at] -= got
    loads = [sum(row[at] for row in items) for at in range(len(machines))]
    return DatabaseMap(tuple(map(tuple, items)), _mapped(loads, machines).seconds)


def in_order(machines: Sequence[WorkMachine], rtt_s: Mapping[tuple[str, str], float]) -> tuple[int, ...]:
    """Return the places of the machines so that those of a site are neighbours and the chain of sites has the shortest
    round trips together (section 4.4.2): neighbours exchange borders. Pairs that are not named are far apart."""
    sites = sorted({machine.site for machine in machines})

    def far_s(one: str, other: str) -> float:
        return rtt_s.get((one, other), rtt_s.get((other, one), 1e3))

    chain = _exact_chain(sites, far_s) if len(sites) <= EXACT_SITES else _near_chain(sites, far_s)
    place = {site: at for at, site in enumerate(chain)}
    return tuple(sorted(range(len(machines)), key=lambda at: (place[machines[at].site], at)))


def chain_s(sites: Sequence[str], rtt_s: Mapping[tuple[str, str], float]) -> float:
    """Return the round trips of a chain of sites, added up."""
    return sum(rtt_s.get(pair, rtt_s.get(pair[::-1], 1e3)) for pair in pairwise(sites))


def _exact_chain(sites: Sequence[str], far_s: Callable[[str, str], float]) -> tuple[str, ...]:
    """Find the cheapest path through all sites by what each subset costs at best (Held and Karp, 1962)."""
    best: dict[tuple[frozenset[str], str], tuple[float, tuple[str, ...]]] = {
        (frozenset([site]), site): (0.0, (site,)) for site in sites
    }
    for _ in range(len(sites) - 1):
        grown: dict[tuple[frozenset[str], str], tuple[float, tuple[str, ...]]] = {}
        for (seen, last), (cost, path) in best.items():
            for site in sites:
                if site in seen:
                    continue
                key, found = (seen | {site}, site), (cost + far_s(last, site), (*path, site))
                if key not in grown or found < grown[key]:
                    grown[key] = found
        best = grown
    return min(best.values())[1]


def _near_chain(sites: Sequence[str], far_s: Callable[[str, str], float]) -> tuple[str, ...]:
    def from_(first: str) -> tuple[float, tuple[str, ...]]:
        path, cost = [first], 0.0
        while len(path) < len(sites):
            step, site = min((far_s(path[-1], one), one) for one in sites if one not in path)
            path.append(site)
            cost += step
        return cost, tuple(path)

    return min(map(from_, sites))[1]


def _mapped(items: Sequence[int], machines: Sequence[WorkMachine]) -> DataMap:
    used = [m.start_s + m.item_s * got for got, m in zip(items, machines, strict=True) if got]
    return DataMap(tuple(items), max(used, default=0.0))


def _whole(items: int, shares: np.ndarray, room: np.ndarray) -> tuple[int, ...]:
    """Round shares to whole items by the largest remainders, none beyond the room."""
    given = np.floor(shares + _ROUNDING).astype(int)
    left = items - int(given.sum())
    order = sorted(range(len(shares)), key=lambda at: (given[at] - shares[at], at))
    while left > 0:
        free = [at for at in order if given[at] + 1 <= room[at]]
        if not free:
            break
        for at in free[:left]:
            given[at] += 1
            left -= 1
    return tuple(int(one) for one in given)


def _solved(
    databases: Sequence[HeldDatabase], machines: Sequence[WorkMachine], places: Sequence[tuple[int, int]]
) -> list[float] | None:
    """Solve the programme: least T over the shares of each place. None: it cannot be kept."""
    import highspy

    model = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    time = len(places)
    model.addVars(time + 1, np.zeros(time + 1), np.full(time + 1, highspy.kHighsInf))
    model.changeColCost(time, 1.0)
    for d, one in enumerate(databases):
        columns = [k for k, (at, _) in enumerate(places) if at == d]
        model.addRow(one.items, one.items, len(columns), np.array(columns, dtype=np.int32), np.ones(len(columns)))
    for at, machine in enumerate(machines):
        columns = [k for k, (_, there) in enumerate(places) if there == at]
        if not columns:
            continue
        ends = np.array([*(machine.item_s for _ in columns), -1.0])
        index = np.array([*columns, time], dtype=np.int32)
        model.addRow(-highspy.kHighsInf, -machine.start_s, len(index), index, ends)
        if machine.room < inf:
            model.addRow(0.0, machine.room, len(columns), index[:-1], np.ones(len(columns)))
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return [float(value) for value in model.getSolution().col_value[:time]]
