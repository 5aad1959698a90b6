"""What a site knows of the others just now: volatile, learned again after a restart. Links alone have a memory."""

from __future__ import annotations

from collections.abc import Callable

from diana.engine.linkbook import Link, LinkBook
from diana.engine.messages import Hello, LinkEstimate, Summary
from diana.model.ids import SiteId
from diana.model.link import LinkHistory


class PeerView:
    __slots__ = ("hello", "last_heard_s", "link", "summary", "told_links", "told_links_s", "up")

    def __init__(self, hello: Hello, link: Link) -> None:
        self.hello = hello
        self.link = link
        self.up = False
        self.summary: Summary | None = None
        self.last_heard_s = 0.0
        self.told_links: tuple[LinkEstimate, ...] = ()
        """Its own links, as it last told them."""
        self.told_links_s = 0.0

    @property
    def rtt_s(self) -> float | None:
        """Forecast; None: never measured."""
        found = self.link.rtt.forecast()
        return None if found is None else found.value

    @property
    def bytes_per_s(self) -> float | None:
        """Forecast, from there to here; None: never measured."""
        found = self.link.rate.forecast()
        return None if found is None else found.value


class View:
    """Peers by id. Iterate `alive` for decisions: it is in order of the id, so no decision hangs on hashing."""

    def __init__(self, histories: dict[SiteId, LinkHistory], now: Callable[[], float]) -> None:
        self.peers: dict[SiteId, PeerView] = {}
        self.book = LinkBook(histories, now)
        self.told_again_s = 0.0
        """When a summary carries links again."""

    def met(self, hello: Hello) -> PeerView:
        """The peer as it is known, made at its first Hello."""
        peer = self.peers.get(hello.site)
        if peer is None:
            peer = self.peers[hello.site] = PeerView(hello, self.book.link(hello.site))
        peer.hello = hello
        return peer

    def alive(self, now: float, suspect_after_s: float) -> list[SiteId]:
        return sorted(s for s, p in self.peers.items() if p.up and now - p.last_heard_s <= suspect_after_s)

    def heard(self, site: SiteId, now: float) -> None:
        peer = self.peers.get(site)
        if peer is not None:
            peer.last_heard_s = now

    def links(self) -> tuple[LinkEstimate, ...]:
        """This site's forecasts of fetching from others, in order of their id."""
        return self.book.estimates()
