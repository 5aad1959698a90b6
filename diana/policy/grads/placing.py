"""The placement of a gang by the predicted time of its run (`gang_placement = "grads"`, SPEC G4): the resource-aware
search of papers/grads-scheduling.txt, figure 1.4, over kinds of machines, and annealing (figure 1.5) where its job file
asks for it. A collection of sites and a metric give an order of machines; the gang takes the first of them that hold
it, where the paper tries every number of machines. In the end ranks are given out so that neighbours are near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf
from random import Random
from typing import NamedTuple, cast

from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    NearestReplicas,
    PlacedComponent,
    Rooms,
    TransferTime,
    Unplaced,
    in_order,
)
from diana.policy.grads.gang_model import BlockPart, GangModel, GangPrediction, MachineBlock
from diana.policy.grads.mappers import WorkMachine
from diana.policy.grads.mappers import in_order as machines_in_order
from diana.policy.grads.search import MOST_STEPS, Predict, SearchMachine, annealed, bound, orders

MOST_SITES = 10
"""Sites whose collections are searched: those with the most computation that is idle. It bounds what one gang costs the
engine."""
MOST_BLOCKS = 64
"""Kinds of machines at these sites that are looked at."""
MOST_ANNEALED = 12
"""Kinds of machines that annealing chooses among: those with the most computation that is idle."""
COOLING, STEPS = 0.6, 6
"""Annealing of the engine: short, since nothing else is decided meanwhile."""
TEMPERATURES = 10
"""Temperatures between 1 and 0.01."""


UNTOLD = " not told"
"""End of the line on a value that is not known."""


class RunnerUp(NamedTuple):
    """The best placement at other sites, or with other sizes."""

    seconds: float
    """Infinite: there was none."""
    sites: tuple[str, ...] = ()


class GangChoice(NamedTuple):
    """The outcome of a search."""

    placement: GangPlacement | Unplaced
    prediction: GangPrediction
    runner_up: RunnerUp = RunnerUp(inf)
    models: int = 0
    """Placements of which a prediction was made."""
    most_models: int = 0
    """3 p 2^s: the paper's bound on them."""
    kinds: int = 0
    """p: kinds of machines with room, at the sites searched."""
    sites: int = 0
    """s."""

    @property
    def untold(self) -> bool:
        """True if there is no place for want of a value that nobody has told yet."""
        return isinstance(self.placement, Unplaced) and self.placement.reason.endswith(UNTOLD)


Lacks = Callable[[GangPlacement], str]
"""Say of a placement in a line, after those before it, why none meets what is required of all sites together and of the
links between them; empty: this one does."""


def place(
    request: GangRequest,
    rooms: Rooms,
    blocks: Sequence[MachineBlock],
    model: GangModel,
    time: TransferTime,
    lacks: Lacks = lambda placement: "",
    anneal: str = "",
) -> GangChoice:
    """Place the gang where its model foretells the first end, its files being there at first; ties go to fewer sites,
    then to their names. `blocks`: kinds of machines, those of no room left out. `anneal`: seed of an annealing search
    beside the resource-aware one; empty: there is none."""
    sites = _best_sites(blocks)
    within = [block for block in blocks if block.site in sites][:MOST_BLOCKS]
    replicas = NearestReplicas(time)
    tried: dict[tuple[BlockPart, ...], GangPrediction] = {}
    found: list[tuple[float, int, tuple[str, ...], tuple[BlockPart, ...], GangPlacement]] = []
    ends: dict[tuple[BlockPart, ...], float] = {}
    why = unmet = untold = ""

    def end_s(order: Sequence[MachineBlock], room: Rooms = rooms) -> float:
        """Return the seconds until the end of the gang on the first of these machines that hold it."""
        nonlocal why, unmet, untold
        parts = _filled(request, order, room)
        if isinstance(parts, Unplaced):
            return inf
        if parts in ends:
            return ends[parts]
        predicted = tried[parts] = model.predict(parts)
        placement = _placement(request, parts, replicas)
        ends[parts] = inf
        if predicted.seconds == inf:
            why = why or f"its model gives no time: {predicted.why}"
            if predicted.why.endswith(UNTOLD):
                untold = untold or f"its model gives no time: {predicted.why}"
        elif lacking := lacks(placement):
            unmet = lacking
        else:
            ends[parts] = placement.transfer_s + predicted.seconds
            found.append((ends[parts], len(placement.sites), placement.sites, parts, placement))
        return ends[parts]

    for order in orders(within, sites):
        end_s(order)
    most = bound(len(within), len(sites))
    if unmet and not found:
        # The sites that its first machines fill do not do together; all sites of a collection may.
        for order in orders(within, sites):
            end_s(order, rooms.only(block.site for block in order).shared_out(request))
        most *= 2
    if anneal:
        some = sorted(within, key=lambda block: (-block.speed * block.idle, block.name))[:MOST_ANNEALED]
        machines, predict = cast("list[SearchMachine]", some), cast("Predict", end_s)
        annealed(machines, predict, Random(anneal), cooling=COOLING, steps=STEPS)
        most += len(some) * TEMPERATURES * MOST_STEPS * STEPS
    told = (len(tried), most, len(within), len(sites))
    if not found:
        why = untold or unmet or why
        answer = _filled(request, within, rooms)
        refused = answer if isinstance(answer, Unplaced) else Unplaced(why or "no set of sites with room was found")
        return GangChoice(refused, GangPrediction(inf, (), (), why), RunnerUp(inf), *told)
    found.sort(key=lambda each: each[:3])
    best = found[0]
    others = (each for each in found[1:] if _shape(each[3]) != _shape(best[3]))
    second = next((RunnerUp(each[0], each[2]) for each in others), RunnerUp(inf))
    parts = _near(request, best[3], model)
    if parts == best[3]:
        return GangChoice(best[4], tried[parts], second, *told)
    return GangChoice(_placement(request, parts, replicas), model.predict(parts), second, *told)


