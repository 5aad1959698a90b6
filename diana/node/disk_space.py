"""Watches the room on the node's disk while it runs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

from diana.adapters.datadir import OpenDataDir
from diana.adapters.heap import give_back
from diana.engine.journal import events as ev
from diana.errors import StoreFull
from diana.node.loop.store_thread import StoreThread
from diana.node.node_log import put_output_aside
from diana.node.ways_in.audit import AUDIT_HEAD, Audit

EVERY_S = 1.0
SCRATCH_LOOKS = 10
"""Looks from one at the jobs' scratch directories to the next."""
SETTLED_LOOKS = 30
"""Looks after which the memory that starting needed is no longer in use, and is given back."""


def wait_for_room(opened: OpenDataDir) -> bool:
    """Return once there is room for a node to begin; True if there was none before. Says once, on standard error, what
    it waits for: on the disk it cannot. Blocks."""
    if not (lacks := opened.lacks_room_to_begin()):
        return False
    print(f"diana: {lacks}; the node begins by itself when there is room", file=sys.stderr, flush=True)
    while lacks:
        opened.check_place()
        time.sleep(EVERY_S)
        lacks = opened.lacks_room_to_begin()
    print("diana: there is room on the disk again: the node begins", file=sys.stderr, flush=True)
    return True


async def watch_room(
    opened: OpenDataDir,
    thread: StoreThread,
    audit: Audit,
    emit: Callable[[ev.Event], None],
    scratch: Callable[[], Awaitable[None]],
) -> None:
    """Watch the disk until cancelled. A full disk must not cost a result: new work is refused in time, and running jobs
    get the ballast's room. `scratch` looks at the disk of the jobs' scratch directories. The newest line of the audit
    trail is kept apart from it."""
    told, head = "", audit.head()
    for look in count():
        if look == SETTLED_LOOKS:
            await asyncio.to_thread(give_back)
        if look % SCRATCH_LOOKS == 0 and audit.head() != head:
            with suppress(StoreFull):
                await thread.call_quietly(thread.store.set_meta, AUDIT_HEAD, audit.head())
                head = audit.head()
        low = await asyncio.to_thread(opened.keep_room)
        put_output_aside(opened.paths.node_out)
        if low != told:
            emit(ev.RoomChecked(low))
            told = low
        if look % SCRATCH_LOOKS == 0:
            await scratch()
        await asyncio.sleep(EVERY_S)
