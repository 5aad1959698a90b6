"""The one thread that writes to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from diana.errors import StoreFailed, StoreFull, UsageError
from diana.ports import Store

P = ParamSpec("P")
T = TypeVar("T")

AGAIN_S = 0.5
"""Seconds between two tries on a disk without room."""

_log = logging.getLogger("diana.node")


def _no_more() -> int:
    return 0


def _nobody(full: str) -> None:
    pass


def _nothing() -> str:
    return ""


def _in_place() -> None:
    pass


def _unwatched(open_now: bool) -> None:
    pass


class StoreThread:
    """`call` runs one of the store's methods there and awaits it. StoreFailed is logged and raised: the node stops;
    so is UsageError of `check_place`. `once_there_is_room` waits where the disk is only full: nothing was stored then,
    and the same is tried again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.full = ""
        """Why nothing can be stored just now, in one line; empty: it can."""
        self.make_room: Callable[[], int] = _no_more
        """Asked for room where there is none; gives the bytes won. Blocks."""
        self.filled_by: Callable[[], str] = _nothing
        """Return the end of that line: the files that took the room. Blocks."""
        self.on_full: Callable[[str], None] = _nobody
        """Told of `full` whenever it changes."""
        self.check_place: Callable[[], None] = _in_place
        """Asked after each call, before anybody hears of it, whether the store's files lie where the next start looks
        for them; UsageError where they do not. An OSError does not tell. Blocks."""
        self.watch: Callable[[bool], None] = _unwatched
        """Told with False before the store is closed so that another file may take its place, with True after."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="diana-store")

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def done_in_place() -> T:
            done = method(*args, **kwargs)
            with suppress(OSError):
                self.check_place()
            return done

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, done_in_place)
        except (StoreFailed, UsageError) as error:
            _log.critical("%s", error)
            raise

    async def once_there_is_room(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def attempt() -> T:
            try:
                return method(*args, **kwargs)
            except StoreFull:
                if not self.make_room():
                    raise
                return method(*args, **kwargs)

        while True:
            try:
                done = await self.call_quietly(attempt)
            except StoreFull as error:
                if not self.full:
                    self._now(f"{error}{await asyncio.to_thread(self.filled_by)}")
                await asyncio.sleep(AGAIN_S)
            else:
                self._now("")
                return done

    async def call_quietly(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`; StoreFull is raised without a word: the node goes on."""

        def attempt() -> T | StoreFull:
            try:
                return method(*args, **kwargs)
            except StoreFull as error:
                return error

        done = await self.call(attempt)
        if isinstance(done, StoreFull):
            raise done
        return done

    def _now(self, full: str) -> None:
        if bool(full) == bool(self.full):
            return
        if full:
            _log.error("%s; nothing new is taken, and what ends is noted once there is room", full)
        else:
            _log.info("there is room on the disk again: the node goes on")
        self.full = full
        self.on_full(full)

    def close(self) -> None:
        self._thread.shutdown()
