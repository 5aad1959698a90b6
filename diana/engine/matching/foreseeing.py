"""Gangs placed by the model of their run (SPEC G2-G4): the kinds of machines that sites quote, the links between them
and past runs come in, as values of `diana.policy.grads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

from diana.engine.matching import facts, gangs
from diana.engine.messages.messages import Quote
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job.spec import GroupSpec
from diana.model.learned import fit_key
from diana.model.sketch import Quantiles
from diana.policy.gang.requests import GangPlacement, GangRequest, Rooms, TransferTime, Unplaced
from diana.policy.grads import placing
from diana.policy.grads.gang_model import BlockPart, GangModel, GangPrediction, MachineBlock
from diana.policy.grads.models import LEAST_SEEN
from diana.policy.grads.placing import GangChoice
from diana.policy.requirements.names import Value


class Foresight(NamedTuple):
    """The model of one group, and what is known of the sites."""

    model: GangModel
    quotes: Mapping[SiteId, Quote]
    lacks: placing.Lacks
    past: Mapping[SiteId, Quantiles]
    """Ratios of past components at each site that has some."""
    anneal: str = ""
    """Seed of an annealing search; empty: the group asks for none."""

    def place(self, request: GangRequest, rooms: Rooms, time: TransferTime) -> GangChoice:
        blocks = self._blocks(rooms)
        return placing.place(request, rooms, blocks, self.model, time, self.lacks, self.anneal)

    def of(self, answer: GangPlacement, rooms: Rooms) -> GangPrediction:
        """Predict the run of a gang that another policy placed: each component on the first machines that hold it."""
        blocks, parts = self._blocks(rooms), list[BlockPart]()
        left = {block: block.idle for block in blocks}
        for part in answer.parts:
            of_site = [block for block in blocks if block.site == part.site]
            fits = (one for one in of_site if left[one] >= part.processors <= one.wide)
            block = next(fits, of_site[0] if of_site else None)
            if block is None:
                return GangPrediction(inf, (), (), f"{part.site} tells no machines")
            left[block] -= part.processors
            parts.append(BlockPart(part.component, part.processors, block))
        return self.model.predict(parts)

    def range_s(self, prediction: GangPrediction, sites: Sequence[str]) -> tuple[float, float, int]:
        """Return the bounds within which eight of ten runs end, and how many past components they rest on; those of the
        slowest component's site."""
        slowest = max(range(len(sites)), key=lambda at: (prediction.part_s[at], -at))
        past = self.past.get(SiteId(sites[slowest]))
        if past is None:
            return prediction.seconds, prediction.seconds, 0
        low, high = min(past.low_s, past.mean_s), max(past.high_s, past.mean_s)
        seconds = prediction.seconds / past.mean_s
        return seconds * low, seconds * high, past.seen

    def model_s(self, site: str, run_s: float) -> float:
        """Return a component's seconds by the equations alone."""
        past = self.past.get(SiteId(site))
        return run_s / past.mean_s if past is not None else run_s

    def _blocks(self, rooms: Rooms) -> list[MachineBlock]:
        return [block for name in rooms.names() for block in _blocks_of(name, self.quotes[SiteId(name)], rooms)]


def foresight(
    core: Context,
    spec: GroupSpec,
    values: gangs.Values,
    quotes: Mapping[SiteId, Quote],
    lacks: placing.Lacks,
    past: Mapping[SiteId, Quantiles],
) -> Foresight | Unplaced:
    """Return the foresight of a group with a model, or why this release has none."""
    known = {site: one for site, one in past.items() if one.seen >= LEAST_SEEN and one.mean_s > 0}

    @cache
    def link(one: str, other: str) -> Mapping[str, Value]:
        by_home = _by_way_of_home(core, SiteId(one), SiteId(other))
        return {**by_home, **gangs.between(quotes, SiteId(one), SiteId(other))}

    try:
        model = GangModel(spec, values, link, lambda site: known[SiteId(site)].mean_s if site in known else 1.0)
    except ValueError as error:
        return Unplaced(str(error), never=True)
    return Foresight(model, quotes, lacks, known, fit_key(spec) if spec.search == "annealing" else "")


def _by_way_of_home(core: Context, one: SiteId, other: SiteId) -> dict[str, Value]:
    """Return a link as it is by way of this site, for what neither side measured."""
    out: dict[str, Value] = {}
    links = [_from_home(core, site) for site in (one, other) if site != core.site]
    for name in ("link.rtt_s", "link.bytes_per_s", "link.loss"):
        told = [value for link in links if isinstance(value := link.get(name), float)]
        if told and len(told) == len(links):
            out[name] = sum(told) if name == "link.rtt_s" else min(told) if name == "link.bytes_per_s" else max(told)
    return out


def _from_home(core: Context, site: SiteId) -> dict[str, Value]:
    """Return the link from here, unmeasured throughput as the settings have it."""
    peer = core.view.peers.get(site)
    rtt_s = peer.rtt_s if peer is not None else None
    seen: dict[str, Value] = {"link.rtt_s": rtt_s} if rtt_s is not None else {}
    default: dict[str, Value] = {"link.bytes_per_s": core.state.settings.default_bytes_per_s}
    return {**seen, **default, **(facts.of_link(core, site) or {})}


def _blocks_of(name: str, quote: Quote, rooms: Rooms) -> list[MachineBlock]:
    """Return the machines of a site that have room: those idle now first, then, of room to come, any."""
    left, kinds = rooms.left(name), facts.kinds_of(quote)
    most = rooms.widest_of(name)
    spreads = most > max((kind.processors for kind in kinds), default=0)
    had = []
    for kind in kinds:
        had.append(min(kind.idle, left))
        left -= had[-1]
    out = []
    for at, kind in enumerate(kinds):
        more = min(left, kind.count * kind.processors - had[at])
        left -= more
        if idle := had[at] + more:
            wide = most if spreads else min(kind.processors, most)
            out.append(MachineBlock(f"{name}/{at:02}", name, kind.speed, float(kind.memory_bytes), idle, wide))
    if left > 0:
        # Machines of kinds that the site did not tell.
        out.append(MachineBlock(f"{name}/rest", name, quote.speed, float(max(0, quote.memory_bytes)), left, most))
    return out
