"""Addresses on this machine's loopback for nodes that are about to start."""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORTS = range(12_000, 20_000)
_TRIES = 1000


def free_addresses(count: int) -> list[str]:
    """Return `count` different addresses. Their ports lie outside the range the kernel gives to connections, where
    that can be told: else one may be taken before its node listens. OSError: there are not so many."""
    some = random.SystemRandom()
    with ExitStack() as stack:
        # All are held while they are chosen.
        return [f"127.0.0.1:{_bound(stack.enter_context(socket.socket()), some)}" for _ in range(count)]


def _bound(one: socket.socket, some: random.Random) -> int:
    for _ in range(_TRIES if _first_given() >= _PORTS.stop else 0):
        try:
            one.bind(("127.0.0.1", some.choice(_PORTS)))
            break
        except OSError as taken:
            if taken.errno != errno.EADDRINUSE:
                raise
    else:
        one.bind(("127.0.0.1", 0))
    return int(one.getsockname()[1])


def _first_given() -> int:
    """Return the first port of the range the kernel gives to connections; 0: not known."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
