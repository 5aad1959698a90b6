"""The machines of a scenario's site, and the times when they take no work."""

from __future__ import annotations

import msgspec

from diana.model.maintenance import Window
from diana.sim.specs.resources_spec import ResourcesSpec


class MachineSpec(ResourcesSpec, frozen=True, forbid_unknown_fields=True):
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