def _near(request: GangRequest, parts: tuple[BlockPart, ...], model: GangModel) -> tuple[BlockPart, ...]:
    """Give the same machines to other components that are alike, so that those of a site have ranks in a row and the
    sites follow each other by the shortest round trips (section 4.4.2): neighbours exchange borders."""
    sites = sorted({part.block.site for part in parts})
    if len(sites) < 2:
        return parts
    rtt_s = {(one, other): model.rtt_s(one, other) for one, other in combinations(sites, 2)}
    order = machines_in_order([WorkMachine(part.block.name, part.block.site, 1.0) for part in parts], rtt_s)
    kinds: dict[object, list[BlockPart]] = {}
    for at in order:
        part = parts[at]
        kind = part.processors if isinstance(request, FlexibleRequest) else request[part.component]
        kinds.setdefault(kind, []).append(part)
    out = []
    for alike in kinds.values():
        names = sorted(part.component for part in alike)
        out += [part._replace(component=name) for name, part in zip(names, alike, strict=True)]
    return tuple(sorted(out))


def _best_sites(blocks: Sequence[MachineBlock]) -> list[str]:
    power: dict[str, float] = {}
    for block in blocks:
        power[block.site] = power.get(block.site, 0.0) + block.speed * block.idle
    return sorted(sorted(power, key=lambda site: (-power[site], site))[:MOST_SITES])


def _shape(parts: tuple[BlockPart, ...]) -> list[tuple[str, int]]:
    return sorted((part.block.site, part.processors) for part in parts)


def _filled(request: GangRequest, order: Sequence[MachineBlock], rooms: Rooms) -> tuple[BlockPart, ...] | Unplaced:
    """Let each component have the first machines in this order that hold it."""
    if isinstance(request, FlexibleRequest):
        if not request.splits:
            return _cut(request, order, rooms)
        for split in request.splits:
            found = _filled([Component(size, amounts=request.amounts) for size in split], order, rooms)
            if not isinstance(found, Unplaced):
                return found
        return Unplaced("none of the splits finds a place")
    left, mine = {block: block.idle for block in order}, rooms.copy()
    parts: list[BlockPart] = []
    for index, component in in_order(request):
        size = component.processors
        block = next(
            (one for one in order if left[one] >= size <= one.wide and mine.fits(one.site, component)),
            None,
        )
        if block is None:
            return mine.none_for(index, component)
        left[block] -= size
        mine.take(block.site, component)
        parts.append(BlockPart(index, size, block))
    return tuple(sorted(parts))


def _cut(request: FlexibleRequest, order: Sequence[MachineBlock], rooms: Rooms) -> tuple[BlockPart, ...] | Unplaced:
    """Cut a flexible request to the machines in this order: each gives as much as it has, and leaves no rest below the
    request's minimum."""
    parts: list[BlockPart] = []
    mine, wanted, most = rooms.copy(), request.processors, request.most_components or inf
    for block in order:
        idle = min(block.idle, mine.left(block.site))
        while wanted and len(parts) < most:
            size = min(idle, block.wide, wanted)
            if 0 < wanted - size < request.minimum:
                size = wanted - request.minimum
            if size < request.minimum or not mine.has(block.site, request.amounts):
                break
            parts.append(BlockPart(len(parts), size, block))
            mine.take(block.site, Component(size, amounts=request.amounts))
            idle, wanted = idle - size, wanted - size
    if wanted:
        have = request.processors - wanted
        whole = rooms.largest(len(rooms.names()), request.minimum, request.amounts)
        return Unplaced(
            f"{request.processors} processors are wanted; the sites together have {have} idle and {whole} in all"
            f"{', by their gang_quota' if rooms.is_bound(never=whole < request.processors) else ''}",
            never=whole < request.processors,
        )
    return tuple(parts)


def _placement(request: GangRequest, parts: Sequence[BlockPart], replicas: NearestReplicas) -> GangPlacement:
    placed = []
    for part in parts:
        number = part.component
        needed = request.read_by(number) if isinstance(request, FlexibleRequest) else request[number].files
        files = replicas.nearest(needed, part.block.site)
        placed.append(PlacedComponent(part.component, part.processors, part.block.site, files))
    return GangPlacement(tuple(placed))
