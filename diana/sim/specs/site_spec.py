"""The sites of a scenario, one by one or from a table."""

from __future__ import annotations

import msgspec

from diana.sim.specs.compare_spec import SettingsTable
from diana.sim.specs.lrm_spec import BackgroundSpec, LrmKind
from diana.sim.specs.machine_spec import MachineSpec, MaintenanceSpec
from diana.sim.specs.resources_spec import ResourcesSpec


class SiteSpec(ResourcesSpec, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    gaps_s: tuple[float, ...] = ()
    """Seconds, each as likely as the others, for which slots stay empty after a job though others wait; none: 0."""
    waits_s: tuple[float, ...] = ()
    """Seconds, each as likely as the others, that a job which finds free slots waits for its begin, as in the queue of
    a batch system; none: 0."""
    maintenance: tuple[MaintenanceSpec, ...] = ()
    """Times when it takes no work."""

    def offered_by(self, machine: MachineSpec) -> tuple[str, ...]:
        return self.software if machine.software is None else machine.software


class SitesFromSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CSV file with a header whose rows are sites, after those of `[[sites]]`; the keys from `name` to `by` name its
    columns."""

    file: str
    """Path from the scenario's folder; .csv or .csv.gz."""
    name: str
    """The column of names; characters that a site's name cannot hold (all but small letters and digits) become
    hyphens."""
    slots: str
    """The column of slots."""
    speed: str = ""
    """The column of speeds; empty: all have speed 1."""
    place: str = ""
    """The column of the names by which `rtt_from` knows the sites; empty: the column of `name`."""
    node: str = ""
    """The column of the router where a site is; empty: by its name, as for any site."""
    by: str = ""
    """The column whose largest numbers come first, of equal ones the row above; empty: as in the file."""
    measured: bool = False
    """True: only rows that `rtt_from` knows."""
    top: int = 0
    """Number of rows taken, the first ones; 0: all."""
