"""Addresses for nodes that are about to start stay free until they listen."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from diana.adapters import loopback
from diana.adapters.loopback import free_addresses


def ports(addresses: list[str]) -> list[int]:
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    return [int(address.rpartition(":")[2]) for address in addresses]


def test_all_differ_and_no_connection_is_given_one() -> None:
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    some = ports(free_addresses(50))
    assert len(set(some)) == 50 and max(some) < given


def test_what_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports(free_addresses(1))[0]))
        port = taken.getsockname()[1]
        monkeypatch.setattr(loopback, "_PORTS", range(port, port + 4))
        assert port not in ports(free_addresses(3))


def test_where_the_kernel_gives_all_ports_to_connections_one_of_those_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (None, "", "1024\t65535\n"):
        monkeypatch.setattr(loopback, "_RANGE", tmp_path / "range")
        if text is not None:
            (tmp_path / "range").write_text(text)
        assert len(set(ports(free_addresses(3)))) == 3
