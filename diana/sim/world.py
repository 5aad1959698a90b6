"""Puts a scenario together: clock, network, sites, users, faults, checkers. The runner makes it go."""

from __future__ import annotations

import hashlib
import math
from functools import partial

from diana.engine.effects import GroupAccepted, GroupsAccepted, Reply
from diana.engine.events import AddDataset, Event
from diana.model.ids import SiteId
from diana.model.principal import Principal, Role
from diana.sim import chance
from diana.sim.arrivals import Arrivals
from diana.sim.checkers import Checkers
from diana.sim.clock import Clock
from diana.sim.driver import Boot
from diana.sim.faults import Faults
from diana.sim.keyring import SimKeyring
from diana.sim.lrm import SimLrm
from diana.sim.network import Network
from diana.sim.scenario import Scenario
from diana.sim.site import Site
from diana.sim.stager import Pipes, SimStager
from diana.sim.store import MemoryStore
from diana.sim.trace import Trace
from diana.sim.workload import INSIST_S, Users, dataset

_DATASET_REQUEST = 1_000_000_000
"""Request numbers from here on are the operators' who register datasets."""


class World:
    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        boot: Boot,
        trace: Trace | None = None,
        crash_at: tuple[str, int] | None = None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.clock = Clock()
        self.trace = trace or Trace()
        self.faults = Faults(scenario.faults, seed, crash_at)
        link = scenario.default_link
        self.network = Network(
            self.clock,
            self.faults,
            link.latency_s,
            link.bytes_per_s,
            loss=link.loss,
            noise=link.noise,
            rng=chance.stream(seed, "links"),
        )
        for one in scenario.links:
            a, b = one.between
            self.network.describe(SiteId(a), SiteId(b), one.latency_s, one.bytes_per_s, one.loss, one.noise)
        settings = {SiteId(s.name): scenario.site_settings(s) for s in scenario.sites}
        self.checkers = Checkers(self.clock, {site: s.feed() for site, s in settings.items()})
        self.arrivals = Arrivals(len(settings)) if "arrivals" in scenario.report else None
        self.sites: dict[SiteId, Site] = {}
        self.users = Users(self.clock, scenario, seed, self._deliver)
        self._datasets_waiting: dict[int, tuple[SiteId, Event]] = {}
        pipes = Pipes(self.clock, self.network)
        vo = scenario.users[0].name.partition("@")[2]
        for site, its in settings.items():
            again = partial(self.faults.happens, "retell")
            lrm = SimLrm(self.clock, site, its.slots, its.speed, self.users.life_of, self.checkers, again)
            self.sites[site] = Site(
                site,
                its,
                clock=self.clock,
                network=self.network,
                lrm=lrm,
                stager=SimStager(self.clock, site, pipes, self.network, self.faults),
                store=MemoryStore(_uuid(seed, site)),
                keyring=SimKeyring(f"site:{site}", vo, wall_clock=self._wall_s),
                faults=self.faults,
                checkers=self.checkers,
                trace=self.trace,
                boot=boot,
                answered=self._answered,
                fsync_s=scenario.fsync_s,
                handled=self.arrivals.look if self.arrivals else None,
            )
        stagers = {site: s.stager for site, s in self.sites.items()}
        for one_site in self.sites.values():
            one_site.stager.peers = stagers
        self._pairs = [(a, b) for a in self.sites for b in self.sites if a < b]

    def begin(self) -> None:
        """Start all sites, register the datasets, let the users and the faults come."""
        for site in self.sites.values():
            site.start()
        held = [(SiteId(site), spec) for spec in self.scenario.datasets for site in (spec.site, *spec.replicas)]
        for number, (home, spec) in enumerate(held):
            made, files = dataset(spec)
            self.sites[home].stager.register(made, files)
            who = Principal(Role.OPERATOR, f"operator@{self.scenario.users[0].name.partition('@')[2]}")
            request = _DATASET_REQUEST + number
            self._datasets_waiting[request] = (home, AddDataset(request=request, principal=who, dataset=made))
            self._register(request)
        self.users.begin()
        if self.faults.on:
            for kind in ("spawner_crash", "machine_crash", "cut"):
                self._later(kind)

    def settled(self) -> bool:
        return not self._datasets_waiting and self.users.settled()

    def heal(self) -> None:
        """No more faults; every link is whole; sites that are down come back by themselves within `restart_s`."""
        self.faults.heal()
        self.network.mend_all()
        for site in self.sites.values():
            site.recount()

    def _wall_s(self) -> float:
        return 1_750_000_000.0 + self.clock.now_s

    def _deliver(self, site: SiteId, event: Event) -> None:
        self.sites[site].handle(event)

    def _register(self, request: int) -> None:
        waiting = self._datasets_waiting.get(request)
        if waiting is not None:
            self._deliver(*waiting)
            self.clock.after(INSIST_S, self._register, request)

    def _answered(self, site: SiteId, reply: Reply) -> None:
        if self._datasets_waiting.pop(reply.request, None) is not None:
            return
        submission = self.users.answered(reply)
        if submission is not None and isinstance(reply.body, GroupAccepted | GroupsAccepted):
            for one in submission.chain or (submission,):
                assert one.group is not None, "what was accepted has an id"
                self.checkers.acknowledged(site, one.name, one.group)

    # --- faults that come by themselves ----------------------------------------------------------------

    def _later(self, kind: str) -> None:
        delay_s = self.faults.next_s(kind)
        if math.isfinite(delay_s):
            self.clock.after(delay_s, self._strike, kind)

    def _strike(self, kind: str) -> None:
        if not self.faults.on:
            return
        if kind == "cut":
            self._cut()
        else:
            site = list(self.sites.values())[self.faults.pick(len(self.sites))]
            self.trace.note(site.site, self.clock.now_s, kind)
            self.faults.counts[kind] += 1
            if kind == "spawner_crash":
                site.lrm.crash_spawner()
            else:
                site.crash(durable=True)
                site.lrm.crash_machine()
        self._later(kind)

    def _cut(self) -> None:
        if not self._pairs:
            return
        a, b = self._pairs[self.faults.pick(len(self._pairs))]
        if self.faults.pick(2):
            a, b = b, a
        one_way = self.faults.pick(3) == 0
        self.trace.note(a, self.clock.now_s, f"{'cut one way' if one_way else 'cut off'} towards {b}")
        self.faults.counts["cut"] += 1
        self.network.cut(a, b, one_way)
        self.clock.after(self.faults.cut_length_s(), self.network.mend, a, b, one_way)


def _uuid(seed: int, site: SiteId) -> str:
    return hashlib.sha256(f"{chance.text_seed(seed, site)}".encode()).hexdigest()[:32]
