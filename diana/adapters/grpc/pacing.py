"""Pace of each peer, and of each machine of the site: so many bytes and messages are read of it a second, whatever it
sends, over all its streams.

Nothing is dropped. Reading waits, which stops the sender by gRPC's own window, and a Retry tells a peer for how long.
"""

from __future__ import annotations

from typing import Generic, TypeVar

BYTES_PER_S = 4 << 20
BURST_BYTES = 16 << 20
MESSAGES_PER_S = 2_000.0
BURST_MESSAGES = 10_000.0
MOST_KNOWN = 1024
"""Peers whose pace is remembered; beyond it those that owe nothing are forgotten."""

Name = TypeVar("Name", bound=str)


class PeerPace:
    """Room of one peer. It is charged after the fact, so a message of any size comes through, and those after it
    wait."""

    __slots__ = ("_at_s", "_bytes", "_messages")

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._bytes = float(BURST_BYTES)
        self._messages = BURST_MESSAGES

    def charge(self, size: int, now_s: float, messages: float = 1.0) -> float:
        """Charge one message, or one that costs as much as so many; return the seconds to wait before the next is
        read."""
        self._refill(now_s)
        self._bytes -= size
        self._messages -= messages
        return max(0.0, -self._bytes / BYTES_PER_S, -self._messages / MESSAGES_PER_S)

    def is_full(self, now_s: float) -> bool:
        """True if nothing is owed: a new one would be the same."""
        self._refill(now_s)
        return self._bytes >= BURST_BYTES and self._messages >= BURST_MESSAGES

    def _refill(self, now_s: float) -> None:
        passed_s, self._at_s = max(0.0, now_s - self._at_s), now_s
        self._bytes = min(float(BURST_BYTES), self._bytes + passed_s * BYTES_PER_S)
        self._messages = min(BURST_MESSAGES, self._messages + passed_s * MESSAGES_PER_S)


class Paces(Generic[Name]):
    """The pace of each by name, kept over its streams: who dials anew gets no new room."""

    def __init__(self) -> None:
        self._of: dict[Name, PeerPace] = {}

    def of(self, name: Name, now_s: float) -> PeerPace:
        found = self._of.get(name)
        if found is None:
            if len(self._of) >= MOST_KNOWN:
                self._of = {one: pace for one, pace in self._of.items() if not pace.is_full(now_s)}
            found = self._of[name] = PeerPace(now_s)
        return found
