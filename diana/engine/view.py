"""What a site knows of the others just now: volatile, learned again after a restart."""

from __future__ import annotations

from diana.engine.messages import Hello, LinkEstimate, Summary
from diana.model.ids import SiteId

_WEIGHT = 0.3
"""Of the newest throughput sample."""


class PeerView:
    __slots__ = ("bytes_per_s", "hello", "last_heard_s", "rtt_s", "summary", "up")

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.up = False
        self.summary: Summary | None = None
        self.last_heard_s = 0.0
        self.rtt_s: float | None = None
        self.bytes_per_s: float | None = None

    def measured(self, rtt_s: float | None, bytes_per_s: float | None) -> None:
        if rtt_s is not None and rtt_s >= 0:
            self.rtt_s = rtt_s if self.rtt_s is None else min(rtt_s, (1 - _WEIGHT) * self.rtt_s + _WEIGHT * rtt_s)
        if bytes_per_s is not None and bytes_per_s > 0:
            old = self.bytes_per_s
            self.bytes_per_s = bytes_per_s if old is None else (1 - _WEIGHT) * old + _WEIGHT * bytes_per_s


class View:
    """Peers by id. Iterate `alive` for decisions: it is in order of the id, so no decision hangs on hashing."""

    def __init__(self) -> None:
        self.peers: dict[SiteId, PeerView] = {}

    def alive(self, now: float, suspect_after_s: float) -> list[SiteId]:
        return sorted(s for s, p in self.peers.items() if p.up and now - p.last_heard_s <= suspect_after_s)

    def heard(self, site: SiteId, now: float) -> None:
        peer = self.peers.get(site)
        if peer is not None:
            peer.last_heard_s = now

    def links(self) -> tuple[LinkEstimate, ...]:
        return tuple(
            LinkEstimate(site, p.rtt_s if p.rtt_s is not None else -1.0, p.bytes_per_s or -1.0)
            for site, p in sorted(self.peers.items())
            if p.rtt_s is not None or p.bytes_per_s is not None
        )
