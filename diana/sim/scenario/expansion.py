"""The scenario written out: sites and users with a `count` one by one, the files of logs and
histories by their full paths."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec


def with_all_sites(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with each site of a `count` as so many sites, and traces where they are found. ValueError for a
    count that cannot be."""
    if all(site.count == 1 and site.background is None for site in scenario.sites):
        return scenario
    sites: list[SiteSpec] = []
    for site in scenario.sites:
        if not 1 <= site.count <= 1_000_000:
            raise ValueError(f"sites {site.name}: count = {site.count}: want 1 to 1e+06")
        others = site.background
        if others is not None and others.trace:
            site = replace(site, background=replace(others, trace=str(folder / others.trace)))
        sites.append(replace(site, count=1))
        sites += (replace(site, name=f"{site.name}-{k}", count=1) for k in range(2, site.count + 1))
    return replace(scenario, sites=tuple(sites))


def with_all_users(scenario: Scenario) -> Scenario:
    """The scenario with each user of a `count` as so many users. ValueError for a count that cannot be."""
    if all(user.count == 1 for user in scenario.users):
        return scenario
    people: dict[str, tuple[UserSpec, ...]] = {}
    for user in scenario.users:
        if not 1 <= user.count <= 1_000_000:
            raise ValueError(f"users {user.name}: count = {user.count}: want 1 to 1e+06")
        name, at, vo = user.name.partition("@")
        names = [user.name, *(f"{name}-{k}{at}{vo}" for k in range(2, user.count + 1))]
        people[user.name] = tuple(msgspec.structs.replace(user, name=one, count=1) for one in names)
    work = tuple(_naming_all(one, people) for one in scenario.workload)
    users = tuple(user for some in scenario.users for user in people[some.name])
    return msgspec.structs.replace(scenario, users=users, workload=work)


def _naming_all(work: WorkSpec, people: dict[str, tuple[UserSpec, ...]]) -> WorkSpec:
    if work.generate is None or not work.generate.users:
        return work
    names = [one.name if isinstance(one, UserSpec) else one for n in work.generate.users for one in people.get(n, (n,))]
    return msgspec.structs.replace(work, generate=msgspec.structs.replace(work.generate, users=tuple(names)))


def placed(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with the logs' files as absolute paths, and with what was left out of them in the report."""
    if any(work.history for work in scenario.workload):
        scenario = replace(scenario, workload=tuple(_with_history(work, folder) for work in scenario.workload))
    if not any(work.trace for work in scenario.workload):
        return scenario
    workload = tuple(
        replace(work, trace=replace(work.trace, file=str((folder / work.trace.file).resolve()))) if work.trace else work
        for work in scenario.workload
    )
    report = scenario.report if "traces" in scenario.report else (*scenario.report, "traces")
    return replace(scenario, workload=workload, report=report)


def _with_history(work: WorkSpec, folder: Path) -> WorkSpec:
    if work.history is None:
        return work
    return replace(work, history=replace(work.history, file=str((folder / work.history.file).resolve())))
