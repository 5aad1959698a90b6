"""Judges the Hello of a peer, and remembers what is wrong between sites that only those who meet can see: two nodes of
one name, and sites that turn us away.

Nothing hangs on what is remembered; people are told. A thing not seen again is over after a while, since a refused
site dials on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from diana.adapters.grpc_transport.link import PeerLink
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.wire import OLDEST_PROTOCOL

FRESH_S = 180.0
"""Seconds for which a sighting holds: sites that are lost are dialled in turns."""
SURE_S = 8.0
"""Seconds two nodes of one name must be seen: a node that takes over may be met before the other's stream has ended."""
MOST = 256
MOST_TEXT = 300


class Twin(NamedTuple):
    """Two nodes show the name of one site."""

    linked: str
    """Address of the node that is linked, or of this node: host:port, or a host."""
    other: str
    """Address of the node that is refused."""
    first_s: float
    last_s: float


class Noticed:
    """Twins and refusals that were seen lately. Times by `clock`, seconds that only go up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._twins: dict[str, Twin] = {}
        self._refusals: dict[str, tuple[str, float]] = {}

    def check(self, own: Hello, peer: Hello, *, proven: str, linked: PeerLink | None, where: str) -> str:
        """As `check_hello`, for the node at `where`; also note what is found."""
        why = check_hello(own, peer, proven=proven, linked=linked)
        if not why:
            self._refusals.pop(proven, None)
        elif peer.site == proven == own.site:
            if peer.boot_nonce != own.boot_nonce:
                self._twin(proven, own.data_address, peer.data_address or where)
        elif peer.site == proven and linked is not None and linked.peer.db_uuid != peer.db_uuid:
            self._twin(proven, linked.peer.data_address, peer.data_address or where)
        return why

    def turned_away(self, site: SiteId, why: str) -> None:
        """Note that a site, whose certificate was verified, refuses our stream."""
        if site in self._refusals or len(self._refusals) < MOST:
            self._refusals[site] = why[:MOST_TEXT], self._clock()

    def twins(self) -> dict[str, Twin]:
        """Return twins by site, in order of the name; this site's own is one of them where another node has it."""
        now_s = self._clock()
        self._twins = {site: one for site, one in self._twins.items() if now_s - one.last_s < FRESH_S}
        return {site: one for site, one in sorted(self._twins.items()) if one.last_s - one.first_s >= SURE_S}

    def refusals(self) -> dict[str, str]:
        """Return the sites that turn us away, and why, in order of the name."""
        now_s = self._clock()
        self._refusals = {site: one for site, one in self._refusals.items() if now_s - one[1] < FRESH_S}
        return {site: why for site, (why, _) in sorted(self._refusals.items())}

    def _twin(self, site: str, linked: str, other: str) -> None:
        now_s, old = self._clock(), self._twins.get(site)
        again = old is not None and now_s - old.last_s < FRESH_S
        if again or len(self._twins) < MOST:
            where = linked[:MOST_TEXT], other[:MOST_TEXT]
            self._twins[site] = Twin(*where, old.first_s if old is not None and again else now_s, now_s)


def check_hello(own: Hello, peer: Hello, *, proven: str, linked: PeerLink | None) -> str:
    """Return why we do not talk to a peer, on one line; empty: we do. `proven`: the site its certificate names.
    `linked`: the stream that stands with that site already."""
    if peer.site != proven:
        return f"its certificate names {proven}, its hello {peer.site}"
    if peer.site == own.site:
        return f"it calls itself {own.site}, as this node does; each site needs a name of its own"
    if peer.protocol < OLDEST_PROTOCOL:
        return (
            f"{peer.site} ({peer.release[:40]}) speaks protocol {peer.protocol}, "
            f"this node {OLDEST_PROTOCOL} to {own.protocol}; upgrade {peer.site}"
        )
    if linked is not None and linked.peer.db_uuid != peer.db_uuid:
        # A restored or promoted one comes when the other is gone: its stream ends within seconds.
        return f"two nodes are called {peer.site}, with a journal each, and the other one is linked; stop one of them"
    return ""
