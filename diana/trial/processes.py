"""Nodes as processes of this machine, on loopback; the links between sites are TCP proxies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from diana.adapters.loopback import free_addresses
from diana.errors import Unreachable
from diana.model.ids import SiteId
from diana.sim.scenario.topology import Topology
from diana.sim.specs.scenario_spec import Scenario
from diana.trial import ending
from diana.trial.ground import NodeProcess, Testbed
from diana.trial.links import Shape, ShapedLinks

END_S = 12.0
"""A node that has not ended this long after SIGTERM never will."""


class Processes(Testbed):
    def __init__(self, root: Path, scenario: Scenario, factor: float) -> None:
        super().__init__(root, scenario, factor)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._links: ShapedLinks | None = None
        self._proxies: dict[str, str] = {}
        self._shapes = Topology(scenario)

    def open(self) -> None:
        for machine in self.machines:
            machine.folder.mkdir(parents=True)
        for machine, address in zip(self.machines, free_addresses(len(self.machines)), strict=True):
            machine.address = address
        if len(self.scenario.sites) > 1:
            self._links = ShapedLinks(self._shape, self._pids)
            for machine in self.machines:
                if machine.role != "member":
                    self._proxies[machine.called] = self._links.open(machine.site, machine.address)
        if self.scenario.default_link.loss or any(link.loss for link in self.scenario.links):
            self.unlike.append("links: loss is not made; what TCP carries would only come later")

    def _shape(self, a: str, b: str) -> Shape:
        latency_s, bytes_per_s, _, _ = self._shapes.figures(SiteId(a), SiteId(b))
        return Shape(bytes_per_s * self.factor, latency_s / self.factor)

    def _pids(self) -> Iterator[tuple[str, int]]:
        sites = {machine.called: machine.site for machine in self.machines}
        for called, node in list(self._nodes.items()):
            yield sites[called], node.pid

    def advertised(self, machine: NodeProcess) -> str:
        return self._proxies.get(machine.called, "")

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        for node in self._nodes.values():
            with suppress(ProcessLookupError):
                node.send_signal(signal.SIGCONT)
                node.send_signal(signal.SIGTERM)
        end = time.monotonic() + END_S
        for node in self._nodes.values():
            with suppress(subprocess.TimeoutExpired):
                node.wait(max(0.1, end - time.monotonic()))
        ending.kill_all(map(self._mark, self.machines), [machine.data for machine in self.machines])
        for node in self._nodes.values():
            node.wait()
        self._nodes.clear()
        if self._links is not None:
            self._links.close()
            if self._links.faults:
                raise Unreachable("; ".join(self._links.faults[:3]))

    def words(self, machine: NodeProcess, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "diana.cli", *words]

    def _mark(self, machine: NodeProcess) -> str:
        """The environment entry of all that is started there, but for jobs."""
        return f"{ending.MARK}={os.getpid()}:{machine.folder}"

    def environment(self, machine: NodeProcess) -> dict[str, str]:
        name, _, value = self._mark(machine).partition("=")
        source = str(Path(__file__).parents[2])
        path = os.pathsep.join(dict.fromkeys([source, *filter(None, [os.environ.get("PYTHONPATH")])]))
        return {**super().environment(machine), name: value, "PYTHONPATH": path}

    def launch(self, machine: NodeProcess) -> None:
        machine.boots += 1
        with machine.output.open("ab") as out:
            # Out of the terminal's process group: Ctrl-C is ours to turn into an orderly end.
            self._nodes[machine.called] = subprocess.Popen(
                self.words(machine, ("node", "--data", str(machine.data), "--no-zeroconf")),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment(machine),
                start_new_session=True,
            )

    def runs(self, machine: NodeProcess) -> bool:
        node = self._nodes.get(machine.called)
        return node is not None and node.poll() is None

    def power_off(self, machine: NodeProcess) -> None:
        machine.close()
        # Node and spawner come first: they must not see the jobs end and write that down.
        ending.kill_all([self._mark(machine)], [machine.data])
        if (node := self._nodes.get(machine.called)) is not None:
            node.wait()

    def end_node(self, machine: NodeProcess) -> None:
        machine.close()
        node = self._nodes[machine.called]
        node.send_signal(signal.SIGTERM)
        try:
            node.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{machine.called}: its node did not end within {END_S:g} s") from None

    def stop(self, machine: NodeProcess) -> None:
        self._nodes[machine.called].send_signal(signal.SIGSTOP)

    def go_on(self, machine: NodeProcess) -> None:
        with suppress(ProcessLookupError):
            self._nodes[machine.called].send_signal(signal.SIGCONT)

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        if self._links is not None:
            self._links.cut(pairs)

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        if self._links is not None:
            self._links.mend(pairs)
