"""Reads what the page shows from the node in few calls, each at a pace that its answer's size allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from diana.model.views.queue import QueueView
from diana.model.views.site import Site
from diana.wire.client import messages as wire
from diana.wire.client.peers import PeersResponse

if TYPE_CHECKING:
    from diana.client import AsyncClient

SHOWN = 200
"""Rows of a table."""
SEARCHED = 2_000
"""Groups that are looked through for a word."""
ROWS_PER_S = 400
"""Rows asked for per second: an answer of more rows is asked for less often."""
PEERS_EVERY_S = 5.0
PATIENCE_S = 5.0
"""Seconds after which a missing answer counts as none."""


class Look:
    """The newest answers; each is None until the first came."""

    def __init__(self) -> None:
        self.groups: wire.StatusResponse = wire.StatusResponse()
        self.sites: tuple[Site, ...] = ()
        self.queue: QueueView | None = None
        self.peers: PeersResponse | None = None


class PageReader:
    """Asks only for what is due. Any call may raise what `AsyncClient` raises, and TimeoutError."""

    def __init__(self, client: AsyncClient, *, mine: bool, every_s: float) -> None:
        self.look = Look()
        self.active = False
        self.searching = False
        self._client = client
        self._mine = mine
        self._every_s = every_s
        self._due_s: dict[str, float] = {}

    def hurry(self) -> None:
        """Groups are due at once: something was done to one, or others are wanted."""
        self._due_s.pop("groups", None)

    async def read(self, now_s: float) -> set[str]:
        """Read the parts that are due; returns their names."""
        anew = set()
        async with asyncio.timeout(PATIENCE_S):
            for what, ask in self._parts().items():
                if now_s >= self._due_s.get(what, now_s):
                    rows = await ask()
                    anew.add(what)
                    every_s = max(self._every_s, PEERS_EVERY_S if what == "peers" else 0.0)
                    # A little early: a round that comes a moment too soon must not wait for the next.
                    self._due_s[what] = now_s + max(every_s, rows / ROWS_PER_S) - self._every_s / 4
        return anew

    def _parts(self) -> dict[str, Callable[[], Awaitable[int]]]:
        return {"groups": self._groups, "sites": self._sites, "queue": self._queue, "peers": self._peers}

    async def _groups(self) -> int:
        limit = SEARCHED if self.searching else SHOWN
        self.look.groups = await self._client.groups(mine=self._mine, active=self.active, limit=limit)
        return len(self.look.groups.groups)

    async def _sites(self) -> int:
        self.look.sites = await self._client.sites()
        return len(self.look.sites)

    async def _queue(self) -> int:
        self.look.queue = await self._client.queue()
        return len(self.look.queue.classes) + len(self.look.queue.users)

    async def _peers(self) -> int:
        self.look.peers = await self._client.peers()
        return len(self.look.peers.peers) + len(self.look.peers.machines)
