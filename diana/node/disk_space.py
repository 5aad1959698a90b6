"""Watches the room on the node's disk while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

from diana.adapters.datadir import OpenDataDir
from diana.adapters.heap import give_back
from diana.engine.journal import events as ev
from diana.errors import StoreFull
from diana.node.loop.store_thread import StoreThread
from diana.node.ways_in.audit import AUDIT_HEAD, Audit

EVERY_S = 1.0
SCRATCH_LOOKS = 10
"""Looks from one at the jobs' scratch directories to the next."""
SETTLED_LOOKS = 30
"""Looks after which the memory that starting needed is no longer in use, and is given back."""


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
        if low != told:
            emit(ev.RoomChecked(low))
            told = low
        if look % SCRATCH_LOOKS == 0:
            await scratch()
        await asyncio.sleep(EVERY_S)
