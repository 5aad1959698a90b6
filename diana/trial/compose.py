"""Nodes as services of docker-compose: a container per machine, written from the scenario and driven through docker.

A container is a machine that is switched on: it waits for its data directory, then keeps a node running. All lie in one
folder that is mounted under its own name, so a path means the same to a node, to its user and here.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from diana.errors import DianaError, Unreachable, UsageError
from diana.sim.specs.scenario_spec import Scenario
from diana.trial.ground import PORT, NodeProcess
from diana.trial.image import image, run_command
from diana.trial.walls import Walls

UP_S = 180.0
CALL_S = 60.0
END_S = 12.0
FILE = "docker-compose.yml"
CLIENT = "client"
_NETWORK = "grid"

# A node that ends is started again while `up` is there. The shell is no PID 1 (init: true), so it needs no reaping.
_SUPERVISOR = """trap 'kill -TERM $pid; wait $pid; exit 0' TERM
while :; do
  if [ -e up ]; then diana node --data {data} --no-zeroconf >>node.out 2>&1 & pid=$!; wait $pid; fi
  sleep 0.1
done
"""


def compose_file(machines: Sequence[NodeProcess], image_name: str, user: str, subnet: str) -> dict[str, Any]:
    """The file as docker-compose reads it (JSON is YAML): a service per machine, and a client with nothing but the
    command."""
    hosts = list(ipaddress.ip_network(subnet).hosts())
    common = {"image": image_name, "user": user, "init": True, "stop_grace_period": "5s"}
    services: dict[str, Any] = {}
    for machine in machines:
        script = _SUPERVISOR.format(data=machine.data).replace("$", "$$")
        services[machine.called] = {
            **common,
            "hostname": machine.called,
            "working_dir": str(machine.folder),
            "environment": {"DIANA_DATA": str(machine.data), "HOME": str(machine.folder)},
            "volumes": [f"{machine.folder}:{machine.folder}"],
            "cap_add": ["NET_ADMIN"],
            "command": ["sh", "-c", script],
            "networks": {_NETWORK: {"ipv4_address": str(hosts[machine.number])}},
        }
    services[CLIENT] = {
        **common,
        "command": ["sleep", "infinity"],
        "networks": {_NETWORK: {"ipv4_address": str(hosts[len(machines) + 1])}},
    }
    networks = {_NETWORK: {"ipam": {"config": [{"subnet": subnet}]}}}
    return {"version": "2.4", "services": services, "networks": networks}


class Compose(Walls):
    def __init__(self, root: Path, scenario: Scenario, factor: float) -> None:
        super().__init__(root, scenario, factor)
        if any(machine.called == CLIENT for machine in self.machines):
            raise UsageError(f"sites: {CLIENT!r} is the name of the service users call from; choose another")
        self._project = f"diana{os.getpid()}"
        self._compose: list[str] = []
        self._addresses: dict[str, str] = {}
        self._made = False
        self._ids: dict[str, str] = {}
        self._off: set[str] = set()
        self._stopped: dict[str, int] = {}
        """Machines whose node is stopped -> its process id in the container."""
        self._parted: set[tuple[str, str]] = set()
        self._walled: set[tuple[str, str]] = set()
        self._unplugged: set[str] = set()

    def open(self) -> None:
        name = image(lambda line: print(line, file=sys.stderr, flush=True))
        self._compose = _compose_command()
        for machine in self.machines:
            machine.folder.mkdir(parents=True)
            machine.address = f"{machine.called}:{PORT}"
        subnet = _free_subnet()
        user = f"{os.getuid()}:{os.getgid()}"
        plan = compose_file(self.machines, name, user, subnet)
        self._addresses = {
            called: service["networks"][_NETWORK]["ipv4_address"] for called, service in plan["services"].items()
        }
        (self.root / FILE).write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")
        self._made = True
        self._say("up", "--detach", within_s=UP_S)
        self.shape()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        if self._made:
            for machine in self.machines:
                (machine.folder / "up").unlink(missing_ok=True)
            self._say("kill", within_s=UP_S)
            self._say("down", "--volumes", "--timeout", "5", within_s=UP_S)
            self._made = False

    def _say(self, *words: str, within_s: float = CALL_S) -> str:
        file = ["--project-name", self._project, "--file", str(self.root / FILE)]
        return run_command([*self._compose, *file, *words], within_s)

    # --- machines ------------------------------------------------------------------------------------------

    def words(self, machine: NodeProcess, words: Sequence[str]) -> list[str]:
        return ["docker", "exec", "--interactive", self._id(machine), "diana", *words]

    def _id(self, machine: NodeProcess) -> str:
        """A container keeps its id over kills and starts."""
        if machine.called not in self._ids:
            found = self._say("ps", "--quiet", machine.called).strip()
            if not found:
                raise Unreachable(f"{machine.called}: docker-compose made no container of it")
            self._ids[machine.called] = found
        return self._ids[machine.called]

    def ip(self, machine: NodeProcess) -> str:
        return self._addresses[machine.called]

    def dialled(self, machine: NodeProcess) -> str:
        return f"{self.ip(machine)}:{PORT}"

    def device(self, machine: NodeProcess) -> str:
        """Name of the device, looked up: one that was unplugged and plugged in again may be called otherwise."""
        command = ["docker", "exec", self._id(machine), "ip", "-4", "-json", "addr", "show", "to", self.ip(machine)]
        rows = [row for row in json.loads(run_command(command, CALL_S) or "[]") if row.get("ifname")]
        if not rows:
            raise Unreachable(f"{machine.called}: its container has no device with address {self.ip(machine)}")
        return str(rows[0]["ifname"])

    def as_root(self, machine: NodeProcess, command: Sequence[str]) -> None:
        run_command(["docker", "exec", "--user", "0", self._id(machine), *command], CALL_S)

    def launch(self, machine: NodeProcess) -> None:
        machine.boots += 1
        (machine.folder / "up").touch()
        if machine.called in self._off:
            run_command(["docker", "start", self._id(machine)], CALL_S)
            self._off.discard(machine.called)
            self._fit(machine)

    def _fit(self, machine: NodeProcess) -> None:
        """Shape and wall the network of a machine that was just switched on."""
        if machine.site not in self._unplugged:
            self.shape_one(machine)
        for pair in sorted(self._walled):
            if machine.site in pair:
                self.wall_one(machine, pair[pair[0] == machine.site])

    def runs(self, machine: NodeProcess) -> bool:
        state = run_command(["docker", "inspect", "--format", "{{.State.Running}}", self._id(machine)], CALL_S)
        return state.strip() == "true"

    def power_off(self, machine: NodeProcess) -> None:
        machine.close()
        self._off.add(machine.called)
        self._stopped.pop(machine.called, None)
        run_command(["docker", "kill", self._id(machine)], CALL_S)

    def end_node(self, machine: NodeProcess) -> None:
        (machine.folder / "up").unlink(missing_ok=True)
        pid = machine.pid()
        machine.close()
        if pid:
            self._signal(machine, pid, signal.SIGTERM)
        end = time.monotonic() + END_S
        while machine.paths.socket.exists() and machine.answers():
            if time.monotonic() > end:
                raise Unreachable(f"{machine.called}: its node did not end within {END_S:g} s")
            time.sleep(0.1)
        machine.close()

    def stop(self, machine: NodeProcess) -> None:
        if pid := machine.pid():
            self._stopped[machine.called] = pid
            self._signal(machine, pid, signal.SIGSTOP)

    def go_on(self, machine: NodeProcess) -> None:
        if pid := self._stopped.pop(machine.called, 0):
            self._signal(machine, pid, signal.SIGCONT)

    def _signal(self, machine: NodeProcess, pid: int, number: signal.Signals) -> None:
        run_command(["docker", "exec", self._id(machine), "sh", "-c", f"kill -{number.value} {pid}"], CALL_S)

    # --- partitions ----------------------------------------------------------------------------------------

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """A site of one machine that is cut from all others is unplugged; between others no packet passes."""
        new = set(pairs)
        self._parted |= new
        for site in sorted(self._alone() - self._unplugged):
            self._unplugged.add(site)
            run_command(["docker", "network", "disconnect", self._network, self._id(self.main(site))], CALL_S)
        self._wall_off(new)

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        old = set(pairs) & self._parted
        self._parted -= old
        for site in sorted(self._unplugged - self._alone()):
            self._unplugged.discard(site)
            self._plug_in(self.main(site))
        self._wall_off(self._parted)
        gone = sorted(old & self._walled)
        self._walled -= old
        for a, b in gone:
            for here, there in ((a, b), (b, a)):
                for machine in self.of(here):
                    # A machine that is off has no walls.
                    if machine.called not in self._off:
                        self.wall_one(machine, there, mend=True)

    def _wall_off(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Set up the walls that are wanted and do not stand yet."""
        for pair in sorted(set(pairs) - self._walled):
            if self._unplugged.isdisjoint(pair):
                self._walled.add(pair)
                for here, there in (pair, pair[::-1]):
                    for machine in self.of(here):
                        if machine.called not in self._off:
                            self.wall_one(machine, there)

    def _plug_in(self, machine: NodeProcess) -> None:
        address = ["--ip", self.ip(machine), "--alias", machine.called]
        run_command(["docker", "network", "connect", *address, self._network, self._id(machine)], CALL_S)
        if machine.called not in self._off:
            self.shape_one(machine)

    @property
    def _network(self) -> str:
        return f"{self._project}_{_NETWORK}"

    def _alone(self) -> set[str]:
        sites = [spec.name for spec in self.scenario.sites]
        return {
            site
            for site in sites
            if len(self.of(site)) == 1
            and all(tuple(sorted((site, other))) in self._parted for other in sites if other != site)
        }


def _compose_command() -> list[str]:
    with suppress(DianaError):
        run_command(["docker", "compose", "version"], CALL_S)
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        raise UsageError("--on compose: no docker compose on this machine; install docker-compose")
    return ["docker-compose"]


def _free_subnet() -> str:
    """A subnet that no network of this machine has, by its routes."""
    routes = run_command(["ip", "-4", "-json", "route"], CALL_S)
    taken = [ipaddress.ip_network(row["dst"]) for row in json.loads(routes) if row["dst"] != "default"]
    for number in range(64, 128):
        subnet = ipaddress.ip_network(f"10.{number}.91.0/24")
        if not any(subnet.overlaps(one) for one in taken):
            return str(subnet)
    raise UsageError("--on compose: no free network from 10.64.91.0/24 on; remove networks with docker network prune")
