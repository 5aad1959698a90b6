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
        try:
            await asyncio.wait([writing], timeout=LAST_S)
        finally:
            writing.cancel()
            writing.add_done_callback(_forget)
        raise


def _forget(writing: asyncio.Future[None]) -> None:
    """Take note of a fault of a call that is over anyway."""
    if not writing.cancelled():
        writing.exception()
