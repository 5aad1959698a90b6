"""Messages for sites to which a stream is being made just now: few bytes, few seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from diana.model.ids import SiteId

WAIT_S = 12.0
"""Long enough for one try of the site's own address and one of a tunnel."""
SITE_BYTES = 1 << 20
ALL_BYTES = 16 << 20


class _Held(NamedTuple):
    payload: bytes
    until_s: float


class WaitingMessages:
    """Bounded in bytes, per site and in all, and in time."""

    def __init__(self) -> None:
        self._held: dict[SiteId, deque[_Held]] = {}
        self._bytes: dict[SiteId, int] = {}
        self._all_bytes = 0

    def __contains__(self, site: SiteId) -> bool:
        return site in self._held

    def __iter__(self) -> Iterator[SiteId]:
        return iter(sorted(self._held))

    def offer(self, site: SiteId, payload: bytes, now_s: float) -> bool:
        """False when there is no room for it."""
        size = len(payload)
        if self._bytes.get(site, 0) + size > SITE_BYTES or self._all_bytes + size > ALL_BYTES:
            return False
        self._held.setdefault(site, deque()).append(_Held(payload, now_s + WAIT_S))
        self._bytes[site] = self._bytes.get(site, 0) + size
        self._all_bytes += size
        return True

    def take(self, site: SiteId) -> list[bytes]:
        """All that waits for the site, in the order it came."""
        held = self._held.pop(site, ())
        self._all_bytes -= self._bytes.pop(site, 0)
        return [one.payload for one in held]

    def expire(self, now_s: float) -> int:
        """Drop what waited too long; how many."""
        dropped = 0
        for site in list(self._held):
            held = self._held[site]
            while held and held[0].until_s <= now_s:
                size = len(held.popleft().payload)
                self._bytes[site] -= size
                self._all_bytes -= size
                dropped += 1
            if not held:
                self.take(site)
        return dropped
