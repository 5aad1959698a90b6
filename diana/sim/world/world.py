"""Puts a scenario together: clock, network, sites, users, faults, checkers. The runner makes it go."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from diana.engine.journal.effects import GroupAccepted, GroupsAccepted, Reply
from diana.engine.journal.events import AddDataset, Event, Run
from diana.engine.journal.records import Record
from diana.engine.machines.machines import most_ahead
from diana.model.ids import MAIN_MACHINE, SiteId
from diana.model.settings import Settings
from diana.model.trust.principal import Principal, Role
from diana.sim.checks.caps import MachineCap
from diana.sim.checks.checkers import Checkers
from diana.sim.checks.coverage import StrikeCount
from diana.sim.faults.mishaps import Mishaps
from diana.sim.faults.planned import PlannedFaults
from diana.sim.faults.swarm import drawn
from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.kernel.trace import Trace
from diana.sim.load import background
from diana.sim.load.handed_in import dataset
from diana.sim.load.life import black_hole
from diana.sim.load.workload import INSIST_S, Users
from diana.sim.report.arrivals import Arrivals
from diana.sim.report.flows import Flows
from diana.sim.report.gang_figures import GangBook
from diana.sim.report.outcome_digest import OutcomeDigest
from diana.sim.scenario.topology import Topology
from diana.sim.sites.driver import Boot
from diana.sim.sites.machines import SimMachines
from diana.sim.sites.replicas import ReplicaPair
from diana.sim.sites.site import SimulatedSite
from diana.sim.specs.scenario_spec import Scenario, SwarmSpec
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.twins.batch import Discipline
from diana.sim.twins.batch_lrm import BatchLrm
from diana.sim.twins.keyring import SimKeyring
from diana.sim.twins.lrm import SimLrm, Watcher
from diana.sim.twins.network import Network
from diana.sim.twins.pipes import Pipes
from diana.sim.twins.stager import SimStager
from diana.sim.twins.store import MemoryStore
from diana.sim.twins.transfers import Transfers

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
        self.swarming = scenario.swarm != SwarmSpec()
        self.scenario = scenario = drawn(scenario, seed)
        self.seed = seed
        self.clock = Clock()
        self.trace = trace or Trace()
        self.faults = Faults(scenario.faults, seed, crash_at)
        link, topology = scenario.default_link, Topology(scenario)
        self.network = Network(
            self.clock,
            self.faults,
            link.latency_s,
            link.bytes_per_s,
            loss=link.loss,
            noise=link.noise,
            rng=chance.stream(seed, "links"),
            seeds=_seeds(scenario, seed),
            figures=topology.figures,
        )
        self.network.dial_only.update(SiteId(s.name) for s in scenario.sites if s.dial_only)
        settings = {SiteId(s.name): scenario.site_settings(s) for s in scenario.sites}
        feeds: dict[tuple[SiteId, str], MachineCap] = {}
        later = [event for event in scenario.events if event.kind == "slots"]
        for s in scenario.sites:
            its = settings[SiteId(s.name)]
            for name, slots, has in (
                (MAIN_MACHINE, max([its.slots, *(one.slots for one in later if s.name in one.sites)]), s.amounts),
                *((m.name, m.slots, m.amounts) for m in s.machines),
            ):
                most = most_ahead(its, slots) if s.recalls else its.ahead_of(slots)
                feeds[SiteId(s.name), name] = MachineCap(slots + most, has)
        running = {site: its.user_max_running for site, its in settings.items()}
        self.checkers = Checkers(self.clock, feeds, running)
        self.arrivals = Arrivals(len(settings)) if "arrivals" in scenario.report else None
        self.flows = Flows(self.clock, tuple(settings), self.checkers) if "migration" in scenario.report else None
        self.gangs = GangBook(self.clock) if "gang_figures" in scenario.report else None
        self.coverage = self._watched() if "coverage" in scenario.report else None
        self._watcher: Watcher = self.flows or self.checkers
        """Sees what the LRMs do, and passes it on."""
        self.outcome: OutcomeDigest | None = None
        if "outcome" in scenario.report:
            self._watcher = self.outcome = OutcomeDigest(self.clock, self._watcher)
            self.network.watch = self.outcome.sent
        watching = [one.committed for one in (self.flows, self.coverage, self.outcome, self.gangs) if one]
        if watching:
            self.checkers.watch = partial(_tell, watching)
        self.sites: dict[SiteId, SimulatedSite | ReplicaPair] = {}
        self.pairs: list[ReplicaPair] = []
        """The sites with a standby."""
        self.users = Users(self.clock, scenario, seed, self._deliver)
        self._datasets_waiting: dict[int, tuple[SiteId, Event]] = {}
        pipes = Pipes(self.clock, self.network, topology)
        self.transfers = Transfers(self.clock, scenario.transfers, topology, pipes.shared)
        vo = scenario.users[0].name.partition("@")[2]
        for spec in scenario.sites:
            site, its = SiteId(spec.name), settings[SiteId(spec.name)]
            parts: dict[str, Any] = dict(
                clock=self.clock,
                network=self.network,
                lrm=self._machines(spec, its),
                stager=SimStager(self.clock, site, pipes, self.network, self.faults),
                store=MemoryStore(_uuid(seed, site)),
                keyring=SimKeyring(f"site:{site}", vo, wall_clock=partial(self._wall_s, site)),
                faults=self.faults,
                checkers=self.checkers,
                trace=self.trace,
                boot=boot,
                answered=self._answered,
                fsync_s=scenario.fsync_s,
                handled=self.arrivals.look if self.arrivals else None,
            )
            if spec.standby:
                number = len(self.pairs)
                new_store = partial(MemoryStore, _uuid(seed, site))
                self.sites[site] = pair = ReplicaPair(
                    site, its, spec.witness, number, seed, self.sites, new_store, parts
                )
                self.pairs.append(pair)
            else:
                self.sites[site] = one = SimulatedSite(site, its, **parts)
                one.maintenance = tuple(span.window() for span in spec.maintenance)
        stagers = {site: s.stager for site, s in self.sites.items()}
        for one_site in self.sites.values():
            one_site.stager.peers = stagers
        self.mishaps = Mishaps(self.clock, self.faults, self.trace, self.network, self.sites, self.users.lift)
        self.planned = PlannedFaults(self.clock, self.faults, self.trace, self.network, self.sites, scenario.events)

    def _watched(self) -> StrikeCount:
        coverage = StrikeCount(lambda: self.clock.now_s, self._open_at)
        self.faults.watch, self.trace.watch = coverage.struck, coverage.handled
        return coverage

    def _open_at(self, site: SiteId) -> list[str]:
        """Operations open at a site beside those that its records and messages show."""
        lrm, asked = self.sites[site].lrm, self.users.unanswered(site)
        rows = (
            ("submit", asked),
            ("start", lrm.queued > 0),
            ("run", lrm.running > 0),
            ("takeover", any(pair.site == site and pair.lost_s >= 0 for pair in self.pairs)),
        )
        return [operation for operation, is_open in rows if is_open]

    def _machines(self, spec: SiteSpec, its: Settings) -> SimMachines:
        """The site's own machine and its members, each with an LRM."""
        again = partial(self.faults.happens, "retell", about="run")
        watcher = self._watcher
        broken = {MAIN_MACHINE: spec.fails, **{m.name: spec.fails or m.fails for m in spec.machines}}
        lives = {name: black_hole if bad else self.users.life_of for name, bad in broken.items()}
        if spec.lrm != "slots":
            them, name = spec.background, f"{spec.name}/others"
            others = background.jobs(them, its.slots, self.seed, name) if them is not None else None
            kind, life = Discipline(spec.lrm), lives[MAIN_MACHINE]
            plain = (self.clock, SiteId(spec.name), its.slots, its.speed, life, watcher, again)
            batch = BatchLrm(*plain, discipline=kind, others=others, software=spec.software)
            return SimMachines({MAIN_MACHINE: batch})
        rows = [(MAIN_MACHINE, its.slots, its.speed, spec.software, spec.amounts)]
        rows += ((m.name, m.slots, m.speed or its.speed, spec.offered_by(m), m.amounts) for m in spec.machines)
        lrms = {
            name: SimLrm(self.clock, SiteId(spec.name), n, fast, lives[name], watcher, again, name, able, has)
            for name, n, fast, able, has in rows
        }
        own_speed = {m.name: m.speed for m in spec.machines}
        for name, lrm in lrms.items():
            lrm.recalls = spec.recalls
            lrm.own_speed = own_speed.get(name, 0.0)
            lrm.gap_of = self._drawn(spec, "gaps", spec.gaps_s)
            lrm.wait_of = self._drawn(spec, "waits", spec.waits_s)
        return SimMachines(lrms)

    def _drawn(self, spec: SiteSpec, what: str, times_s: tuple[float, ...]) -> Callable[[Run], float] | None:
        """The way to draw one of these times for each run; by its name, so that what a change moves leaves all others
        as they were."""
        if not times_s:
            return None
        luck = chance.text_seed(self.seed, f"{what} of {spec.name}")

        def draw(run: Run) -> float:
            number = zlib.crc32(f"{run.subgroup}.{run.index}.{run.attempt}".encode())
            return times_s[int(chance.fraction(luck, number) * len(times_s))]

        return draw

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
        self.transfers.begin()
        self.mishaps.begin()
        self.planned.begin()
        for pair in self.pairs:
            pair.begin_faults()

    def settled(self) -> bool:
        return not self._datasets_waiting and self.users.settled() and self.mishaps.settled() and self.transfers.over()

    def heal(self) -> None:
        """No more faults; every link is whole; sites that are down come back by themselves within `restart_s`."""
        self.faults.heal()
        self.mishaps.heal()
        for pair in self.pairs:
            pair.heal()
        for site in self.sites.values():
            site.recount()

    def _wall_s(self, site: SiteId) -> float:
        its = self.sites.get(site)
        return 1_750_000_000.0 + self.clock.now_s + (its.wall_off_s if isinstance(its, SimulatedSite) else 0.0)

    def _deliver(self, site: SiteId, event: Event) -> None:
        self.sites[site].handle(event)

    def _register(self, request: int) -> None:
        waiting = self._datasets_waiting.get(request)
        if waiting is not None:
            self._deliver(*waiting)
            self.clock.after(INSIST_S, self._register, request)

    def _answered(self, site: SiteId, reply: Reply) -> None:
        if self._datasets_waiting.pop(reply.request, None) is not None or self.mishaps.answered(reply):
            return
        if any(pair.answered(reply) for pair in self.pairs):
            return
        submission = self.users.answered(reply)
        if submission is not None and isinstance(reply.body, GroupAccepted | GroupsAccepted):
            for one in submission.chain or (submission,):
                assert one.group is not None, "what was accepted has an id"
                self.checkers.acknowledged(site, one.name, one.group)


def _tell(watching: Sequence[Callable[[SiteId, Record], None]], site: SiteId, record: Record) -> None:
    for told in watching:
        told(site, record)


def _seeds(scenario: Scenario, seed: int) -> dict[SiteId, tuple[SiteId, ...]] | None:
    """Seeds of each site, drawn among the sites named before it that can be dialled: so all hang together."""
    if not scenario.seeds:
        return None
    rng, before = chance.stream(seed, "seeds"), list[SiteId]()
    out = {}
    for site in scenario.sites:
        name = SiteId(site.name)
        out[name] = tuple(sorted(rng.sample(before, min(scenario.seeds, len(before)))))
        if not site.dial_only:
            before.append(name)
    return out


def _uuid(seed: int, site: SiteId) -> str:
    return hashlib.sha256(f"{chance.text_seed(seed, site)}".encode()).hexdigest()[:32]
