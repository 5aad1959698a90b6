"""The machines of a scenario's site, and the software that jobs want of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from diana.model.ids import MAIN_MACHINE
from diana.model.job.devices import MOST
from diana.model.job.software import CONTAINERS, is_module, plain
from diana.model.job.spec import GroupSpec
from diana.model.maintenance import Window
from diana.sim.specs.names import unique

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import SiteSpec, WorkSpec


class MachineSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member machine of a site's SubGrid. The site's `slots` are those of its own machine."""

    name: str
    """Name within its site."""
    slots: int = 1
    """Processors jobs may hold on it."""
    speed: float = 0.0
    """Speed of the machine; 0: the site's."""
    fails: bool = False
    """True: every job exits 1 there, in 10 ms."""
    software: tuple[str, ...] | None = None
    """Software that jobs may ask for there; left out: the site's."""
    gpus: int = 0
    """GPUs of this machine; each is one job's at a time."""


class MaintenanceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time at which a site takes no work; known from the start."""

    from_s: float
    """Time when it begins."""
    to_s: float
    """Time when the site takes work again."""
    machines: tuple[str, ...] = ()
    """Machines that take no work; none: the whole site."""
    reason: str = ""
    """Text that everybody who meets it is shown."""

    def window(self) -> Window:
        return Window(from_wall_s=self.from_s, to_wall_s=self.to_s, reason=self.reason, machines=self.machines)


def check_machines(site: SiteSpec) -> None:
    """ValueError names the key, the value and the mend."""
    unique([MAIN_MACHINE, *(machine.name for machine in site.machines)], f"sites {site.name}: machines")
    for machine in site.machines:
        if not (machine.name and 0 <= machine.slots <= 1_000_000 and 0 <= machine.speed <= 1000):
            at = f"sites {site.name}: machines {machine.name!r}"
            raise ValueError(f"{at}: slots = {machine.slots}, speed = {machine.speed}: want 0 to 1e+06 and 0 to 1000")
    for gpus in (site.gpus, *(machine.gpus for machine in site.machines)):
        if not 0 <= gpus <= MOST:
            raise ValueError(f"sites {site.name}: gpus = {gpus}: want 0 to {MOST}")
    if site.gpus and site.lrm != "slots":
        raise ValueError(
            f"sites {site.name}: gpus = {site.gpus}: there are none behind lrm = {site.lrm!r}; leave one out"
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


def check_wanted(work: WorkSpec, at: str) -> None:
    """ValueError: no site could offer a name like that."""
    if not plain(GroupSpec(argv=("",), container=work.container, modules=work.modules)):
        text = f"container = {work.container!r}, modules = {list(work.modules)}"
        raise ValueError(f"{at}: {text}: want names as a job file may have them")
