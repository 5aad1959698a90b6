"""The one thread that writes to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from diana.errors import StoreFailed
from diana.ports import Store

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("diana.node")


class StoreThread:
    """`call` runs one of the store's methods there and awaits it. StoreFailed is logged and raised: the node stops."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="diana-store")

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: method(*args, **kwargs))
        except StoreFailed as error:
            _log.critical("%s", error)
            raise

    def close(self) -> None:
        self._thread.shutdown()
