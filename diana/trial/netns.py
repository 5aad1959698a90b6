"""Nodes as processes in network namespaces of their own on one bridge: hosts that see nothing but their network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress

from diana.errors import DianaError, Unreachable, UsageError
from diana.trial.ground import PORT, NodeProcess
from diana.trial.processes import Processes
from diana.trial.walls import Walls

NETWORK = "10.91"
"""A /16 in which host k has address 1 + k; the bridge has a namespace of its own, so runs do not meet."""


class Namespaces(Walls, Processes):
    """Root, ip, tc and iptables are needed."""

    def open(self) -> None:
        if os.geteuid() != 0:
            raise UsageError("--on netns: network namespaces want root; use --on processes, or sudo")
        for tool in ("ip", "tc", "iptables"):
            if shutil.which(tool) is None:
                raise UsageError(f"--on netns: no {tool} on this machine; install iproute2 and iptables")
        self._prefix = f"dt{os.getpid() % 100_000}"
        for machine in self.machines:
            machine.folder.mkdir(parents=True)
            machine.address = f"{self.ip(machine)}:{PORT}"
        self._make()
        self.shape()

    def _make(self) -> None:
        switch = f"{self._prefix}s"
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        _ip("-n", switch, "link", "set", "br0", "up")
        for machine in self.machines:
            host, port = self._host(machine), f"v{machine.number}"
            _ip("netns", "add", host)
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("-n", switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", host, "addr", "add", f"{self.ip(machine)}/16", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "link", "set", "lo", "up")
        if len(self.scenario.users) > 1:
            # Users with credentials call over TCP, from this machine.
            _ip("-n", switch, "link", "add", "vu", "type", "veth", "peer", "name", f"{self._prefix}u", "netns", "1")
            _ip("-n", switch, "link", "set", "vu", "master", "br0", "up")
            _ip("addr", "add", f"{NETWORK}.255.254/16", "dev", f"{self._prefix}u")
            _ip("link", "set", f"{self._prefix}u", "up")

    def _host(self, machine: NodeProcess) -> str:
        return f"{self._prefix}h{machine.number}"

    def ip(self, machine: NodeProcess) -> str:
        number = machine.number + 1
        return f"{NETWORK}.{number // 250}.{number % 250}"

    def close(self) -> None:
        try:
            Processes.close(self)
        finally:
            if hasattr(self, "_prefix"):
                for name in (f"{self._prefix}s", *(self._host(machine) for machine in self.machines)):
                    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def words(self, machine: NodeProcess, words: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._host(machine), *super().words(machine, words)]

    def as_root(self, machine: NodeProcess, command: Sequence[str]) -> None:
        _run(["ip", "netns", "exec", self._host(machine), *command])

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.wall(pairs, mend=False)

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        with suppress(DianaError):
            self.wall(pairs, mend=True)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unreachable(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
