"""The word to whoever supervises the node's process, as systemd does, that the node answers (sd_notify(3))."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


def tell_ready() -> None:
    """Say READY=1 where somebody waits for it; a supervisor that does not listen is no fault of the node."""
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as ear:
        ear.setblocking(False)
        # In the abstract namespace a zero byte stands where the variable has @.
        ear.sendto(b"READY=1", address if address[0] == "/" else f"\0{address[1:]}")
