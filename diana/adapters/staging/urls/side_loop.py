"""An event loop on a thread of its own, for libraries whose work must not delay the node's.

It starts with the first coroutine; a node that needs none has neither loop nor thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SideLoop:
    """`run` and `stop` belong to the loop of the caller."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._loop is not None

    async def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` over there and return its result. A cancelled caller goes on only when it has ended there too."""
        loop = self._begin()
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = loop.create_task(work(*args, **kwargs))
            tasks.append(task)
            task.add_done_callback(lambda done: _hand_over(done, outcome))

        loop.call_soon_threadsafe(start)
        waiting = asyncio.wrap_future(outcome)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            await asyncio.wait([waiting])
            if not waiting.cancelled():
                waiting.exception()
            raise

    async def stop(self) -> None:
        """Stop; the thread has ended on return. Nothing may run there any more; twice is fine."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)
            loop.close()

    def _begin(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


def _hand_over(done: asyncio.Task[T], outcome: Future[T]) -> None:
    if done.cancelled():
        outcome.cancel()
    elif fault := done.exception():
        outcome.set_exception(fault)
    else:
        outcome.set_result(done.result())
