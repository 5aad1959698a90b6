"""The data on the site's other machine: outputs and logs stay on the disk of the machine that led when they came, and
whoever leads now reads them there for itself and for those who ask it.

To the fetcher that machine is a site of its own; it serves what it holds to its own site.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from diana.adapters.staging.catalogue.holdings import UNKNOWN_BYTES, NotHere
from diana.adapters.staging.transfer.client import Away, FileFetcher
from diana.adapters.tasks import begin
from diana.errors import DianaError, Unreachable
from diana.model.ids import SiteId


class Beside:
    """The other machine. `name` is its name for the fetcher, `machine` its name for people. Belongs to the event
    loop, except `open`."""

    def __init__(self, site: SiteId, name: SiteId, machine: str, given_up: Callable[[], bool]) -> None:
        """`given_up`: True once an operator said that the machine will not be back."""
        self.site = site
        self.name = name
        self.machine = machine
        self._given_up = given_up
        self._loop = asyncio.get_running_loop()
        self._fetcher: FileFetcher

    def use(self, fetcher: FileFetcher) -> None:
        self._fetcher = fetcher

    def trouble(self, what: str) -> Unreachable | None:
        """Return why `what`, which is not here, cannot be had there now; None: it can be asked for."""
        if self._fetcher.reaches(self.name):
            return None
        if self._given_up():
            return NotHere(f"{what}: was on machine {self.machine}, which was removed from site {self.site}")
        return Away(f"{what}: on machine {self.machine}, which is away", self.machine)

    def open(self, ref: str) -> Forwarded:
        """Open a reference there, in a data thread. Away or NotHere when nobody can be asked."""
        if trouble := asyncio.run_coroutine_threadsafe(self._trouble(ref), self._loop).result():
            raise trouble
        return Forwarded(self._loop, lambda offset: self._fetcher.read(self.name, ref, offset, 0))

    async def _trouble(self, ref: str) -> Unreachable | None:
        return self.trouble(ref)


class Forwarded:
    """`Content` that is read from the other machine as it is asked for. Bytes that `read` returns in a data thread
    were brought on the event loop before: a machine that is silent holds up no thread."""

    sha256 = ""
    size_bytes = UNKNOWN_BYTES

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[int], AsyncIterator[bytes]]) -> None:
        self._loop = loop
        self._begin = begin
        self._chunks: AsyncIterator[bytes] | None = None
        self._left = b""
        self._ended = False
        self._fault: DianaError | None = None

    @property
    def lacks(self) -> bool:
        """True while nothing can be read before `bring`."""
        return not (self._left or self._ended)

    async def bring(self, offset: int) -> None:
        """Wait until there is something to read at `offset`: bytes, the end, or why there are none. On the event
        loop."""
        if not self.lacks:
            return
        if self._chunks is None:
            self._chunks = self._begin(offset)
        try:
            self._left = await anext(self._chunks, b"")
        except DianaError as fault:
            self._fault = fault
        self._ended = not self._left

    def read(self, count: int, offset: int) -> bytes:
        """Return bytes that were brought. Unreachable when the stream broke."""
        if self._fault is not None:
            raise self._fault
        out, self._left = self._left[:count], self._left[count:]
        return out

    def same(self) -> bool:
        return True

    def close(self) -> None:
        """Close. From any thread, the loop's too; never while something is brought. Waits for nothing."""
        if self._chunks is not None:
            with suppress(RuntimeError):
                # A loop that is closed already has closed the stream with it.
                self._loop.call_soon_threadsafe(_begin_end, self._chunks)


def _begin_end(chunks: AsyncIterator[bytes]) -> None:
    begin(_end(chunks), "the end of a read at the other machine")


async def _end(chunks: AsyncIterator[bytes]) -> None:
    await chunks.aclose()  # type: ignore[attr-defined]
