"""Member machines as real node processes, for tests of a SubGrid."""

from __future__ import annotations

import msgspec

from diana.adapters.datadir import OpenDataDir
from diana.adapters.trust import certificates
from diana.model.ids import SiteId
from diana.node.config.site_file import SiteConfig
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until


class Machine(Site):
    """A member of a site. It serves no groups: how often it attached is what its log says."""

    root: Site | None = None
    """Machine that leads when it starts, which is asked whether it counts on this one; None: nobody is."""

    def attachments(self) -> int:
        return self.paths.node_log.read_text().count("attached to ") if self.paths.node_log.exists() else 0

    def ready(self) -> None:
        before = getattr(self, "_seen", 0)
        until(lambda: self.attachments() > before, lambda: f"{self.name} attaches\n{self.story()}", 20.0)
        self._seen = self.attachments()
        if self.root is not None and self.root.process is not None and self.root.process.poll() is None:
            until(self._counted, lambda: f"{self.root and self.root.name} counts on {self.name}\n{self.story()}", 20.0)

    def _counted(self) -> bool:
        """True once the leading machine has heard of its slots, which it says after it attached."""
        assert self.root is not None
        with self.root.client() as client:
            rows = [row for row in client.peers().machines if row.machine == self.name]
        return any(row.state == "here" and row.slots > 0 for row in rows)

    def start(self) -> None:
        self._seen = self.attachments()
        self.launch()
        self.ready()

    def complaints(self) -> list[str]:
        """A machine may say that nobody is there to attach to, and its first line is another than a site's."""
        return [line for line in super().complaints() if "diana 0" not in line]


def add_member(grid: Grid, root: Site, machine: str, slots: int = 2, *, valid_days: float = 7.0) -> Machine:
    """A machine of `root`'s site that is not started yet; named in the grid, which ends it."""
    made = Machine(machine, grid.root / machine, 0, grid.mark)
    OpenDataDir(made.data).close()
    certificates.issue_member(root.paths.keys, root.name, machine, made.paths.keys, valid_days=valid_days)
    config = SiteConfig(
        site=SiteId(root.name),
        vo=certificates.vo_of(root.paths.keys),
        zeroconf=False,
        role="member",
        machine=machine,
        root=(root.address,),
        root_jobs=True,
    )
    settings = msgspec.structs.replace(config.settings, slots=slots)
    write_config(made.paths.config, msgspec.structs.replace(config, settings=settings))
    grid.sites[machine], made.root = made, root
    return made
