"""The arguments of tc and iptables that make a host's links as slow, and its partitions as dead, as the scenario says.
Rates by htb, latency by netem where the kernel has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST_BYTES_PER_S = 12.5e9
"""Rate of a link that is faster than this: htb's rates end there, and no veth carries more."""
_QUANTUM_BYTES = "60000"


class Route(NamedTuple):
    """The way from a host to another one's address."""

    to: str
    bytes_per_s: float
    latency_s: float


def shaping(device: str, ways: Sequence[Route], netem: bool) -> list[list[str]]:
    """Commands that shape a device, in order. Traffic to other addresses is not slowed down."""
    commands = [["tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb"]]
    for number, way in enumerate(ways, 1):
        rate = f"{max(8, round(min(way.bytes_per_s, MOST_BYTES_PER_S) * 8))}bit"
        minor = f"1:{number:x}"
        lane = ["tc", "class", "add", "dev", device, "parent", "1:", "classid", minor, "htb"]
        commands.append([*lane, "rate", rate, "quantum", _QUANTUM_BYTES])
        if netem:
            latency = f"{max(0, round(way.latency_s * 1e6))}us"
            commands.append(["tc", "qdisc", "add", "dev", device, "parent", minor, "netem", "delay", latency])
        chosen = ["tc", "filter", "add", "dev", device, "protocol", "ip", "parent", "1:", "prio", "1", "u32"]
        commands.append([*chosen, "match", "ip", "dst", f"{way.to}/32", "flowid", minor])
    return commands


def cutting(address: str, *, mend: bool = False) -> list[list[str]]:
    """Commands after which no packet goes to or from the address; or goes again."""
    order = "-D" if mend else "-A"
    sides = (("INPUT", "-s"), ("OUTPUT", "-d"))
    return [["iptables", "-w", order, chain, side, address, "-j", "DROP"] for chain, side in sides]


def trying_netem(device: str) -> list[list[str]]:
    """Commands that try netem; the first fails where the kernel has none."""
    return [
        ["tc", "qdisc", "add", "dev", device, "root", "netem", "delay", "1ms"],
        ["tc", "qdisc", "del", "dev", device, "root"],
    ]
