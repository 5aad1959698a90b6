"""Calls that may hang in the kernel, and are asked for again and again: one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from diana.threads import in_thread

T = TypeVar("T")


class Alone(Generic[T]):
    """Runs `work` in such a thread, one at a time: a caller who asks while it hangs waits for the same one, so that
    threads do not pile up. Belongs to one event loop."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._under_way: asyncio.Task[T] | None = None
        self.last: tuple[float, T] | None = None
        """The last result and when it came, by the monotonic clock; also for callers who did not wait. None before the
        first."""

    async def __call__(self) -> T:
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().create_task(self._do())
            self._under_way.add_done_callback(_heard)
        return await asyncio.shield(self._under_way)

    async def _do(self) -> T:
        found = await in_thread(self._work)
        self.last = monotonic(), found
        return found


def _heard(task: asyncio.Task[T]) -> None:
    """Take the task's fault, which is raised where somebody waits for it."""
    if not task.cancelled():
        task.exception()
