"""Links and partitions made by the kernels of hosts that have addresses of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.sim.scenario.topology import Topology
from diana.trial import kernel
from diana.trial.ground import NodeProcess, Testbed


class Walls(Testbed):
    """A ground whose machines take tc and iptables."""

    @abstractmethod
    def ip(self, machine: NodeProcess) -> str: ...

    def device(self, machine: NodeProcess) -> str:
        """The machine's device on its way to the others."""
        return "eth0"

    @abstractmethod
    def as_root(self, machine: NodeProcess, command: Sequence[str]) -> None:
        """Run it at the machine, as its root. DianaError when it fails."""

    def shape(self) -> None:
        """Every way between machines of two sites as its link says; what this kernel cannot do is told in `unlike`."""
        if len(self.scenario.sites) < 2:
            return
        self._shapes, self._netem = Topology(self.scenario), self._has_netem()
        for machine in self.machines:
            self.shape_one(machine)
        if not self._netem:
            self.unlike.append("links: this kernel has no netem, so messages do not wait for latency_s")
        if self.scenario.default_link.loss or any(link.loss for link in self.scenario.links):
            self.unlike.append("links: loss is not made; what TCP carries would only come later")

    def shape_one(self, machine: NodeProcess) -> None:
        """Shape what the machine sends, where its device is new."""
        ways = []
        for other in self.machines:
            if other.site != machine.site:
                latency_s, bytes_per_s, *_ = self._shapes.figures(SiteId(machine.site), SiteId(other.site))
                ways.append(kernel.Route(self.ip(other), bytes_per_s * self.factor, latency_s / self.factor))
        for command in kernel.shaping(self.device(machine), ways, self._netem) if ways else ():
            self.as_root(machine, command)

    def _has_netem(self) -> bool:
        try:
            for command in kernel.trying_netem(self.device(self.machines[0])):
                self.as_root(self.machines[0], command)
        except DianaError:
            return False
        return True

    def wall(self, pairs: Iterable[tuple[str, str]], *, mend: bool) -> None:
        """Let no packet pass between the machines of these sites; or let them pass again."""
        for a, b in pairs:
            for here, there in ((a, b), (b, a)):
                for machine in self.of(here):
                    self.wall_one(machine, there, mend=mend)

    def wall_one(self, machine: NodeProcess, site: str, *, mend: bool = False) -> None:
        for other in self.of(site):
            for command in kernel.cutting(self.ip(other), mend=mend):
                self.as_root(machine, command)
