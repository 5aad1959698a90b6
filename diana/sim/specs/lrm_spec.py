"""The site of a scenario beside its slots: the batch system before them, the jobs of others in it, and that there are
many such sites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from diana.sim.load import background

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import Scenario, SiteSpec

LrmKind = Literal["slots", "fcfs", "easy"]


class BackgroundSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that others submit to a site's batch system, past diana. They take processors and places in its queue."""

    trace: str = ""
    """A log in the Standard Workload Format, from the scenario's folder; its usable jobs come as they came then. Empty:
    they are drawn, by the seed of the run and the site's name."""
    from_s: float = 0.0
    """Second of the log, after its first submission, that is the site's `begin_s`."""
    load: float = 0.0
    """Offered work over the site's capacity. With a trace all gaps are stretched alike to give it; 0: as logged."""
    sizes: Literal["lublin", "given"] = "lublin"
    """lublin: processors and run times as Lublin and Feitelson's model says for a machine of this size; given:
    `processors`, and run times exponential with mean `run_s`. They come by a Poisson process."""
    processors: int = 1
    """Processors of each of these jobs, with `sizes = "given"`."""
    run_s: float = 3600.0
    """Mean run time of these jobs, with `sizes = "given"`."""
    request_factor: float = 2.0
    """Time they ask for over the time they take, which is all that EASY knows of them; a trace says its own."""
    begin_s: float = 0.0
    """Time from which on they come."""
    until_s: float = 0.0
    """Time from which on nobody submits any more; 0: they go on as long as the run."""


def expanded(scenario: Scenario, folder: Path) -> Scenario:
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


def check_lrm(site: SiteSpec, slots: int) -> None:
    """ValueError names the key, the value and the mend; UsageError: the trace cannot be used."""
    at = f"sites {site.name}"
    if site.lrm == "slots":
        if site.background is not None:
            raise ValueError(f"{at}: background: others need a batch system to submit to; set lrm = 'fcfs' or 'easy'")
        return
    if site.machines or site.standby:
        what = "machines" if site.machines else "standby"
        raise ValueError(f"{at}: lrm = {site.lrm!r}: its processors are its slots; leave {what} out")
    if slots < 1:
        raise ValueError(f"{at}: lrm = {site.lrm!r}: slots = {slots}: a batch system has at least 1")
    if site.background is not None:
        _check_background(site.background, slots, f"{at}: background")


def _check_background(spec: BackgroundSpec, slots: int, at: str) -> None:
    for key, low, high in (
        ("from_s", 0, 1e12),
        ("load", 0, 100),
        ("processors", 1, slots),
        ("run_s", 1e-3, 1e9),
        ("request_factor", 1, 1e6),
        ("begin_s", 0, 1e9),
        ("until_s", 0, 1e9),
    ):
        value = getattr(spec, key)
        if not low <= value <= high:
            raise ValueError(f"{at}: {key} = {value:g}: want {low:g} to {high:g}")
    if not (spec.trace or spec.load):
        raise ValueError(f"{at}: neither trace nor load; say whose jobs they are, or how many")
    if spec.until_s and spec.until_s <= spec.begin_s:
        raise ValueError(f"{at}: until_s = {spec.until_s:g}: want more than begin_s = {spec.begin_s:g}, or 0: no end")
    if spec.trace:
        background.check_trace(spec, slots, at)
