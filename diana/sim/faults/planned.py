"""The scenario's `[[events]]` in the simulator: they happen at given times and count among the faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from diana.engine.journal.events import DrainSite
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.kernel.trace import Trace
from diana.sim.sites.replicas import ReplicaPair
from diana.sim.sites.site import SimulatedSite
from diana.sim.specs.event_spec import EventSpec
from diana.sim.twins.network import Network

_OPERATOR = Principal(Role.OPERATOR, "operator@sim")
_UNASKED = -2
"""Request number of orders whose answer nobody waits for."""


class PlannedFaults:
    """`begin` asks the clock for all of them. They are told, not drawn: no seed changes them, `faults.only` leaves none
    out, and they go on when the drawn faults are healed."""

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        trace: Trace,
        network: Network,
        sites: Mapping[SiteId, SimulatedSite | ReplicaPair],
        events: Sequence[EventSpec],
    ) -> None:
        self._clock = clock
        self._faults = faults
        self._trace = trace
        self._network = network
        self._sites = sites
        self._events = events
        self._down: dict[SiteId, int] = {}
        """Killed and not started again -> the number of that kill."""
        self._kills = 0
        self._cuts: Counter[tuple[SiteId, SiteId]] = Counter()
        """Pairs that are cut -> number of partitions that cut them."""
        self._healed: Counter[tuple[SiteId, SiteId]] = Counter()
        """Number of times that a heal ended a pair's cuts."""

    def begin(self) -> None:
        for event in self._events:
            self._clock.at(event.at_s, self._happen, event)

    def _happen(self, event: EventSpec) -> None:
        named = [SiteId(site) for site in event.sites]
        self._faults.counts[event.kind] += 1
        match event.kind:
            case "kill":
                for site in named:
                    self._kill(site, event.for_s)
            case "stop":
                for site in named:
                    self._stop(site, event.for_s)
            case "restart":
                for site in named or list(self._down):
                    self._restart(site)
            case "partition":
                self._part(frozenset(named), event.for_s)
            case "load":
                for site in named:
                    self._load(site, event.times, event.for_s)
            case "heal":
                self._heal(frozenset(named or self._sites))
            case "slots":
                for site in named:
                    self._resize(site, event.slots)
            case "drain" | "undrain":
                for site in named:
                    self._drain(site, event.kind == "drain")
                    if event.for_s > 0:
                        self._clock.after(event.for_s, self._drain, site, False)

    def _note(self, site: SiteId, text: str) -> None:
        self._trace.note(site, self._clock.now_s, text)

    def _kill(self, site: SiteId, for_s: float) -> None:
        self._kills += 1
        self._down[site] = self._kills
        self._note(site, "killed")
        self._sites[site].power_off()
        if for_s > 0:
            self._clock.after(for_s, self._back, site, self._kills)

    def _back(self, site: SiteId, kill: int) -> None:
        if self._down.get(site) == kill:
            self._restart(site)

    def _restart(self, site: SiteId) -> None:
        its = self._sites[site]
        self._note(site, "restarted")
        if self._down.pop(site, None) is None:
            its.end_node()
        its.come_back()

    def _stop(self, site: SiteId, for_s: float) -> None:
        self._note(site, f"stopped for {for_s:g} s")
        self._sites[site].stop_for(for_s)

    def _load(self, site: SiteId, times: float, for_s: float) -> None:
        self._note(site, f"under load: {times:g} times as slow")
        self._sites[site].lrm.load(times)
        if for_s > 0:
            self._clock.after(for_s, self._sites[site].lrm.load, 1.0)

    def _drain(self, site: SiteId, on: bool) -> None:
        self._note(site, "drained" if on else "drained no more")
        self._sites[site].handle(DrainSite(request=_UNASKED, principal=_OPERATOR, on=on))

    def _resize(self, site: SiteId, slots: int) -> None:
        its = self._sites[site]
        if isinstance(its, SimulatedSite):
            self._note(site, f"{slots} slots from now on")
            its.resize(slots)

    def _part(self, island: frozenset[SiteId], for_s: float) -> None:
        apart = [_pair(a, b) for a in sorted(island) for b in sorted(set(self._sites) - island)]
        for pair in apart:
            self._note(pair[0], f"parted from {pair[1]}")
            self._cuts[pair] += 1
            self._network.cut(*pair, kind="partition")
            if for_s > 0:
                self._clock.after(for_s, self._mend, pair, self._healed[pair])

    def _mend(self, pair: tuple[SiteId, SiteId], healed: int) -> None:
        """End one cut of a pair, unless a `heal` has ended it since."""
        if healed == self._healed[pair]:
            self._cuts[pair] -= 1
            self._network.mend(*pair)

    def _heal(self, sites: frozenset[SiteId]) -> None:
        """End every cut of a partition that has one of these sites at an end."""
        for pair, cuts in sorted(self._cuts.items()):
            if cuts and not sites.isdisjoint(pair):
                self._cuts[pair] = 0
                self._healed[pair] += 1
                for _ in range(cuts):
                    self._network.mend(*pair)


def _pair(a: SiteId, b: SiteId) -> tuple[SiteId, SiteId]:
    return (a, b) if a <= b else (b, a)
