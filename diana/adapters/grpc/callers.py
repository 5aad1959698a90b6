"""Addresses as gRPC tells them."""

from __future__ import annotations

import ipaddress


def host_of(peer: str) -> str:
    """Return the host in gRPC's `ipv4:10.0.0.1:50000`, `ipv6:%5B::1%5D:50000`."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")


def is_loopback(host: str) -> bool:
    """True for an address, or a name of it, that only this machine reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
