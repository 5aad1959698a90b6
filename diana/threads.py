"""Calls that may hang in the kernel - a disk that went away, a name server that is silent - in threads nobody waits for
at exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """`work` in a thread of its own, which holds up no exit: the loop's own executor is joined at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = work()
        except BaseException as error:
            failed = error
        try:
            loop.call_soon_threadsafe(settle, result, failed)
        except RuntimeError:
            # The loop has gone: nobody waits any more.
            return

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await done
