"""Checks of a site: its machines and their software, and its batch system with the jobs of others."""

from __future__ import annotations

from collections.abc import Iterator

from diana.model.ids import MAIN_MACHINE
from diana.model.job.devices import MOST
from diana.model.job.software import CONTAINERS, is_module
from diana.sim.load import background
from diana.sim.specs.lrm_spec import BackgroundSpec
from diana.sim.specs.names import unique
from diana.sim.specs.resources_spec import check_resources
from diana.sim.specs.site_spec import SiteSpec


def check_machines(site: SiteSpec) -> None:
    """ValueError names the key, the value and the mend."""
    unique([MAIN_MACHINE, *(machine.name for machine in site.machines)], f"sites {site.name}: machines")
    for machine in site.machines:
        if not (machine.name and 0 <= machine.slots <= 1_000_000 and 0 <= machine.speed <= 1000):
            at = f"sites {site.name}: machines {machine.name!r}"
            raise ValueError(f"{at}: slots = {machine.slots}, speed = {machine.speed}: want 0 to 1e+06 and 0 to 1000")
        check_resources(machine, f"sites {site.name}: machines {machine.name!r}", MOST)
    check_resources(site, f"sites {site.name}", MOST)
    for name, times_s in (("gaps_s", site.gaps_s), ("waits_s", site.waits_s)):
        if len(times_s) > 1000 or not all(0 <= each <= 1e6 for each in times_s):
            raise ValueError(f"sites {site.name}: {name}: want at most 1000 numbers of 0 to 1e+06")
        if times_s and site.lrm != "slots":
            raise ValueError(f"sites {site.name}: {name}: lrm = {site.lrm!r} has waits of its own; leave one out")
    if site.amounts and site.lrm != "slots":
        name, count = site.amounts[0]
        raise ValueError(
            f"sites {site.name}: {name} = {count}: there are none behind lrm = {site.lrm!r}; leave one out"
        )
    known = (MAIN_MACHINE, *(machine.name for machine in site.machines))
    for span in site.maintenance:
        at = f"sites {site.name}: maintenance"
        if not 0 <= span.from_s < span.to_s <= 1e9:
            raise ValueError(f"{at}: from_s = {span.from_s}, to_s = {span.to_s}: want 0 to 1e9, the second later")
        for name in span.machines:
            if name not in known:
                raise ValueError(f"{at}: machines: {name!r}: want some of {', '.join(known)}")
    if site.maintenance and site.standby:
        raise ValueError(f"sites {site.name}: maintenance: a site with a standby has none here; leave one out")
    for offered, at in ((site.software, f"sites {site.name}"), *_of_machines(site)):
        for one in offered:
            name = one.removeprefix("module ")
            if one != CONTAINERS and (name == one or not (name == "*" or is_module(name))):
                raise ValueError(f"{at}: software: {one!r}: want 'containers', 'module NAME' or 'module *'")


def _of_machines(site: SiteSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    for machine in site.machines:
        yield machine.software or (), f"sites {site.name}: machines {machine.name!r}"


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
