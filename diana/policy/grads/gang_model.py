"""The predicted run of a gang on the machines of some sites, and the division of its data among its components (SPEC
G2, G3; papers/grads-scheduling.txt, sections 4.3.2 and 4.4). The group's model speaks of one component with its share
of the data; the gang runs as long as its slowest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from diana.model.ids import SiteId
from diana.model.job.spec import GroupSpec
from diana.policy.grads.mappers import DataMap, Unmapped, WorkMachine, time_balance
from diana.policy.grads.models import HOME, MOST_S, EquationModel, model_values
from diana.policy.requirements.expressions import Untold, read
from diana.policy.requirements.names import Value

MOST_ITEMS = 1e15
FAR_S = 1e3
"""Seconds of a round trip that nobody told."""


class MachineBlock(NamedTuple):
    """Machines of one kind at one site, with room for components."""

    name: str
    site: str
    speed: float
    """Speed of one processor, relative to the reference."""
    memory_bytes: float
    """Memory of one machine; 0: not told."""
    idle: int
    """Processors that components may have."""
    wide: int
    """Most processors of one component."""


class BlockPart(NamedTuple):
    """One component of a gang, and the machines it is to run on."""

    component: int
    processors: int
    block: MachineBlock


class GangPrediction(NamedTuple):
    seconds: float
    """Infinite: the gang does not run so, or nobody can tell."""
    items: tuple[int, ...]
    """Items of each part; empty: the group divides none."""
    part_s: tuple[float, ...]
    why: str = ""
    """The reason why there is no prediction."""


class GangModel:
    """The model and the mapper of one group, over what is known of the sites."""

    def __init__(
        self,
        spec: GroupSpec,
        values: Mapping[SiteId, Mapping[str, Value]],
        link: Callable[[str, str], Mapping[str, Value]],
        ratio: Callable[[str], float] = lambda site: 1.0,
    ) -> None:
        """`values`: of each site, by the names of requirements. `link`: values of the link between two sites. `ratio`:
        achieved over modelled seconds of past jobs at a site. ValueError: one line on a model or a mapper that is
        none."""
        self._model = EquationModel(spec)
        self._values, self._link, self._ratio = values, link, ratio
        self._balances = spec.mapper is not None and spec.mapper.kind == "time-balance"
        self.items, self._item_bytes = mapped_items(spec)
        self._worst: dict[frozenset[str], dict[str, Mapping[str, Value]]] = {}
        self._known: dict[tuple[object, ...], float | Untold] = {}

    def predict(self, parts: Sequence[BlockPart]) -> GangPrediction:
        """Divide the data among the parts and predict their run."""
        sites = frozenset(part.block.site for part in parts)
        whole = sum(part.processors for part in parts)
        gang = _gang(parts, sites)
        kinds = list(dict.fromkeys((part.block, part.processors) for part in parts))
        lines: dict[tuple[MachineBlock, int], tuple[float, float]] = {}
        for block, processors in kinds:
            ends = [self._seconds(block, processors, share, sites, gang) for share in (0.0, 1.0)]
            if isinstance(end := ends[1], Untold):
                return _none(f"{block.site}: {end.why}")
            at_none = 0.0 if isinstance(ends[0], Untold) else ends[0]
            lines[block, processors] = (min(at_none, end), end)
        found = self._divided(parts, lines)
        if isinstance(found, Unmapped):
            return _none(found.why)
        shares = [got / self.items for got in found.items] if self.items else [p.processors / whole for p in parts]
        part_s: list[float] = []
        for part, share in zip(parts, shares, strict=True):
            seconds = self._seconds(part.block, part.processors, share, sites, gang)
            if isinstance(seconds, Untold):
                if share > 0 or not self.items:
                    return _none(f"{part.block.site}: {seconds.why}")
                seconds = 0.0
            part_s.append(seconds)
        return GangPrediction(max(part_s), found.items if self.items else (), tuple(part_s))

    def alone_s(self, part: BlockPart, share: float, parts: Sequence[BlockPart]) -> float:
        """Return the seconds of one part of a gang with this share of the data; infinite: nobody can tell."""
        sites = frozenset(each.block.site for each in parts)
        found = self._seconds(part.block, part.processors, share, sites, _gang(parts, sites))
        return inf if isinstance(found, Untold) else found

    def rtt_s(self, one: str, other: str) -> float:
        """Return the round trip between two sites; a long one where it was not told."""
        told = self._link(one, other).get("link.rtt_s")
        return told if isinstance(told, float) and 0 <= told < inf else FAR_S

    def _divided(
        self, parts: Sequence[BlockPart], lines: Mapping[tuple[MachineBlock, int], tuple[float, float]]
    ) -> DataMap | Unmapped:
        """Divide the items: by the line that the model's seconds follow from no data to all of it, where the mapper
        balances times; else in proportion to the processors, those of all alike."""
        if not self.items:
            return DataMap((), 0.0)
        machines = []
        for part in parts:
            at_none, at_all = lines[part.block, part.processors]
            room = part.block.memory_bytes / self._item_bytes if self._item_bytes and part.block.memory_bytes else inf
            name = f"component {part.component + 1} at {part.block.site}"
            machines.append(WorkMachine(name, part.block.site, (at_all - at_none) / self.items, at_none, room))
        if self._balances and all(machine.item_s > 0 for machine in machines):
            return time_balance(self.items, machines)
        return by_processors(self.items, [part.processors for part in parts], machines)

    def _seconds(
        self, block: MachineBlock, processors: int, share: float, sites: frozenset[str], gang: Mapping[str, Value]
    ) -> float | Untold:
        key = (block, processors, share, sites, gang["gang.components"], gang["gang.processors"])
        found = self._known.get(key)
        if found is None:
            given: dict[str, Value] = {
                **self._values.get(SiteId(block.site), {}),
                **self._worst_links(sites)[block.site],
                **gang,
                "component.share": share,
                "component.items": share * self.items,
                "component.processors": float(processors),
                "component.speed": block.speed,
                "component.memory_bytes": block.memory_bytes,
            }
            found = self._model.component_s(given, processors, none=share == 0)
            if not isinstance(found, Untold):
                found = min(MOST_S, found * self._ratio(block.site))
            self._known[key] = found
        return found

    def _worst_links(self, sites: frozenset[str]) -> dict[str, Mapping[str, Value]]:
        """Return, of each of the sites, its worst link to another of them."""
        if sites not in self._worst:
            self._worst[sites] = {one: self._worst_link(one, sites - {one}) for one in sorted(sites)}
        return self._worst[sites]

    def _worst_link(self, one: str, others: frozenset[str]) -> Mapping[str, Value]:
        if not others:
            return dict(HOME)
        links = [self._link(one, other) for other in sorted(others)]
        out: dict[str, Value] = {}
        for name in HOME:
            told = [value for link in links if isinstance(value := link.get(name), float)]
            if len(told) == len(links):
                out[name] = min(told) if name == "link.bytes_per_s" else max(told)
        return out


def _gang(parts: Sequence[BlockPart], sites: frozenset[str]) -> dict[str, Value]:
    return {
        "gang.components": float(len(parts)),
        "gang.processors": float(sum(part.processors for part in parts)),
        "gang.sites": float(len(sites)),
    }


def by_processors(items: int, processors: Sequence[int], machines: Sequence[WorkMachine]) -> DataMap | Unmapped:
    """Divide so that each processor has as many items as any other, the first ones one more where it does not come out
    even (section 4.4.1)."""
    whole, given, seen = sum(processors), list[int](), 0
    for count in processors:
        given.append(items * (seen + count) // whole - items * seen // whole)
        seen += count
    for machine, got in zip(machines, given, strict=True):
        if got > machine.room:
            lacks = got - int(machine.room)
            return Unmapped(f"{machine.name} has memory for {int(machine.room):,} of {got:,} items, {lacks:,} too few")
    return DataMap(tuple(given), max(m.start_s + m.item_s * got for m, got in zip(machines, given, strict=True)))


def mapped_items(spec: GroupSpec) -> tuple[int, float]:
    """Return the items of the group's data and the bytes of one; (0, 0): it has no mapper. ValueError: one line with
    the key."""
    if spec.mapper is None:
        return 0, 0.0
    found = []
    own = model_values(spec)
    constants = tuple(sorted((name, isinstance(value, str)) for name, value in own.items() if "." not in name))
    for key, text in (("items", spec.mapper.items), ("item_bytes", spec.mapper.item_bytes)):
        where = f"package.mapper.{key}"
        try:
            value = read(text, "mapper", constants).value(own)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if not isinstance(value, float) or not 0 <= value <= MOST_ITEMS:
            why = value.why if isinstance(value, Untold) else value
            raise ValueError(f"{where}: it is {why}; want a number, 0 to {MOST_ITEMS:.0e}")
        found.append(value)
    if found[0] < 1:
        raise ValueError(f"package.mapper.items: there are {found[0]:g}; want at least one")
    return int(found[0]), found[1]


def _none(why: str) -> GangPrediction:
    return GangPrediction(inf, (), (), why)
