"""Processes that fork while they have gRPC, whose threads do not come along. Imported before gRPC."""

from __future__ import annotations

import os

from diana.errors import UsageError

# gRPC's own handlers at a fork abort the child if another thread waits for an answer, and write to standard error.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_users: list[int] = []
"""The process that opened the first channel; its children cannot open any."""


def check_process() -> None:
    """Before a channel is opened or used. UsageError in a child of a process that did so: it would hang or abort."""
    _users[:] = _users or [os.getpid()]
    if _users[0] != os.getpid():
        raise UsageError(
            f"gRPC works no more in a child that process {_users[0]} forked after its first call over it; fork before"
            " that, start the child by spawn, or name a node of this machine instead of a credential"
        )
