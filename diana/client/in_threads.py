"""Work that blocks, kept off the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def each(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield the items, each taken in a thread; none of them is None."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item


async def apart(work: Callable[[], T]) -> T:
    """Do it in a thread that an interpreter does not wait for as it ends."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, error: BaseException | None) -> None:
        if told.done():
            return
        if error is not None:
            told.set_exception(error)
        else:
            told.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, fault = None, None
        try:
            value = work()
        except BaseException as error:
            fault = error
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, value, fault)

    threading.Thread(target=run, name="diana-apart", daemon=True).start()
    return await told
