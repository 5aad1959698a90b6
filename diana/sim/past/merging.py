"""Histories of several sites as one: each tells what was submitted there, and of itself more than others know of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.load import past
from diana.sim.past.recording import SCENARIO
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.machine_spec import MaintenanceSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.trace_spec import HistorySpec
from diana.sim.specs.work_spec import WorkSpec

MOST_APART_S = 366 * past.DAY_S
"""Most seconds between the beginnings of two histories that are merged."""


def load(folder: Path) -> Scenario:
    """The scenario of a history's folder. UsageError: there is none, or it holds no history."""
    path = folder / SCENARIO if folder.is_dir() else folder
    scenario = sc.load(path)
    if not any(work.history for work in scenario.workload):
        raise UsageError(f"{path}: no history: none of its workload has one; make it with diana history export")
    return scenario


def begins_wall_s(folder: Path) -> float:
    """The time when the first history of a folder begins, in seconds since 1970."""
    return min(past.read(work.history.file).start_wall_s for work in load(folder).workload if work.history is not None)


def merged(folders: Sequence[Path], out: Path) -> Scenario:
    """Write the histories of these folders as one into `out`, and return its scenario. UsageError: two are of one site,
    or their times are years apart."""
    parts = [load(folder) for folder in folders]
    told = [(part, work, work.history) for part in parts for work in part.workload if work.history is not None]
    homes = [work.site for _, work, _ in told]
    twice = next((site for site in homes if homes.count(site) > 1), None)
    if twice is not None:
        raise UsageError(f"history merge: two of them are of {twice}; leave one out")
    starts = {work.site: past.read(history.file).start_wall_s for _, work, history in told}
    first = min(starts.values())
    far = next((site for site, start in starts.items() if start - first > MOST_APART_S), None)
    if far is not None:
        raise UsageError(f"history merge: that of {far} begins more than a year after another; export the same span")
    # What a site says of itself stands before what others saw of it.
    owners = {work.site: part for part, work, _ in told}
    sites: dict[str, SiteSpec] = {}
    for part in parts:
        for site in part.sites:
            if site.name not in sites or owners.get(site.name) is part:
                late_s = starts[site.name] - first if owners.get(site.name) is part else 0.0
                sites[site.name] = _later(site, late_s)
    users: dict[str, UserSpec] = {}
    links: dict[frozenset[str], LinkSpec] = {}
    datasets: dict[str, DatasetSpec] = {}
    for part in parts:
        # A site that tells of itself alone has no users: a scenario without any gets one.
        for user in part.users if _tells_groups(part) else ():
            users.setdefault(user.name, user)
        for link in part.links:
            links.setdefault(frozenset(link.between), link)
        for data in part.datasets:
            known = datasets.get(data.name)
            places = {data.site, *data.replicas, *(known.replicas if known else ())}
            first_seen = known or data
            datasets[data.name] = replace(first_seen, replicas=tuple(sorted(places - {first_seen.site})))
    out.mkdir(parents=True, exist_ok=True)
    work = []
    for _, one, history in told:
        source, target = Path(history.file), out / Path(history.file).name
        if not target.exists() or not source.samefile(target):
            shutil.copyfile(source, target)
        at_s = one.submit_s + starts[one.site] - first
        work.append(WorkSpec(one.name, site=one.site, submit_s=at_s, history=HistorySpec(target.name)))
    events = [
        replace(event, at_s=event.at_s + starts[site] - first) for site, part in owners.items() for event in part.events
    ]
    scenario = Scenario(
        version=1,
        name=f"history of {', '.join(homes)}",
        about="Written by diana history merge.",
        sites=tuple(sites[name] for name in sorted(sites)),
        links=tuple(links.values()),
        datasets=tuple(datasets.values()),
        users=tuple(users.values()),
        events=tuple(sorted(events, key=lambda event: event.at_s)),
        workload=tuple(work),
        limit_s=max(part.limit_s for part in parts) + max(starts.values()) - first,
    )
    (out / SCENARIO).write_text(written(scenario), encoding="utf-8")
    return load(out)


def _tells_groups(part: Scenario) -> bool:
    logs = [past.read(work.history.file) for work in part.workload if work.history is not None]
    return any(log.groups or log.never_ran for log in logs)


def _later(site: SiteSpec, late_s: float) -> SiteSpec:
    moved = tuple(MaintenanceSpec(w.from_s + late_s, w.to_s + late_s, w.machines, w.reason) for w in site.maintenance)
    return replace(site, maintenance=moved)
