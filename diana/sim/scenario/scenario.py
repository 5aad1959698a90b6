"""Scenario files: one versioned TOML names sites, links, datasets, users, work, faults, what must hold, what to report.

The schema is public (ARCHITECTURE concept 7): a wrong file gives one line that names the file, the key and the mend.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from diana.errors import UsageError
from diana.model.ids import site_id
from diana.model.settings import Settings, following
from diana.sim.load import traced
from diana.sim.scenario import chains
from diana.sim.scenario.schema import check_keys
from diana.sim.scenario.sites_import import SitesFromSpec as SitesFromSpec
from diana.sim.scenario.sites_import import with_sites
from diana.sim.scenario.topology import Topology
from diana.sim.scenario.topology_import import imported
from diana.sim.scenario.variants import check_variants
from diana.sim.specs import central_spec, demand_spec
from diana.sim.specs.compare_spec import CompareSpec as CompareSpec
from diana.sim.specs.compare_spec import PolicySpec as PolicySpec
from diana.sim.specs.compare_spec import SettingsTable as SettingsTable
from diana.sim.specs.compare_spec import check_compare
from diana.sim.specs.data_spec import DataSpec as DataSpec
from diana.sim.specs.data_spec import check_data
from diana.sim.specs.demand_spec import GenerateSpec as GenerateSpec
from diana.sim.specs.demand_spec import UserSpec as UserSpec
from diana.sim.specs.event_spec import EventSpec as EventSpec
from diana.sim.specs.event_spec import check_events
from diana.sim.specs.fault_spec import FaultsSpec as FaultsSpec
from diana.sim.specs.fault_spec import check_faults
from diana.sim.specs.link_spec import LinkSpec as LinkSpec
from diana.sim.specs.link_spec import LinksSpec as LinksSpec
from diana.sim.specs.link_spec import RouteSpec as RouteSpec
from diana.sim.specs.link_spec import TransferSpec as TransferSpec
from diana.sim.specs.link_spec import check_links
from diana.sim.specs.lrm_spec import BackgroundSpec as BackgroundSpec
from diana.sim.specs.lrm_spec import LrmKind, check_lrm
from diana.sim.specs.machine_spec import MachineSpec as MachineSpec
from diana.sim.specs.machine_spec import MaintenanceSpec as MaintenanceSpec
from diana.sim.specs.machine_spec import check_machines
from diana.sim.specs.names import known as _known
from diana.sim.specs.names import unique as _unique
from diana.sim.specs.trace_spec import TraceSpec as TraceSpec
from diana.sim.specs.trace_spec import check_trace, placed
from diana.sim.specs.work_spec import MoveSpec as MoveSpec
from diana.sim.specs.work_spec import WorkSpec as WorkSpec
from diana.sim.specs.work_spec import check_numbered, check_work

MOST_FILES = 10**7
"""Most files of a dataset; its catalogue knows each of them by name."""
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
    "standby",
    "traces",
    "digest",
    "outcome",
    "compare",
    "expect",
)


class SiteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """Lower-case letters, digits, hyphens."""
    slots: int = 1
    """Processors jobs may hold there at once."""
    speed: float = 1.0
    """Speed of a job there over its speed on the reference."""
    dial_only: bool = False
    """True: others cannot dial it."""
    fails: bool = False
    """True: a black hole, where every job exits 1, in 10 ms."""
    settings: SettingsTable = {}
    """Settings over the scenario's `settings`; keys of diana/model/settings.py."""
    machines: tuple[MachineSpec, ...] = ()
    standby: bool = False
    """True: two replicas of its journal, either of which may lead."""
    witness: str = ""
    """The site that keeps its register of who leads; empty: none, then no standby takes over by itself."""
    node: str = ""
    """The router where it is; a node of `links_from` by id, label or name. Empty: its name there, else at none."""
    place: str = ""
    """Its name in `rtt_from`, in any of the columns of places. Empty: its name."""
    count: int = 1
    """This many such sites: NAME, NAME-2, ..."""
    lrm: LrmKind = "slots"
    """fcfs, easy: its slots stand behind a batch system with a queue of its own."""
    background: BackgroundSpec | None = None
    """Jobs of others in that batch system."""
    recalls: bool = False
    """True: its machines, too, give back what they have not begun, as batch systems do."""
    software: tuple[str, ...] = ()
    """Software that jobs may ask for: `containers`, `module NAME`, `module *`."""
    gpus: int = 0
    """GPUs of its own machine; each is one job's at a time."""
    maintenance: tuple[MaintenanceSpec, ...] = ()
    """Times when it takes no work."""

    def offered_by(self, machine: MachineSpec) -> tuple[str, ...]:
        return self.software if machine.software is None else machine.software


class DatasetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`files` files named f0, f1, ... of `file_bytes` each."""

    name: str
    """Name by which `inputs` call it."""
    site: str
    """Site where it was registered."""
    files: int = 1
    """Number of files."""
    file_bytes: int = 1_000_000
    """Size of each."""
    replicas: tuple[str, ...] = ()
    """Other sites that hold it too."""


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
    events: tuple[EventSpec, ...] = ()
    """Events at given times, in the simulator and on real nodes."""
    faults: FaultsSpec = FaultsSpec()
    swarm: SwarmSpec = SwarmSpec()
    expect: ExpectSpec = ExpectSpec()
    policies: tuple[PolicySpec, ...] = ()
    compare: CompareSpec | None = None
    report: tuple[str, ...] = ("groups", "sites", "faults")
    """Keys of the report that are printed."""
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


def load(path: Path) -> Scenario:
    """Read and check; UsageError is one line with the file, the key and the mend."""
    try:
        text = path.read_text("utf-8")
    except OSError as e:
        raise UsageError(
            f"scenario {path}: {(e.strerror or str(e)).lower()}; give the path of a scenario file"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"scenario {path}: not UTF-8 text; give a TOML file") from None
    return parse(text, str(path), path.parent)


def reporting(scenario: Scenario, keys: tuple[str, ...]) -> Scenario:
    """The scenario with these keys reported instead of its own; none: its own. UsageError names one that is not
    known."""
    try:
        for key in keys:
            _known(key, REPORT_KEYS, "report")
        scenario = msgspec.structs.replace(scenario, report=keys or scenario.report)
        check_compare(scenario)
        if "bound" in keys:
            central_spec.check(scenario)
    except ValueError as e:
        raise UsageError(str(e)) from None
    return scenario


def parse(text: str, where: str = "scenario", folder: Path = Path()) -> Scenario:
    """Read a scenario from its text; UsageError as `load`. `folder`: the place of the files that it names; what is read
    from them stands in the scenario then."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{where}: no TOML: {e}") from None
    version = raw.get("version")
    if version != 1:
        said = "is missing" if version is None else f"= {version!r}"
        raise UsageError(f"{where}: version {said}: this release reads scenarios with `version = 1`")
    try:
        check_keys(raw, Scenario, "")
        scenario = imported(with_sites(msgspec.convert(raw, Scenario), folder), folder)
        scenario = placed(demand_spec.expanded(scenario), folder)
        _check(scenario)
        Topology(scenario)
    except (msgspec.ValidationError, ValueError) as e:
        raise UsageError(f"{where}: {e}") from None
    for work in scenario.workload:
        if work.trace is not None:
            traced.taken(work, work.trace, scenario, 0)
    return scenario


def _settings(values: SettingsTable) -> Settings:
    check_keys(values, Settings, "settings")
    return msgspec.convert(values, Settings)


def _over(quotas: dict[str, float], more: Any) -> Any:
    """Both tables of quotas as one; a value that is no table is left to the check of its type."""
    return {**quotas, **more} if isinstance(more, dict) else more


def _read_in_time(scenario: Scenario, site: SiteSpec) -> Settings:
    """The site's settings. ValueError: two do not go together, or its groups are forgotten before the report."""
    its = scenario.site_settings(site)
    if wrong := its.contradiction():
        raise ValueError(wrong)
    if its.keep_s < scenario.limit_s and ("keep_s" in site.settings or "keep_s" in scenario.settings):
        raise ValueError(
            f"keep_s = {its.keep_s:g}: groups would be forgotten before limit_s = {scenario.limit_s:g}, when their "
            f"results are read; leave it out"
        )
    return its


