"""What the pages show while they are open: sections of a site's view, built once for all who see the same, and sent as
what changed.

A feed belongs to one user, as users see different groups. It is built at most once a second and takes at most a
twentieth of a core: with more groups it is built less often, and nobody looking costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from diana.errors import DianaError
from diana.model.principal import Principal
from diana.node.web.drawn import drawn
from diana.wire import client_messages as wire

if TYPE_CHECKING:
    from diana.node.api import Api

_log = logging.getLogger(__name__)

EVERY_S = 1.0
SHARE = 0.05
SLOW_S = 5.0
"""Between two looks at what moves slowly: links, peers."""
ALIVE_S = 10.0
"""At least so often a page hears that the node is there."""
WAITING = 64
"""Events a viewer may be behind; one that is further is sent everything anew."""

Event = tuple[str, bytes]

_encode = msgspec.json.Encoder().encode
_AGES = ("age_s", "summary_age_s", "away_s")


class Feed:
    """One user's. `api` is asked as that user."""

    def __init__(self, api: Api, caller: Principal, wall_s: Callable[[], float]) -> None:
        self._api = api
        self._caller = caller
        self._wall_s = wall_s
        self._viewers: set[asyncio.Queue[Event | None]] = set()
        self._sections: dict[str, bytes] = {}
        self._groups: dict[str, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._first = True
        self._heard_s = 0.0
        self._slow_s = float("-inf")

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    async def follow(self) -> AsyncGenerator[Event]:
        """All sections as they stand, then what changes; ends when the viewer is too slow, who then comes again."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(WAITING)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._sections:
            for section in self._whole():
                queue.put_nowait(section)
        self._viewers.add(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._viewers.discard(queue)
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None
                self._sections, self._groups, self._slow_s, self._first = {}, {}, float("-inf"), True

    def close(self) -> None:
        for queue in self._viewers:
            _tell(queue, None)

    def _whole(self) -> Iterable[Event]:
        yield from self._sections.items()
        yield "groups", _rows(self._groups.values(), (), whole=True)
        yield self._now()

    async def _run(self) -> None:
        while True:
            began = time.perf_counter()
            try:
                for event in await self._news():
                    self._tell(event)
            except Exception:
                _log.exception("the dashboard's view of %s", self._caller.name)
            took = time.perf_counter() - began
            await asyncio.sleep(max(EVERY_S, took / SHARE))

    def _tell(self, event: Event) -> None:
        for queue in self._viewers:
            _tell(queue, event)

    async def _news(self) -> list[Event]:
        """What changed since the last look. A section that cannot be had now stays as it was, and why is told last."""
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
        if news or now - self._heard_s >= ALIVE_S:
            news.append(self._now())
            self._heard_s = now
        if troubles:
            news.append(("trouble", _encode({"text": "; ".join(dict.fromkeys(troubles))})))
        return news

    def _now(self) -> Event:
        """The node's clock: pages count ages by it."""
        return "now", _encode({"wallS": self._wall_s()})

    async def _changed(self) -> list[Event]:
        """Of the groups those rows that are not as they were, and which went."""
        found = (await self._call("Status", wire.StatusRequest())).groups
        groups = {row.group: _encode(_ageless(row)) for row in found}
        changed = [row for group, row in groups.items() if self._groups.get(group) != row]
        gone = [group for group in self._groups if group not in groups]
        self._groups = groups
        if not (changed or gone or self._first):
            return []
        whole, self._first = self._first, False
        return [("groups", _rows(changed, gone, whole=whole))]

    async def _call(self, method: str, request: object) -> Any:
        return await self._api.call(self._caller, method, request, "dashboard")

    async def _info(self) -> object:
        return await self._call("Info", wire.Empty())

    async def _sites(self) -> object:
        return [_ageless(site) for site in (await self._call("Sites", wire.Empty())).sites]

    async def _queue(self) -> object:
        return await self._call("Queue", wire.QueueReadRequest())

    async def _links(self) -> object:
        return drawn(await self._call("Links", wire.LinksRequest()))

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
    """By user. At most so many viewers at once."""

    MOST = 64

    def __init__(self, api: Api, wall_s: Callable[[], float]) -> None:
        self._api = api
        self._wall_s = wall_s
        self._feeds: dict[Principal, Feed] = {}

    def full(self) -> bool:
        return sum(feed.viewers for feed in self._feeds.values()) >= self.MOST

    def of(self, caller: Principal) -> Feed:
        self._feeds = {who: feed for who, feed in self._feeds.items() if feed.viewers or who == caller}
        return self._feeds.setdefault(caller, Feed(self._api, caller, self._wall_s))

    def close(self) -> None:
        for feed in self._feeds.values():
            feed.close()


def _ageless(row: Any) -> Any:
    """Ages change all the time, and the page that knows when a row came counts on by itself."""
    return msgspec.structs.replace(row, **{name: 0.0 for name in _AGES if hasattr(row, name)})


def _rows(changed: Iterable[bytes], gone: Iterable[str], *, whole: bool) -> bytes:
    return b'{"whole":%s,"gone":%s,"rows":[%s]}' % (
        b"true" if whole else b"false",
        _encode(list(gone)),
        b",".join(changed),
    )


def _tell(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    try:
        queue.put_nowait(event)
    except asyncio.QueueFull:
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
