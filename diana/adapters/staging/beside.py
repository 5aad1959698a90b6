"""What lies on the site's other machine: outputs and logs stay on the disk of the machine that led when they came, and
whoever leads now reads them there for itself and for those who ask it.

To the fetcher that machine is a site of its own; it serves what it holds to its own site.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from diana.adapters.staging.client import Away, Fetcher
from diana.adapters.staging.holdings import UNKNOWN_BYTES, NotHere
from diana.errors import Unreachable
from diana.model.ids import SiteId

CLOSE_S = 5.0


class Beside:
    """`name` is what the fetcher calls the other machine, `machine` what people call it. Belongs to the event loop,
    except `open`."""

    def __init__(self, site: SiteId, name: SiteId, machine: str, given_up: Callable[[], bool]) -> None:
        """`given_up`: whether an operator said that the machine will not be back."""
        self.site = site
        self.name = name
        self.machine = machine
        self._given_up = given_up
        self._loop = asyncio.get_running_loop()
        self._fetcher: Fetcher

    def use(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def trouble(self, what: str) -> Unreachable | None:
        """Why `what`, which is not here, cannot be had there now; None: it can be asked for."""
        if self._fetcher.reaches(self.name):
            return None
        if self._given_up():
            return NotHere(f"{what}: was on machine {self.machine}, which was removed from site {self.site}")
        return Away(f"{what}: on machine {self.machine}, which is away", self.machine)

    def open(self, ref: str) -> Forwarded:
        """In a data thread. Away or NotHere when nobody can be asked."""
        if trouble := asyncio.run_coroutine_threadsafe(self._trouble(ref), self._loop).result():
            raise trouble
        return Forwarded(self._loop, lambda offset: self._fetcher.read(self.name, ref, offset, 0))

    async def _trouble(self, ref: str) -> Unreachable | None:
        return self.trouble(ref)


class Forwarded:
    """`Content` that is read from the other machine as it is asked for. Methods block, in data threads."""

    sha256 = ""
    size_bytes = UNKNOWN_BYTES

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[int], AsyncIterator[bytes]]) -> None:
        self._loop = loop
        self._begin = begin
        self._chunks: AsyncIterator[bytes] | None = None
        self._left = b""

    def read(self, count: int, offset: int) -> bytes:
        """Unreachable when the stream breaks."""
        if self._chunks is None:
            self._chunks = self._begin(offset)
        if not self._left:
            self._left = asyncio.run_coroutine_threadsafe(_next(self._chunks), self._loop).result()
        out, self._left = self._left[:count], self._left[count:]
        return out

    def same(self) -> bool:
        return True

    def close(self) -> None:
        if self._chunks is not None:
            with suppress(TimeoutError, RuntimeError):
                asyncio.run_coroutine_threadsafe(_end(self._chunks), self._loop).result(CLOSE_S)


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


async def _end(chunks: AsyncIterator[bytes]) -> None:
    await chunks.aclose()  # type: ignore[attr-defined]
