"""The live feed of the pages: sections of a site's view, built once for all who see the same, and sent as what changed.

A feed belongs to one user, as users see different groups. It is built at most once a second, and all feeds together
take at most a twentieth of a core: with more groups they are built less often, and nobody looking costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from diana.adapters.tasks import begin
from diana.errors import DianaError
from diana.model.trust.principal import Principal, Role
from diana.node.web.drawn import drawn
from diana.wire.client import messages as wire
from diana.wire.client.links import LinksRequest
from diana.wire.client.queues import QueueReadRequest

if TYPE_CHECKING:
    from diana.node.api.service import Api

EVERY_S = 1.0
SHARE = 0.05
SLOW_S = 5.0
"""Seconds between two looks at what moves slowly: links, peers."""
ALIVE_S = 10.0
"""Seconds within which a page hears at least that the node is there."""
MOST_GROUPS = 3000
MOST_VIEWERS, MOST_OF_ONE, KEPT_FOR_OPERATORS = 64, 24, 16
WAITING = 64
"""Events a viewer may be behind; one further behind is sent everything anew."""

Event = tuple[str, bytes]

_encode = msgspec.json.Encoder().encode
_AGES = ("age_s", "summary_age_s", "away_s")


class LookBudget:
    """The budget of all feeds together: their looks follow one another, each after a pause that keeps them within
    SHARE."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._next_s = 0.0

    @asynccontextmanager
    async def look(self) -> AsyncIterator[None]:
        async with self._turn:
            await asyncio.sleep(max(0.0, self._next_s - time.monotonic()))
            began = time.monotonic()
            try:
                yield
            finally:
                over = time.monotonic()
                self._next_s = over + (over - began) / SHARE


