"""Messages on a served call, whole also where their writer is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

LAST_S = 1.0
"""Seconds that a message may still take when its writer was cancelled: who does not read is not waited for."""


async def write(context: Any, message: Any) -> None:
    """Write to a served call. A cancellation waits for the message: beside one on its way gRPC takes no status, and a
    caller that is turned away would wait for one for ever."""
    writing = asyncio.ensure_future(context.write(message))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        if not writing.done():
            await asyncio.wait([writing], timeout=LAST_S)
        if not writing.done():
            writing.cancel()
        elif not writing.cancelled():
            # A fault of a call that is over anyway.
            writing.exception()
        raise
