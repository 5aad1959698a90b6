"""The scenario as a value: sites, links, datasets, users, work, faults, expectations, keys of the report.

`scenario/scenario.py` reads and checks it; what is said here is public (ARCHITECTURE concept 7)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from diana.model.settings import Settings, following
from diana.sim.specs.compare_spec import CompareSpec, PolicySpec, SettingsTable
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.specs.gang_spec import CommunicationSpec, GangTables
from diana.sim.specs.keys import check_keys
from diana.sim.specs.link_spec import LinkSpec, LinksSpec, RouteSpec, TransferSpec
from diana.sim.specs.program_spec import ProgramTables
from diana.sim.specs.site_spec import SitesFromSpec, SiteSpec
from diana.sim.specs.work_spec import WorkSpec

REPORT_KEYS = (
    "groups",
    "bound",
    "sites",
    "decisions",
    "plans",
    "network",
    "transfers",
    "arrivals",
    "faults",
    "coverage",
    "migration",
    "gang_figures",
    "standby",
    "traces",
    "digest",
    "outcome",
    "compare",
    "expect",
)


class SwarmSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The workload's parts that each seed draws (`faults/swarm.py`); with none of this every seed has the same."""

    fewer: float = 0.0
    """An entry has up to this share fewer jobs, a site fewer slots."""
    times_s: float = 0.0
    """An entry comes up to this much later, what is asked of it later on up to as much again."""
    drop: float = 0.0
    """Probability that an order to an entry (its hold and release, its cancel, its retry, a move) is not given."""
    moves: int = 0
    """Each entry has up to so many moves more."""
    homes: bool = False
    """True: an entry is submitted at any site."""


class ExpectSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions that must hold beside the invariants, for every seed. Negative: not asked."""

    done: int = -1
    """Jobs done, exactly."""
    failed: int = -1
    """Jobs failed, exactly."""
    sites_used: int = -1
    """Sites where jobs ended, at least."""
    makespan_s: float = -1.0
    """Longest makespan of an entry, at most."""
    faults: int = -1
    """Faults that struck, at least."""
    starts: int = -1
    """Starts of jobs, exactly: more than there are jobs where some went on from checkpoints."""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    """Version of this format: 1."""
    sites: tuple[SiteSpec, ...] = ()
    """Sites, at least one, here or by `sites_from`."""
    sites_from: SitesFromSpec | None = None
    """More sites, from a CSV file."""
    name: str = ""
    """Name, for people."""
    about: str = ""
    """Story of the scenario, for people."""
    settings: SettingsTable = {}
    """Settings of all sites; keys of `[settings]` in site.toml."""
    default_link: LinksSpec = LinksSpec()
    links: tuple[LinkSpec, ...] = ()
    """Links between two sites or routers each; all other pairs are `default_link`."""
    routers: tuple[str, ...] = ()
    """Ends of links that are no site; they carry the traffic of all."""
    routes: tuple[RouteSpec, ...] = ()
    links_from: str = ""
    """A GraphML file, from the scenario's folder: its nodes are routers, its edges links."""
    rtt_from: str = ""
    """A CSV file of round-trip times between places: the latencies of all pairs of sites that no link of their own
    has."""
    rtt_missing: Literal["refuse", "default"] = "refuse"
    """Treatment of pairs of sites that it has no line for. default: they are as far apart as `default_link`."""
    transfers: tuple[TransferSpec, ...] = ()
    seeds: int = 0
    """Sites each one knows from the start, drawn by the seed of the run; 0: all know all, as on one LAN."""
    datasets: tuple[DatasetSpec, ...] = ()
    users: tuple[UserSpec, ...] = (UserSpec("alice@sim"),)
    """Users who submit; all of one VO."""
    workload: tuple[WorkSpec, ...] = ()
    communication: CommunicationSpec = CommunicationSpec()
    events: tuple[EventSpec, ...] = ()
    """Events at given times, in the simulator and on real nodes."""
    faults: FaultsSpec = FaultsSpec()
    swarm: SwarmSpec = SwarmSpec()
    expect: ExpectSpec = ExpectSpec()
    gangs: GangTables | None = None
    """Questions about gangs; a scenario that has them has nothing else to run."""
    grads: ProgramTables | None = None
    """Questions about searches and mappers; a scenario that has them has nothing else to run."""
    policies: tuple[PolicySpec, ...] = ()
    compare: CompareSpec | None = None
    report: tuple[str, ...] = ("groups", "sites", "faults")
    """Keys of the report that are printed."""
    look_ahead: int = 0
    """Rolls by which sites choose how a new group is placed, each way rolled so often; 0: they do not look ahead."""
    fsync_s: float = 0.0
    """Seconds that a commit takes; events that arrive meanwhile share the next one."""
    limit_s: float = 1e6
    """Simulated seconds after which whatever still runs is called stuck."""

    def site_settings(self, site: SiteSpec) -> Settings:
        """Settings of a site: those of the scenario, then the site's own, then what follows from them. Unless they say
        so no group is forgotten before `limit_s`: the outcome of a run is read when it is over."""
        own = {"slots": site.slots, "speed": site.speed}
        values = {"keep_s": max(Settings().keep_s, self.limit_s), **self.settings, **own}
        if quotas := {user.name: user.quota for user in self.users if user.quota}:
            values["quotas"] = _over(quotas, values.get("quotas", {}))
        return _settings(following({**values, **site.settings}))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as msgpack. Words that are one object with a default are left out of what is written; pickle would
        make other objects of them, and a run of the same scenario would have another digest."""
        return _unpickled, (msgspec.msgpack.encode(self),)


def _unpickled(encoded: bytes) -> Scenario:
    return msgspec.msgpack.decode(encoded, type=Scenario)


def _settings(values: SettingsTable) -> Settings:
    check_keys(values, Settings, "settings")
    return msgspec.convert(values, Settings)


def _over(quotas: dict[str, float], more: Any) -> Any:
    """Both tables of quotas as one; a value that is no table is left to the check of its type."""
    return {**quotas, **more} if isinstance(more, dict) else more