class Feed:
    """The feed of one user. `api` is asked as that user, as long as `by_now` says that they are the same."""

    def __init__(
        self,
        api: Api,
        caller: Principal,
        wall_s: Callable[[], float],
        budget: LookBudget | None = None,
        by_now: Callable[[Principal], Principal | None] = lambda caller: caller,
    ) -> None:
        self._api = api
        self._caller = caller
        self._wall_s = wall_s
        self._budget = budget or LookBudget()
        self._by_now = by_now
        self._viewers: set[asyncio.Queue[Event | None]] = set()
        self._sections: dict[str, bytes] = {}
        self._groups: dict[str, bytes] = {}
        self._left_out = 0
        self._task: asyncio.Task[None] | None = None
        self._first = True
        self._slow_s = float("-inf")

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    async def follow(self) -> AsyncGenerator[Event]:
        """Yield all sections as they stand, then the changes, and now and then the time; ends when the viewer is too
        slow or the feed is at its end. A viewer who still wants to look comes again."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(WAITING)
        if self._task is None or self._task.done():
            self._sections, self._groups, self._slow_s, self._first = {}, {}, float("-inf"), True
            self._task = begin(self._run(), "the dashboard's view")
        elif self._sections:
            for section in self._whole():
                queue.put_nowait(section)
        self._viewers.add(queue)
        try:
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), ALIVE_S)
                except TimeoutError:
                    event = self._now()
                if event is None:
                    return
                yield event
        finally:
            self._viewers.discard(queue)

    def close(self) -> None:
        for queue in self._viewers:
            _tell(queue, None)

    def _whole(self) -> Iterable[Event]:
        yield from self._sections.items()
        yield "groups", self._rows(self._groups.values(), (), whole=True)
        yield self._now()

    async def _run(self) -> None:
        """Build the feed until nobody has looked for a turn, or the user is trusted no more."""
        try:
            while self._viewers and self._by_now(self._caller) == self._caller:
                async with self._budget.look():
                    for event in await self._news():
                        for queue in self._viewers:
                            _tell(queue, event)
                await asyncio.sleep(EVERY_S)
        finally:
            self.close()

    async def _news(self) -> list[Event]:
        """The events since the last look. A section that cannot be had now stays as it was; the reasons come last."""
        now = time.monotonic()
        news: list[Event] = []
        troubles: list[str] = []
        slow = now - self._slow_s >= SLOW_S
        for name, look in _SECTIONS.items():
            if name in _SLOW and not slow:
                continue
            try:
                section = _encode(await look(self))
            except DianaError as error:
                troubles.append(str(error))
                continue
            if self._sections.get(name) != section:
                self._sections[name] = section
                news.append((name, section))
        if slow:
            self._slow_s = now
        try:
            news += await self._changed()
        except DianaError as error:
            troubles.append(str(error))
        if news:
            news.append(self._now())
        if troubles:
            news.append(("trouble", _encode({"text": "; ".join(dict.fromkeys(troubles))})))
        return news

    def _now(self) -> Event:
        """The time by the node's clock, by which pages count ages."""
        return "now", _encode({"wallS": self._wall_s()})

    async def _changed(self) -> list[Event]:
        """The groups' rows that changed, and the groups that went."""
        found = await self._call("Status", wire.StatusRequest(limit=MOST_GROUPS))
        groups = {row.group: _encode(_ageless(row)) for row in found.groups}
        changed = [row for group, row in groups.items() if self._groups.get(group) != row]
        gone = [group for group in self._groups if group not in groups]
        self._groups = groups
        if not (changed or gone or self._first or self._left_out != found.left_out):
            return []
        whole, self._first, self._left_out = self._first, False, found.left_out
        return [("groups", self._rows(changed, gone, whole=whole))]

    def _rows(self, changed: Iterable[bytes], gone: Iterable[str], *, whole: bool) -> bytes:
        head = _encode({"whole": whole, "gone": list(gone), "leftOut": self._left_out})
        return b'%s,"rows":[%s]}' % (head[:-1], b",".join(changed))

    async def _call(self, method: str, request: object) -> Any:
        return await self._api.unmetered(self._caller, method, request)

    async def _info(self) -> object:
        return await self._call("Info", wire.Empty())

    async def _sites(self) -> object:
        return [_ageless(site) for site in (await self._call("Sites", wire.Empty())).sites]

    async def _queue(self) -> object:
        return await self._call("Queue", QueueReadRequest())

    async def _links(self) -> object:
        return drawn(await self._call("Links", LinksRequest()))

    async def _peers(self) -> object:
        found = await self._call("Peers", wire.Empty())
        return msgspec.structs.replace(
            found, peers=tuple(map(_ageless, found.peers)), machines=tuple(map(_ageless, found.machines))
        )

    async def _ledger(self) -> object:
        return await self._call("Ledger", wire.Empty())


_SECTIONS: dict[str, Callable[[Feed], Any]] = {
    "info": Feed._info,
    "sites": Feed._sites,
    "queue": Feed._queue,
    "links": Feed._links,
    "peers": Feed._peers,
    "ledger": Feed._ledger,
}
_SLOW = frozenset(("links", "peers"))


class Feeds:
    """The feeds by user."""

    def __init__(self, api: Api, wall_s: Callable[[], float], by_now: Callable[[Principal], Principal | None]) -> None:
        self._api = api
        self._wall_s = wall_s
        self._by_now = by_now
        self._budget = LookBudget()
        self._feeds: dict[Principal, Feed] = {}

    def full(self, caller: Principal) -> bool:
        """Some room is kept for operators, and no user takes it all."""
        most = MOST_VIEWERS if caller.role is Role.OPERATOR else MOST_VIEWERS - KEPT_FOR_OPERATORS
        return self.of(caller).viewers >= MOST_OF_ONE or sum(feed.viewers for feed in self._feeds.values()) >= most

    def of(self, caller: Principal) -> Feed:
        self._feeds = {who: feed for who, feed in self._feeds.items() if feed.viewers or who == caller}
        return self._feeds.setdefault(caller, Feed(self._api, caller, self._wall_s, self._budget, self._by_now))

    def close(self) -> None:
        for feed in self._feeds.values():
            feed.close()


def _ageless(row: Any) -> Any:
    """Ages change all the time, and the page that knows when a row came counts on by itself."""
    return msgspec.structs.replace(row, **{name: 0.0 for name in _AGES if hasattr(row, name)})


def _tell(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    try:
        queue.put_nowait(event)
    except asyncio.QueueFull:
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
