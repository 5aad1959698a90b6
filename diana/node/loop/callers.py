"""Those who wait for the engine's word: calls for their answers, followers of a group for its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from diana.model.ids import GroupId
from diana.node.ways_in.door import ReplyBody


class Watch:
    """One follower of a group."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def changed(self) -> None:
        await self._event.wait()
        self._event.clear()

    def touch(self) -> None:
        self._event.set()


class Callers:
    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[ReplyBody]] = {}
        self._watches: dict[GroupId, set[Watch]] = {}

    def expect(self, request: int) -> asyncio.Future[ReplyBody]:
        future: asyncio.Future[ReplyBody] = asyncio.get_running_loop().create_future()
        self._answers[request] = future
        return future

    def forget(self, request: int) -> None:
        self._answers.pop(request, None)

    def fail(self, error: Exception) -> None:
        """Raise it from all calls that wait for an answer."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)

    def answer(self, request: int, body: ReplyBody) -> None:
        """Give the answer to the caller, if it still waits."""
        future = self._answers.get(request)
        if future is not None and not future.done():
            future.set_result(body)

    @contextmanager
    def watching(self, group: GroupId) -> Iterator[Watch]:
        watch = Watch()
        self._watches.setdefault(group, set()).add(watch)
        try:
            yield watch
        finally:
            self._watches[group].discard(watch)
            if not self._watches[group]:
                del self._watches[group]

    def changed(self, group: GroupId) -> None:
        """Wake all followers of the group."""
        for watch in self._watches.get(group, ()):
            watch.touch()
