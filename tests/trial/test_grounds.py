"""Orders to grounds: the compose file of a scenario, the kernel's orders, proxies that shape and cut."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.node.config.site_file import SiteConfig, load_config
from diana.node.config.text import write_config
from diana.sim.scenario import scenario as sc
from diana.trial import kernel
from diana.trial.compose import Compose, compose_file
from diana.trial.founding import Founding
from diana.trial.links import Shape, ShapedLinks
from diana.trial.netns import Namespaces
from diana.trial.processes import Processes
from tests.runs import SOAK

GRID = sc.parse("""version = 1
sites = [
    { name = "a", slots = 2, machines = [{ name = "m1" }] },
    { name = "b", slots = 4, standby = true },
]
""")


def test_a_scenario_becomes_a_service_per_machine_and_a_client(tmp_path: Path) -> None:
    ground = Compose(tmp_path, GRID, 1.0)
    plan = compose_file(ground.machines, "diana:x", "1:2", "10.64.91.0/24")
    assert list(plan["services"]) == ["a", "a-m1", "b", "b-standby", "client"]
    addresses = [service["networks"]["grid"]["ipv4_address"] for service in plan["services"].values()]
    assert len(set(addresses)) == 5 and "10.64.91.1" not in addresses, "the first is the bridge's"
    shared = [volume for service in plan["services"].values() for volume in service.get("volumes", ())]
    assert len(shared) == len(set(shared)) == 4, "no two machines share a data directory"
    assert all("$$pid" in service["command"][2] for name, service in plan["services"].items() if name != "client")


def test_a_site_may_not_be_called_as_the_service_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'client' is the name of the service"):
        Compose(tmp_path, sc.parse('version = 1\nsites = [{ name = "client" }]\n'), 1.0)


def test_only_a_site_that_is_cut_from_all_others_is_unplugged(tmp_path: Path) -> None:
    grid = sc.parse('version = 1\nsites = [{ name = "a" }, { name = "b" }, { name = "c" }]\n')
    ground = Compose(tmp_path, grid, 1.0)
    ground._parted = {("a", "b")}
    assert ground._alone() == set()
    ground._parted = {("a", "b"), ("b", "c")}
    assert ground._alone() == {"b"}
    # A site whose member would lose it stays plugged in.
    ground = Compose(tmp_path, GRID, 1.0)
    ground._parted = {("a", "b")}
    assert ground._alone() == set()


def test_the_kernel_is_told_a_class_per_neighbour_and_walls_come_down_as_they_went_up() -> None:
    ways = [kernel.Route("10.0.0.2", 1e6, 0.01), kernel.Route("10.0.0.3", 1e15, 0.0)]
    commands = [" ".join(command) for command in kernel.shaping("eth1", ways, True)]
    assert commands[0] == "tc qdisc add dev eth1 root handle 1: htb"
    assert "tc class add dev eth1 parent 1: classid 1:1 htb rate 8000000bit quantum 60000" in commands
    assert "tc qdisc add dev eth1 parent 1:1 netem delay 10000us" in commands
    assert any("10.0.0.3/32 flowid 1:2" in command for command in commands)
    assert not any("netem" in word for command in kernel.shaping("eth1", ways, False) for word in command)
    up, down = kernel.cutting("10.0.0.2"), kernel.cutting("10.0.0.2", mend=True)
    assert [[word.replace("-A", "-D") for word in command] for command in up] == down


def test_a_machine_has_a_folder_of_its_own_and_the_sites_own_comes_first(tmp_path: Path) -> None:
    ground = Processes(tmp_path, GRID, 1.0)
    assert [machine.called for machine in ground.machines] == ["a", "a-m1", "b", "b-standby"]
    assert ground.main("b").role == "site" and [one.role for one in ground.of("b")] == ["site", "standby"]
    assert len({machine.data for machine in ground.machines}) == 4


def test_no_token_stands_in_the_words_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ps` shows them to all accounts; `docker exec` passes its own standard input on."""
    ran: list[tuple[list[str], str]] = []

    def run(words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        ran.append((words, how["input"]))
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(Founding, "_configure", lambda *_: None)
    node = SimpleNamespace(invite=lambda *_, **__: SimpleNamespace(token="secret"))
    users = sc.parse('version = 1\nsites = [{ name = "a" }]\nusers = [{ name = "u@lab" }, { name = "v@lab" }]\n')
    for ground in (Processes(tmp_path, users, 1.0), Compose(tmp_path, users, 1.0)):
        monkeypatch.setattr(type(ground), "ip", lambda *_: "10.0.0.1", raising=False)
        (machine,) = ground.machines
        ground.__dict__["_ids"] = {machine.called: "container"}
        machine.__dict__["_client"] = node
        founding = Founding(ground, lambda _: None)
        founding._join(machine, machine)
        founding.credentials(["v@lab"])
    assert len(ran) == 4 and all(told == "secret" and "secret" not in words for words, told in ran), ran
    assert all("--interactive" in words for words, _ in ran if words[0] == "docker")


def test_each_node_declares_what_the_scenario_gives_its_machine(tmp_path: Path) -> None:
    scenario = sc.parse("""version = 1
users = [{ name = "u@lab" }]
[[sites]]
name = "a"
slots = 2
gpus = 1
resources = { fpga = 2 }
machines = [{ name = "m1", slots = 1, resources = { tape = 3 } }, { name = "m2", slots = 1 }]
""")
    ground = Processes(tmp_path, scenario, 1.0)
    founding = Founding(ground, lambda _: None)
    found = {}
    for machine in ground.machines:
        machine.data.mkdir(parents=True)
        write_config(machine.paths.config, SiteConfig(site=SiteId("a"), vo="lab"))
        founding._configure(machine)
        config = load_config(machine.paths.config)
        found[machine.name] = (config.gpus, config.resources)
    assert found == {"a": (("0",), {"fpga": 2}), "m1": ((), {"tape": 3}), "m2": ((), {})}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may have namespaces")
def test_namespaces_without_root_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="network namespaces want root; use --on processes"):
        Namespaces(tmp_path, GRID, 1.0).open()


