"""Faults that come by themselves: spawners and machines that die, links that are cut, members that are away."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

from diana.engine.journal.effects import Reply
from diana.engine.journal.events import MachineRemoved
from diana.model.ids import MAIN_MACHINE, SiteId
from diana.model.trust.principal import Principal, Role
from diana.sim.faults.outages import KINDS as OUTAGES
from diana.sim.faults.outages import Outages
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.kernel.trace import Trace
from diana.sim.sites.replicas import ReplicaPair
from diana.sim.sites.site import SimulatedSite
from diana.sim.twins.network import Network

_LINKS = ("cut", "clog", "partition")
_KINDS = ("spawner_crash", "machine_crash", "cut", "machine_away", "machine_removed", "clog", "partition", *OUTAGES)
_REQUEST = 2_000_000_000
"""Request numbers from here on are those of operators who give machines up."""
_INSIST_S = 5.0
_OPERATOR = Principal(Role.OPERATOR, "operator@sim")


class Mishaps:
    """Strikes at drawn times until the faults are healed; what it broke comes back by itself."""

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        trace: Trace,
        network: Network,
        sites: Mapping[SiteId, SimulatedSite | ReplicaPair],
        lift: Callable[[SiteId, float], None] | None = None,
    ) -> None:
        self._clock = clock
        self._faults = faults
        self._trace = trace
        self._network = network
        self._sites = sites
        self._removals: dict[int, tuple[SimulatedSite | ReplicaPair, str]] = {}
        """Request -> the machine an operator gave up and has no answer about yet."""
        self._next = _REQUEST
        self._outages = Outages(clock, faults, trace, sites, lift)

    @cached_property
    def _pairs(self) -> list[tuple[SiteId, SiteId]]:
        """Made when a link is struck for the first time: of 10,000 sites there are fifty millions."""
        return [(a, b) for a in self._sites for b in self._sites if a < b]

    def begin(self) -> None:
        if self._faults.on:
            for kind in _KINDS:
                self._later(kind)

    def heal(self) -> None:
        """End the faults that do not end by themselves, or not soon."""
        self._network.mend_all()
        self._outages.heal(site for site in self._sites.values() if isinstance(site, SimulatedSite))

    def settled(self) -> bool:
        """True if every machine is there."""
        return not any(site.lrm.is_away(name) for site in self._sites.values() for name in site.lrm.names())

    def answered(self, reply: Reply) -> bool:
        """Take note of a reply; True if it was to one of the operators here."""
        found = self._removals.pop(reply.request, None)
        if found is not None:
            self._clock.after(self._faults.away_s(), found[0].lrm.find_again, found[1])
        return found is not None

    def _later(self, kind: str) -> None:
        delay_s = self._faults.next_s(kind)
        if math.isfinite(delay_s):
            self._clock.after(delay_s, self._strike, kind)

    def _strike(self, kind: str) -> None:
        if not self._faults.on:
            return
        if kind in _LINKS:
            self._strike_links(kind)
        else:
            site = list(self._sites.values())[self._faults.pick(len(self._sites))]
            if kind not in OUTAGES:
                self._strike_machine(kind, site)
            elif isinstance(site, SimulatedSite) and site.up():
                self._outages.strike(kind, site)
        self._later(kind)

    def _strike_machine(self, kind: str, site: SimulatedSite | ReplicaPair) -> None:
        names = site.lrm.names()
        if kind in ("machine_away", "machine_removed"):
            names = names[1:]
        if not names:
            return
        name = names[self._faults.pick(len(names))] if len(names) > 1 else names[0]
        if site.lrm.is_away(name) or not self._faults.strikes(kind, site.site, shown=_shown(kind, name)):
            return
        self._trace.note(site.site, self._clock.now_s, kind if name == MAIN_MACHINE else f"{kind} of {name}")
        match kind:
            case "spawner_crash":
                site.lrm.lrms[name].crash_spawner()
            case "machine_crash" if name == MAIN_MACHINE:
                site.crash(durable=True)
                site.lrm.lrms[name].crash_machine()
            case "machine_crash":
                site.lrm.crash(name)
                self._clock.after(self._faults.away_s(), site.lrm.find_again, name)
            case "machine_away":
                site.lrm.lose(name)
                self._clock.after(self._faults.away_s(), site.lrm.find_again, name)
            case "machine_removed":
                site.lrm.crash(name)
                self._removals[self._next] = (site, name)
                self._remove(self._next)
                self._next += 1

    def _remove(self, request: int) -> None:
        """Let the operator insist until there is an answer."""
        if request in self._removals:
            site, name = self._removals[request]
            site.handle(MachineRemoved(request=request, principal=_OPERATOR, machine=name))
            self._clock.after(_INSIST_S, self._remove, request)

    def _strike_links(self, kind: str) -> None:
        if not self._pairs:
            return
        if kind == "partition":
            self._part()
            return
        a, b = self._pairs[self._faults.pick(len(self._pairs))]
        if kind == "clog":
            self._clog(a, b)
        else:
            self._cut(a, b)

    def _clog(self, a: SiteId, b: SiteId) -> None:
        length_s = self._faults.length_s("clog")
        if self._faults.strikes("clog", a, b) and self._network.clog(a, b):
            self._trace.note(a, self._clock.now_s, f"clogged towards {b}")
            self._clock.after(length_s, self._network.unclog, a, b)

    def _part(self) -> None:
        """Cut some sites, less than all, from the rest."""
        names, length_s = sorted(self._sites), self._faults.length_s("partition")
        island = {name for name in names if self._faults.pick(2)}
        apart = [(a, b) for a, b in self._pairs if (a in island) != (b in island)]
        if not apart or not self._faults.strikes("partition", *sorted(island)):
            return
        for a, b in apart:
            self._trace.note(a, self._clock.now_s, f"parted from {b}")
            self._network.cut(a, b, kind="partition")
            self._clock.after(length_s, self._network.mend, a, b)

    def _cut(self, a: SiteId, b: SiteId) -> None:
        if self._faults.pick(2):
            a, b = b, a
        one_way, length_s = self._faults.pick(3) == 0, self._faults.cut_length_s()
        if not self._faults.strikes("cut", a, b, shown="cut one way" if one_way else "cut"):
            return
        self._trace.note(a, self._clock.now_s, f"{'cut one way' if one_way else 'cut off'} towards {b}")
        self._network.cut(a, b, one_way)
        self._clock.after(length_s, self._network.mend, a, b, one_way)


def _shown(kind: str, machine: str) -> str:
    """The node's own machine takes the node along."""
    return "member_crash" if kind == "machine_crash" and machine != MAIN_MACHINE else kind
