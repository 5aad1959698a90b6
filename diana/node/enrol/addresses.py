"""Addresses at which others reach a node, so that an invitation can say them."""

from __future__ import annotations

import ipaddress

from diana.node.config.site_file import host_port
from diana.node.enrol.tokens import MOST_ADDRESSES


def reached_at(listen: str, port: int, advertise: str = "") -> tuple[str, ...]:
    """host:port of a node bound to `listen`, the most useful first; empty: nobody reaches it. `port` is the one that
    was bound."""
    if advertise:
        return () if advertise == "none" else (advertise,)
    host, _ = host_port(listen)
    try:
        bound = ipaddress.ip_address(host)
    except ValueError:
        return (f"{host}:{port}",)
    if not bound.is_unspecified:
        return (joined(host, port),)
    return tuple(joined(one, port) for one in _of_this_machine(bound.version))[:MOST_ADDRESSES]


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _of_this_machine(version: int) -> list[str]:
    import ifaddr

    found = []
    for adapter in ifaddr.get_adapters():
        for ip in adapter.ips:
            one = ipaddress.ip_address(ip.ip if isinstance(ip.ip, str) else ip.ip[0])
            # An address of one link alone means nothing to a machine elsewhere.
            if not one.is_link_local and (one.version == 4 or version == 6):
                found.append(one)
    return [str(one) for one in sorted(found, key=lambda one: (one.is_loopback, one.version, int(one)))]
