"""Looks whether this machine reaches the hosts of a gang's other components (SPEC K6). Nothing is sent over the
connections, and none is kept.

A host that refuses the connection is reached: its kernel answered, and nobody listens at that port before the gang is
let go. A filter that answers in the host's name is not told from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from diana.adapters.tasks import begin, end
from diana.engine.journal.effects import MeetHosts
from diana.engine.journal.events import HostsMet

WAIT_S = 3.0
"""Seconds for a host to answer; all are asked at once."""


class Reacher:
    def __init__(self, emit: Callable[[HostsMet], None]) -> None:
        self._emit = emit
        self._looks: set[asyncio.Task[None]] = set()

    def look(self, order: MeetHosts) -> None:
        """Begin a look; its answer is emitted."""
        task = begin(self._look(order), f"looking for the hosts of {order.subgroup}")
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        await end(*self._looks)

    async def _look(self, order: MeetHosts) -> None:
        found = await asyncio.gather(*map(reaches, order.hosts, order.ports))
        lost = next((host for host, there in zip(order.hosts, found, strict=True) if not there), "")
        self._emit(HostsMet(subgroup=order.subgroup, epoch=order.epoch, hosts=order.hosts, out_of_reach=lost))


async def reaches(host: str, port: int) -> bool:
    """Return True if the host answers at that port, be it that it refuses."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), WAIT_S)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError, ValueError):
        # A name that DNS cannot have is a ValueError.
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
