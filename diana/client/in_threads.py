"""Work that blocks, kept off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

T = TypeVar("T")


async def each(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield the items, each taken in a thread; none of them is None."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item
