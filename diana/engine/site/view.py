"""A site's view of the others just now. Volatile, learned again after a restart; links alone have a memory."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from diana.engine.messages.messages import Hello, LinkEstimate, Progress, Summary
from diana.engine.site.link_book import LinkBook, MeasuredLink
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.views.link import LinkHistory
from diana.policy.membership import State

Version = tuple[int, int]
"""(generation, counter) of a summary; the higher one is newer."""
UNHEARD: Version = (0, -1)


class ToldLinks(NamedTuple):
    """A peer's own links, as it last told them."""

    links: tuple[LinkEstimate, ...] = ()
    at_s: float = 0.0


class PeerView:
    """A site, met or only heard of. Kept small: a site of a large VO knows thousands."""

    __slots__ = (
        "_book",
        "apart",
        "besides",
        "doubted",
        "held_s",
        "hello",
        "last_heard_s",
        "loose",
        "loose_said",
        "loose_there",
        "site",
        "state",
        "summary",
        "summary_s",
        "through",
        "told",
        "up",
        "version",
    )

    def __init__(self, site: SiteId, book: LinkBook) -> None:
        self.site = site
        self._book = book
        self.apart = -1
        """Distance from here on the ring of `membership/ring.py`; negative: not asked yet."""
        self.hello: Hello | None = None
        """Latest Hello of the site; None: never met."""
        self.up = False
        """True while a stream to it stands."""
        self.state = State.ALIVE
        """State of the site, by what is told of it."""
        self.version = UNHEARD
        """The newest version heard of, first-hand or not (`suspicion.renew`)."""
        self.doubted = False
        """True if its stream fell, or never came, and nobody has heard of it since."""
        self.loose = False
        """True while its stream, if any, is not held from here."""
        self.held_s = 0.0
        """Site time since which its stream is held from here; silence before that means nothing."""
        self.loose_said = False
        """The value of `loose` that the other end was told last: if it were not told that a stream was let go, it would
        wait in vain."""
        self.loose_there = True
        """True while its stream, if any, is not held from there."""
        self.summary: Summary | None = None
        self.summary_s = 0.0
        """Site time at which the summary was said, as far as is known."""
        self.last_heard_s = 0.0
        """Site time at which it last said something, as far as is known; the age of words that came through others is
        taken off."""
        self.told: ToldLinks | None = None
        self.through: tuple[SiteId, ...] = ()
        """Way of its summary while it was never met: sites that passed it on, the latest first (`hearsay.py`)."""
        self.besides: tuple[SiteId, ...] = ()
        """Another such way to the same address, which has no site of `through` in it; empty: none is known."""

    @property
    def link(self) -> MeasuredLink:
        return self._book.link(self.site)

    @property
    def told_links(self) -> tuple[LinkEstimate, ...]:
        return self.told.links if self.told else ()

    @property
    def told_links_s(self) -> float:
        return self.told.at_s if self.told else 0.0

    @property
    def rtt_s(self) -> float | None:
        """Forecast of the round trip; None: never measured."""
        found = self.link.rtt.forecast() if self._book.knows(self.site) else None
        return None if found is None else found.value

    @property
    def bytes_per_s(self) -> float | None:
        """Forecast of the throughput from there to here; None: never measured."""
        found = self.link.rate.forecast() if self._book.knows(self.site) else None
        return None if found is None else found.value

    @property
    def release(self) -> str:
        return self.hello.release if self.hello else self.summary.release if self.summary else ""

    @property
    def address(self) -> str:
        """host:port where it is reached; empty: it can only dial out, or nobody said."""
        said = self.summary.address if self.summary else ""
        return said or (self.hello.data_address if self.hello else "")

    @property
    def tied(self) -> bool:
        """True while a stream stands that one of the two holds: then it is heard of at every turn."""
        return self.up and not (self.loose and self.loose_there)

    @property
    def here(self) -> bool:
        """True if nothing speaks against its being alive and in reach."""
        return self.state is not State.LEFT and (self.up or (self.state is State.ALIVE and not self.doubted))

    def answers(self, now: float, suspect_after_s: float) -> bool:
        """True if it is worth asking: its stream speaks, or others hear it."""
        if self.tied:
            return now - self.last_heard_s <= suspect_after_s and self.state is not State.LEFT
        return self.state is State.ALIVE and not self.doubted


def standing(peer: PeerView, age_s: float, suspect_after_s: float) -> str:
    """Return the peer's state as people are told it; `age_s`: seconds since it was last heard of."""
    if peer.state >= State.LOST and not (peer.up and peer.state is State.LOST):
        return peer.state.name.lower()
    if not peer.here and peer.doubted:
        return "unreachable"
    return "suspect" if peer.state is State.SUSPECT or (peer.tied and age_s > suspect_after_s) else "alive"


class View:
    """Sites by id. Iterate `alive` for decisions: it is in order of the id, so no decision hangs on hashing."""

    def __init__(self, histories: dict[SiteId, LinkHistory], now: Callable[[], float]) -> None:
        self.peers: dict[SiteId, PeerView] = {}
        self.book = LinkBook(histories, now)
        self.told: tuple[LinkEstimate, ...] = ()
        """Links of this site that newcomers were told last, at `told_s`."""
        self.told_s = -inf
        self.told_again_s = 0.0
        """Site time from which a summary carries links again."""
        self.banned: frozenset[SiteId] = frozenset()
        """Sites that the VO's ledger bans."""
        self.detours: dict[SiteId, float] = {}
        """Sites others hear and this one cannot reach -> until when it does not try."""
        self.avoided: dict[GroupId, dict[SiteId, tuple[float, str]]] = {}
        """Group -> sites that are no candidates for it: until when, and why."""
        self.progress: dict[SubgroupId, Progress] = {}
        """Subgroup -> how far it is, by its destination's latest word."""

    def avoid(self, group: GroupId, site: SiteId, until_s: float, why: str) -> None:
        """Have the site be no candidate for the group until then. `why`: one line for the group's user."""
        self.avoided.setdefault(group, {})[site] = (until_s, why)

    def why_avoided(self, group: GroupId, site: SiteId, now: float) -> str:
        """Return why the site is no candidate for the group now; empty: it is one."""
        until_s, why = self.avoided.get(group, {}).get(site, (0.0, ""))
        return why if until_s > now else ""

    def met(self, hello: Hello) -> PeerView:
        """Return the peer of this Hello, made at its first Hello or the first word of it."""
        peer = self.entry(hello.site)
        peer.hello = hello
        return peer

    def entry(self, site: SiteId) -> PeerView:
        peer = self.peers.get(site)
        if peer is None:
            peer = self.peers[site] = PeerView(site, self.book)
        return peer

    def alive(self, now: float, suspect_after_s: float) -> list[SiteId]:
        return sorted(s for s, p in self.peers.items() if p.answers(now, suspect_after_s))

    def heard(self, site: SiteId, now: float) -> None:
        peer = self.peers.get(site)
        if peer is not None:
            peer.last_heard_s = now

    def links(self) -> tuple[LinkEstimate, ...]:
        """This site's forecasts of fetching from others, in order of their id."""
        return self.book.estimates()