def _check(scenario: Scenario) -> None:
    """Check all that types cannot say. ValueError names the key, the value and the range."""
    if not scenario.sites:
        raise ValueError("sites: none; name at least one in [[sites]]")
    if not 0 < scenario.limit_s <= 1e9:
        raise ValueError(f"limit_s = {scenario.limit_s}: want seconds, more than 0, up to 1e+09")
    if not 0 <= scenario.fsync_s <= 60:
        raise ValueError(f"fsync_s = {scenario.fsync_s}: want seconds, 0 to 60")
    demand_spec.check_quotas(scenario)
    for key in ("slots", "speed"):
        if key in scenario.settings:
            raise ValueError(f"settings: {key} is each site's own; write it into [[sites]]")
    _read_in_time(scenario, SiteSpec("any"))
    for site in scenario.sites:
        site_id(site.name)
        try:
            its = _read_in_time(scenario, site)
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError(f"sites {site.name}: {error}") from None
        check_machines(site)
        check_lrm(site, its.slots)
    names = _unique([s.name for s in scenario.sites], "sites")
    for site in scenario.sites:
        if site.witness:
            _known(site.witness, tuple(name for name in names if name != site.name), f"sites {site.name}: witness")
    if not 0 <= scenario.seeds <= 1000:
        raise ValueError(f"seeds = {scenario.seeds}: want 0 to 1000")
    _unique([d.name for d in scenario.datasets], "datasets")
    users = _unique([u.name for u in scenario.users], "users")
    shares = [f"{w.name} at {site}" for w in scenario.workload for site in w.forced]
    _unique([*(w.name for w in scenario.workload), *shares], "workload")
    check_numbered(scenario.workload)
    for user in users:
        if user.count("@") != 1:
            raise ValueError(f"users: {user!r}: want NAME@VO")
    if len({u.partition("@")[2] for u in users}) != 1:
        raise ValueError(f"users: {', '.join(users) or 'none'}: want at least one, all of one VO")
    check_links(scenario, names, _known)
    for dataset in scenario.datasets:
        _unique([dataset.site, *dataset.replicas], f"datasets {dataset.name}: site, replicas")
        for site_name in (dataset.site, *dataset.replicas):
            _known(site_name, names, f"datasets {dataset.name}: site")
        if not (1 <= dataset.files <= MOST_FILES and 0 <= dataset.file_bytes <= 10**15):
            raise ValueError(
                f"datasets {dataset.name}: files = {dataset.files}, file_bytes = {dataset.file_bytes}: want 1 to "
                f"{MOST_FILES:g}, 0 to 1e+15"
            )
    for work in scenario.workload:
        check_work(work, scenario, names, users)
        demand_spec.check_generate(work, scenario, names, users)
        check_trace(work, scenario, names)
        check_data(work, len(names))
    chains.check(scenario)
    check_compare(scenario)
    check_variants(scenario)
    check_events(scenario.events, names)
    check_faults(scenario.faults)
    if not scenario.expect.makespan_s <= 1e12:
        raise ValueError(f"expect: makespan_s = {scenario.expect.makespan_s}: want seconds, at most 1e+12")
    swarm = scenario.swarm
    if not (0 <= swarm.fewer < 1 and 0 <= swarm.drop <= 1 and 0 <= swarm.times_s <= 1e9 and 0 <= swarm.moves <= 1000):
        told = ", ".join(f"{key} = {getattr(swarm, key)}" for key in swarm.__struct_fields__)
        raise ValueError(f"swarm: {told}: want fewer and drop of 0 to 1, times_s of 0 to 1e9, 0 to 1000 moves")
    if swarm.fewer and max(scenario.expect.done, scenario.expect.failed) >= 0:
        raise ValueError(f"swarm: fewer = {swarm.fewer}: nobody can expect a number of jobs then; leave one out")
    for key in scenario.report:
        _known(key, REPORT_KEYS, "report")
    if "bound" in scenario.report:
        central_spec.check(scenario)
