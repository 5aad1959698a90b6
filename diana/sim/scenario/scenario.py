"""Scenario files: one versioned TOML names sites, links, datasets, users, work, faults, what must hold, what to report.

The schema is public (ARCHITECTURE concept 7): a wrong file gives one line that names the file, the key and the mend.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from diana import gang_plug_ins
from diana.bounds import MOST_TOML_BYTES, text_of, toml_of
from diana.errors import UsageError, one_line
from diana.model.ids import site_id
from diana.model.settings import Settings
from diana.sim.load import past, traced
from diana.sim.scenario.central_checks import check_central
from diana.sim.scenario.comparison import check_compare
from diana.sim.scenario.data_checks import check_data, check_datasets
from diana.sim.scenario.demand_checks import check_generate, check_quotas
from diana.sim.scenario.expansion import placed, with_all_users
from diana.sim.scenario.gang_checks import check_communication, check_gangs
from diana.sim.scenario.link_checks import check_links
from diana.sim.scenario.site_checks import check_lrm, check_machines
from diana.sim.scenario.sites_import import with_sites
from diana.sim.scenario.topology import Topology
from diana.sim.scenario.topology_import import imported
from diana.sim.scenario.trace_checks import check_history, check_trace
from diana.sim.scenario.variants import check_variants
from diana.sim.scenario.work_checks import check_chains, check_numbered, check_work
from diana.sim.specs.event_spec import check_events
from diana.sim.specs.fault_spec import check_faults
from diana.sim.specs.keys import check_keys
from diana.sim.specs.names import known, unique
from diana.sim.specs.scenario_spec import REPORT_KEYS, Scenario
from diana.sim.specs.site_spec import SiteSpec


def load(path: Path) -> Scenario:
    """Read and check; UsageError is one line with the file, the key and the mend."""
    try:
        text = text_of(path, MOST_TOML_BYTES)
    except OSError as e:
        raise UsageError(
            f"scenario {path}: {(e.strerror or str(e)).lower()}; give the path of a scenario file"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"scenario {path}: not UTF-8 text; give a TOML file") from None
    except ValueError as e:
        raise UsageError(f"scenario {path}: {e}; put its tables into files of their own") from None
    return parse(text, str(path), path.parent)


def reporting(scenario: Scenario, keys: tuple[str, ...]) -> Scenario:
    """The scenario with these keys reported instead of its own; none: its own. UsageError names one that is not
    known."""
    try:
        for key in keys:
            known(key, REPORT_KEYS, "report")
        scenario = msgspec.structs.replace(scenario, report=keys or scenario.report)
        check_compare(scenario)
        if "bound" in keys:
            check_central(scenario)
    except ValueError as e:
        raise UsageError(str(e)) from None
    return scenario


def parse(text: str, where: str = "scenario", folder: Path = Path()) -> Scenario:
    """Read a scenario from its text; UsageError as `load`. `folder`: the place of the files that it names; what is read
    from them stands in the scenario then."""
    try:
        raw: dict[str, Any] = toml_of(text)
    except ValueError as e:
        raise UsageError(f"{where}: no TOML: {e}") from None
    version = raw.get("version")
    if version != 1:
        said = "is missing" if version is None else f"= {version!r}"
        raise UsageError(f"{where}: version {said}: this release reads scenarios with `version = 1`")
    try:
        check_keys(raw, Scenario, "")
        if found := raw.keys() & {"gangs", "grads"}:
            return _tables(raw, min(found))
        scenario = imported(with_sites(msgspec.convert(raw, Scenario), folder), folder)
        scenario = placed(with_all_users(scenario), folder)
        _check(scenario)
        Topology(scenario)
    except (msgspec.ValidationError, ValueError) as e:
        raise UsageError(f"{where}: {one_line(str(e))}") from None
    for work in scenario.workload:
        if work.trace is not None:
            traced.taken(work, work.trace, scenario, 0)
        if work.history is not None:
            past.read(work.history.file)
    return scenario


def _tables(raw: dict[str, Any], key: str) -> Scenario:
    """Read a scenario that asks questions about gangs or their programs and runs no grid. ValueError names the key and
    the mend."""
    if beside := sorted(raw.keys() - {"version", "name", "about", key}):
        raise ValueError(f"{key}: a scenario with these questions runs no grid; leave out {', '.join(beside)}")
    scenario = msgspec.convert(raw, Scenario)
    if scenario.gangs is not None:
        check_gangs(scenario.gangs)
    return scenario


def _read_in_time(scenario: Scenario, site: SiteSpec) -> Settings:
    """The site's settings. ValueError: two do not go together, or its groups are forgotten before the report."""
    its = scenario.site_settings(site)
    if wrong := its.contradiction():
        raise ValueError(wrong)
    gang_plug_ins.check(its.gang_placement, "gang_placement")
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
    check_quotas(scenario)
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
    names = unique([s.name for s in scenario.sites], "sites")
    for site in scenario.sites:
        if site.witness:
            known(site.witness, tuple(name for name in names if name != site.name), f"sites {site.name}: witness")
    if not 0 <= scenario.seeds <= 1000:
        raise ValueError(f"seeds = {scenario.seeds}: want 0 to 1000")
    unique([d.name for d in scenario.datasets], "datasets")
    users = unique([u.name for u in scenario.users], "users")
    shares = [f"{w.name} at {site}" for w in scenario.workload for site in w.forced]
    unique([*(w.name for w in scenario.workload), *shares], "workload")
    check_numbered(scenario.workload)
    for user in users:
        if user.count("@") != 1:
            raise ValueError(f"users: {user!r}: want NAME@VO")
    if len({u.partition("@")[2] for u in users}) != 1:
        raise ValueError(f"users: {', '.join(users) or 'none'}: want at least one, all of one VO")
    check_links(scenario, names)
    check_datasets(scenario, names)
    check_communication(scenario.communication)
    for work in scenario.workload:
        check_work(work, scenario, names, users)
        check_generate(work, scenario, names, users)
        check_trace(work, scenario, names)
        check_history(work, scenario)
        check_data(work, len(names))
    check_chains(scenario)
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
        known(key, REPORT_KEYS, "report")
    if "bound" in scenario.report:
        check_central(scenario)
