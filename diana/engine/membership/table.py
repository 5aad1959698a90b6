"""Memory of the membership protocol between two turns. Volatile: a restart learns it again within seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from diana.engine.membership.sizes import kept_bytes, names_bytes
from diana.engine.messages.messages import Rumour, Summary
from diana.engine.migration.table import LongerPause
from diana.model.ids import SiteId
from diana.model.trust.contact import KnownAt
from diana.policy.membership import mark, repeats

if TYPE_CHECKING:
    from diana.engine.site.view import PeerView

MOST_KNOWN = 20_000
"""Sites learned from others; those met count beyond it."""
MOST_HEARSAY_BYTES = 32 << 20
"""Memory for words of sites never met: as many sites as `MOST_KNOWN`, each with what an honest one says of itself."""
MOST_HEARSAY_NAMES_BYTES = 8 << 20
"""Part of it for names of their datasets; a site is asked for a quote without them as well."""
MOST_HEARD = 256
"""Sites remembered for one attempt each to reach them."""
MOST_VALUE = 1 << 40
"""No honest generation or counter comes near it."""
MOST_LEAP = 1_000_000
"""A version this far beyond the known one is believed from its own site only: days of turns at once."""


class Changes:
    """Changes of one site's address."""

    __slots__ = ("count", "first_s", "last_s", "now_at", "was_at")

    def __init__(self, now_s: float) -> None:
        self.count = 0
        self.first_s = self.last_s = now_s
        self.was_at = self.now_at = ""


class Suspicion:
    """A suspicion of one site at one version."""

    __slots__ = ("by", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.by: set[SiteId] = set()
        """Sites that missed it first-hand."""


class HearsayShare:
    """Bytes of words."""

    __slots__ = ("names", "rest")

    def __init__(self) -> None:
        self.rest = self.names = 0

    def add(self, rest: int, names: int) -> None:
        self.rest += rest
        self.names += names

    def weight(self) -> int:
        return self.rest + self.names


class HearsayBook:
    """Account of the words kept of sites never met (`PeerView.through`), by the site that told them last."""

    def __init__(self) -> None:
        self.total = HearsayShare()
        self.by: dict[SiteId, HearsayShare] = {}

    def charge(self, peer: PeerView) -> None:
        if peer.through and peer.summary is not None:
            self._add(peer.through[0], kept_bytes(peer.summary), names_bytes(peer.summary))

    def release(self, peer: PeerView) -> None:
        """To be called before the word or its way changes."""
        if peer.through and peer.summary is not None:
            self._add(peer.through[0], -kept_bytes(peer.summary), -names_bytes(peer.summary))

    def _add(self, teller: SiteId, rest: int, names: int) -> None:
        share = self.by.setdefault(teller, HearsayShare())
        for one in (share, self.total):
            one.add(rest, names)
        if not share.rest:
            del self.by[teller]


class Served(NamedTuple):
    """A newcomer that is told everything, a part at each turn."""

    site: SiteId
    at: int
    """Place in `MembershipTable.order` from which the next part goes on."""


class MembershipTable:
    """All that membership knows beside `View.peers`, which holds the sites themselves."""

    def __init__(self, site: SiteId) -> None:
        self.site = site
        self.address = ""
        self.incarnation = 0
        """Generation of the own entry: that of the journal, or higher where others remember a higher one."""
        self.named_at = 0
        self.names: tuple[str, ...] = ()
        self.said: Summary | None = None
        """This site's last word about itself, without `counter`, `seq` and `links`, which change all the time."""
        self.pressed = False
        """True if somebody doubts this site: the next turn tells everybody something newer."""
        self.lively = False
        """True if news of others came that is worth a message: membership apart, of work or of who takes some."""
        self.turn = 0
        self.due_s = -1.0
        """Site time at which the next turn should come; if it comes later, this site is slow."""
        self.health = 0
        """Turns that came late, less those that did not: 0 is well."""
        self.order: list[SiteId] = []
        """All sites in the order they became known; entries are told round it when nothing is more urgent."""
        self.reach: int | None = None
        """Distance on the ring of `neighbourhood` from which on sites are not taken in; None: any are."""
        self.at = 0
        self.digest_at = 0
        self.fresh: dict[SiteId, None] = {}
        """Sites whose newer words were not passed on yet, in the order in which they came."""
        self.news: dict[SiteId, int] = {}
        """Changes of membership -> times they are still to be told."""
        self.hurried = 0
        """Messages of news sent between turns; each draws others."""
        self.news_bytes = 0
        """Bytes that messages of news between turns may still weigh before the next turn."""
        self.answer_bytes = 0
        """Bytes that entries in answers may still weigh before the next turn."""
        self.twins: dict[SiteId, Changes] = {}
        """Sites whose address goes back and forth."""
        self.standing: dict[SiteId, Rumour] = {}
        """Latest words on sites that are not simply alive."""
        self.suspicions: dict[SiteId, Suspicion] = {}
        self.doubts: dict[SiteId, float] = {}
        """Streams that fell -> when; nothing was heard of those sites since."""
        self.awaited: dict[SiteId, float] = {}
        """Streams asked for that never stood yet -> since when."""
        self.unmet: dict[SiteId, float] = {}
        """Sites never met to which a stream is wanted -> since when."""
        self.vain: dict[SiteId, LongerPause] = {}
        """Sites never met that were dialled in vain."""
        self.warned: dict[SiteId, float] = {}
        """Sites told that somebody misses them -> when."""
        self.hears_all: dict[SiteId, int] = {}
        """Linked sites that have streams to all they know -> fingerprint of those (`marks`)."""
        self.meeting: set[SiteId] = set()
        """Streams over which no summary came yet."""
        self.leaving = False
        self.linked: dict[SiteId, None] = {}
        self.kept: set[SiteId] = set()
        self.chosen: list[tuple[int, SiteId]] = []
        """(score, site) of the sites streams are held to for their own sake, the lowest first."""
        self.replan = True
        self.alive = 1
        """Sites that are neither lost nor gone, this one included."""
        self.marks = mark(site)
        self.unsaved: dict[SiteId, KnownAt] = {}
        """Contacts the journal does not have yet."""
        self.heard: dict[SiteId, KnownAt] = {}
        """Living sites that the table had no place for and that were never met, the latest last."""
        self.called: list[SiteId] = []
        """Living sites beyond the table that are called in this round."""
        self.serving: list[Served] = []
        self.hearsay = HearsayBook()
        self.asked_all_s = float("-inf")

    def hear_of(self, site: SiteId, address: str, told: Summary | None) -> None:
        """Remember how a site is reached that the table gives up and the journal does not know."""
        self.heard.pop(site, None)
        if address or (told is not None and told.via):
            self.heard[site] = KnownAt(site, address, told.via if told else ())
            if len(self.heard) > MOST_HEARD:
                del self.heard[next(iter(self.heard))]

    def count(self, site: SiteId, by: int) -> None:
        """`site` joins (1) those that are neither lost nor gone, or leaves them (-1)."""
        self.alive += by
        self.marks ^= mark(site)

    def spread(self, site: SiteId) -> None:
        """Tell the site's state as news, from the start."""
        self.news[site] = repeats(self.alive)

    def streamless(self) -> bool:
        """True if no stream stands: whoever hears nobody concludes nothing about others."""
        return not self.linked