@contextmanager
def echo() -> Iterator[str]:
    """A server that sends back what it gets; its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_echo, args=(one,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _echo(one: socket.socket) -> None:
    with one:
        while data := one.recv(65536):
            one.sendall(data)


def round_trip_s(link: socket.socket, size: int) -> float:
    began = time.monotonic()
    threading.Thread(target=link.sendall, args=(b"x" * size,), daemon=True).start()
    got = 0
    while got < size:
        data = link.recv(1 << 20)
        assert data, "the link was closed"
        got += len(data)
    return time.monotonic() - began


def test_a_link_is_as_slow_as_it_is_told_and_lets_nothing_pass_while_it_is_cut() -> None:
    # This process is both sites: what matters is which link a pair of names gets.
    links = ShapedLinks(lambda a, b: Shape(2e6, 0.05), lambda: [("a", os.getpid())])
    try:
        with echo() as address:
            proxy = links.open("b", address)
            host, _, port = proxy.rpartition(":")
            with socket.create_connection((host, int(port)), 10) as link:
                assert round_trip_s(link, 1) >= 0.1
                assert round_trip_s(link, 1_000_000) >= 0.5
                links.cut([("a", "b")])
                time.sleep(0.2)
                link.settimeout(0.5)
                link.sendall(b"late")
                with pytest.raises(TimeoutError):
                    link.recv(10)
                links.mend([("a", "b")])
                link.settimeout(60)
                assert link.recv(10) == b"late", "what was held back comes when the link is whole"
    finally:
        links.close()
        links.close()
    assert links.faults == []


def test_a_node_is_known_by_both_ends_of_its_connection() -> None:
    links = ShapedLinks(lambda a, b: Shape(1e9, 0.0), lambda: [("a", os.getpid())])
    try:
        with echo() as address, from_port(0) as link:
            # In which order the system shows them is chance: of so many one stands before the link.
            for _ in range(30):
                with socket.create_server(("127.0.0.1", 0)) as elsewhere, from_port(link.getsockname()[1]) as earlier:
                    earlier.connect(elsewhere.getsockname())
                    far, _ = elsewhere.accept()
                    # This end closes first: the connection lingers, without a socket.
                    earlier.close()
                    far.close()
            host, _, port = links.open("b", address).rpartition(":")
            link.connect((host, int(port)))
            assert round_trip_s(link, 1) > 0.0
    finally:
        links.close()


def from_port(port: int) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return one


def test_a_connection_of_no_node_is_not_passed_on() -> None:
    links = ShapedLinks(lambda a, b: Shape(1e9, 0.0), lambda: [])
    try:
        with echo() as address:
            host, _, port = links.open("b", address).rpartition(":")
            with socket.create_connection((host, int(port)), 10) as link:
                assert link.recv(10) == b""
    finally:
        links.close()


def test_closing_links_waits_for_what_they_do() -> None:
    # What is under way would take a quarter of an hour.
    links = ShapedLinks(lambda a, b: Shape(1e2, 1.0), lambda: [("a", os.getpid())])
    with echo() as address:
        host, _, port = links.open("b", address).rpartition(":")
        with socket.create_connection((host, int(port)), 10) as link:
            link.sendall(b"x" * 100_000)
            time.sleep(0.3)
            began = time.monotonic()
            links.close()
            assert not SOAK or time.monotonic() - began < 5
    assert not [task for task in (asyncio.all_tasks(links._loop)) if not task.done()]
