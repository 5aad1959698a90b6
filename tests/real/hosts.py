"""Sites on hosts of their own, with walls between them: network namespaces on one bridge, and iptables in each."""

from __future__ import annotations

import subprocess

import msgspec

from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid
from tests.real.machines.test_three_machines import Lan, Machine


def site_on(
    grid: Grid,
    lan: Lan,
    number: int,
    name: str,
    *peers: Machine,
    slots: int = 4,
    advertise: str = "",
    zeroconf: bool = False,
) -> Machine:
    """A site that is not started, of the VO of the grid's first; it knows the named ones by address."""
    machine = Machine(grid, lan, number, name)
    first = next(iter(grid.sites.values()), None)
    addresses = [peer.address for peer in peers]
    config = init_site(machine.data, name, None, first.data if first else None, slots, machine.address, addresses)
    config = msgspec.structs.replace(load_config(machine.paths.config), zeroconf=zeroconf, advertise=advertise)
    write_config(machine.paths.config, config)
    grid.sites[name] = machine
    return machine


def rule(lan: Lan, number: int, *words: str) -> None:
    """An iptables rule at a host."""
    subprocess.run(["ip", "netns", "exec", lan.host(number), "iptables", *words], check=True, capture_output=True)


def wall(lan: Lan, number: int) -> None:
    """Nobody can dial this host from outside; it can dial others."""
    rule(lan, number, "-A", "INPUT", "-i", "eth0", "-m", "conntrack", "--ctstate", "NEW", "-j", "DROP")


def cut(lan: Lan, one: int, other: int, *, heal: bool = False) -> None:
    """No packet between two hosts, either way."""
    for here, there in ((one, other), (other, one)):
        for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
            rule(lan, here, "-D" if heal else "-A", chain, side, lan.ip(there), "-j", "DROP")
