"""Grounds on which real nodes stand: what a ground must be able to do to its machines, and what all grounds do
alike."""

from __future__ import annotations

import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from diana.client import Client
from diana.errors import DianaError, Unreachable, one_line
from diana.model.layout import DataDir
from diana.sim.specs.scenario_spec import Scenario

Role = Literal["site", "standby", "member"]
PORT = 7400
SAY_S = 90.0
"""A `diana` command that has not ended by then hangs."""
_WARNED = re.compile(r"^[0-9-]{10} \S+ (WARNING|ERROR|CRITICAL) ", re.MULTILINE)


class NodeProcess:
    """One node process and its data directory, which this process can read; both survive a kill."""

    def __init__(self, folder: Path, site: str, name: str, role: Role, number: int) -> None:
        self.site = site
        self.name = name
        """Name of the machine within its site; the site's name where it is the site's own."""
        self.role: Role = role
        self.number = number
        """Number from 1 on, over all machines of the ground."""
        self.called = site if role == "site" else f"{site}-{name}"
        """Name among all machines."""
        self.folder = folder / self.called
        self.data = self.folder / "data"
        self.paths = DataDir(self.data)
        self.output = self.folder / "node.out"
        self.address = ""
        """host:port it listens at, for the other machines; a ground sets it."""
        self.boots = 0
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """A client over the node's own socket, which no network fault reaches."""
        if self._client is None:
            self._client = Client(data=self.data)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def answers(self) -> bool:
        with suppress(DianaError):
            return self.client.info().pid > 0
        return False

    def pid(self) -> int:
        """Process id of the node; 0: it does not answer."""
        with suppress(DianaError):
            return self.client.info().pid
        return 0

    def warnings(self) -> int:
        """Lines in its log that an operator is to look at."""
        with suppress(OSError):
            return len(_WARNED.findall(self.paths.node_log.read_text("utf-8", "replace")))
        return 0

    def last_words(self) -> str:
        """Last line of the node's output or log, for a message about a node that does not do what it should."""
        for path in (self.output, self.paths.node_log):
            with suppress(OSError):
                if lines := path.read_text("utf-8", "replace").strip().splitlines():
                    return f"; {path} ends: {one_line(lines[-1])}"
        return ""


class Testbed(ABC):
    """Machines and the network between them. `open` before all else; `close` ends whatever was made, whatever happened
    between, and may be called twice.

    `factor`: how much faster than the scenario's its clock runs. Latencies and rates are scaled with it."""

    def __init__(self, root: Path, scenario: Scenario, factor: float) -> None:
        self.root = root
        self.scenario = scenario
        self.factor = factor
        self.machines: list[NodeProcess] = []
        for spec in scenario.sites:
            self._add(spec.name, spec.name, "site")
            for member in spec.machines:
                self._add(spec.name, member.name, "member")
            if spec.standby:
                self._add(spec.name, "standby", "standby")
        self.unlike: list[str] = []
        """Wishes of the scenario that cannot be had here, one line each."""

    def _add(self, site: str, name: str, role: Role) -> None:
        self.machines.append(NodeProcess(self.root, site, name, role, len(self.machines) + 1))

    def of(self, site: str) -> list[NodeProcess]:
        """The site's own machine first."""
        return [machine for machine in self.machines if machine.site == site]

    def main(self, site: str) -> NodeProcess:
        return self.of(site)[0]

    def advertised(self, machine: NodeProcess) -> str:
        """host:port where others are to dial it; empty: at its address."""
        return ""

    def dialled(self, machine: NodeProcess) -> str:
        """host:port where this process reaches it."""
        return machine.address

    @abstractmethod
    def open(self) -> None:
        """Make the hosts and give every machine its address. DianaError in one line when that cannot be done here."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def words(self, machine: NodeProcess, words: Sequence[str]) -> list[str]:
        """The command line that runs `diana WORDS` at the machine."""

    def say(self, machine: NodeProcess, *words: str, told: str = "") -> str:
        """Run `diana WORDS` there, with `told` as its standard input; what it printed. Unreachable with its one line
        when it fails."""
        try:
            done = subprocess.run(
                self.words(machine, words),
                env=self.environment(machine),
                cwd=machine.folder,
                input=told,
                capture_output=True,
                text=True,
                timeout=SAY_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{machine.called}: diana {words[0]} did not end within {SAY_S:g} s") from None
        if done.returncode:
            said = done.stderr.strip().removeprefix("diana: ") or f"exit code {done.returncode}"
            raise Unreachable(f"{machine.called}: diana {words[0]}: {said}")
        return done.stdout

    def environment(self, machine: NodeProcess) -> dict[str, str]:
        return {**os.environ, "DIANA_DATA": ""}

    @abstractmethod
    def launch(self, machine: NodeProcess) -> None:
        """Start its node, or its whole machine where that is off."""

    @abstractmethod
    def runs(self, machine: NodeProcess) -> bool:
        """True if its node's process is there; does not ask the node."""

    @abstractmethod
    def power_off(self, machine: NodeProcess) -> None:
        """Switch the machine off at once: its node, spawner and jobs are gone, its disk stays."""

    @abstractmethod
    def end_node(self, machine: NodeProcess) -> None:
        """Gracefully; spawner and jobs stay. Returns when it has ended."""

    @abstractmethod
    def stop(self, machine: NodeProcess) -> None:
        """SIGSTOP of its node alone."""

    @abstractmethod
    def go_on(self, machine: NodeProcess) -> None: ...

    @abstractmethod
    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Cut these sites off from each other from now on; packets vanish, connections are not reset."""

    @abstractmethod
    def mend(self, pairs: Iterable[tuple[str, str]]) -> None: ...
