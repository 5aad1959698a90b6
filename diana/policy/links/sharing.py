"""Throughput of a link, measured passively from its concurrent transfers together (SPEC D10).

Each of n streams sees only a share of the link. So a stream that ended is not judged alone: its sample is the bytes all
known streams moved while it ran, over that time. Streams that ran with it may end a little later, so it is judged after
a pause.
"""

from __future__ import annotations

from collections import deque

LEAST_PAUSE_S = 0.25
MOST_PAUSE_S = 5.0
MOST_KEPT = 256
"""Streams remembered per link."""


class _Stream:
    __slots__ = ("began_s", "counted_bytes", "ended_s", "moved_bytes")

    def __init__(self, began_s: float, ended_s: float, moved_bytes: int) -> None:
        self.began_s = began_s
        self.ended_s = ended_s
        self.moved_bytes = moved_bytes
        self.counted_bytes = 0.0
        """Those of the moved bytes that samples already returned have counted."""

    def within(self, frame: _Stream) -> float:
        """Bytes it moved while `frame` ran, taking its rate for constant."""
        common_s = min(self.ended_s, frame.ended_s) - max(self.began_s, frame.began_s)
        return self.moved_bytes * common_s / (self.ended_s - self.began_s) if common_s > 0 else 0.0


class Sharing:
    """The transfers of one link, towards here. Times are those of any one clock that does not run backwards."""

    __slots__ = ("_known", "_waiting")

    def __init__(self) -> None:
        self._known: deque[_Stream] = deque(maxlen=MOST_KEPT)
        self._waiting: deque[tuple[float, _Stream]] = deque(maxlen=MOST_KEPT)

    def ended(self, moved_bytes: int, seconds: float, now_s: float) -> None:
        """Record a stream of `seconds` > 0 that ended just now."""
        stream = _Stream(now_s - seconds, now_s, moved_bytes)
        self._known.append(stream)
        # Streams that began together and move about as much end within their own length of each other.
        pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, seconds))
        due_s = now_s + pause_s
        if self._waiting:
            due_s = max(due_s, self._waiting[-1][0])
        self._waiting.append((due_s, stream))

    def due_s(self) -> float | None:
        """Time at which the next stream can be judged; None: none waits."""
        return self._waiting[0][0] if self._waiting else None

    def take(self, now_s: float, least_bytes: int) -> list[float]:
        """Return samples of the whole link in bytes per second, one for streams that ran together. Stretches of time
        that moved less than `least_bytes` measure latency and are left out."""
        rates: list[float] = []
        while self._waiting and self._waiting[0][0] <= now_s:
            _, stream = self._waiting.popleft()
            if stream.counted_bytes >= stream.moved_bytes / 2:
                # Most of it stands in a sample of streams it ran with.
                continue
            moved = [(other, other.within(stream)) for other in self._known]
            total = sum(size for _, size in moved)
            if total >= least_bytes:
                rates.append(total / (stream.ended_s - stream.began_s))
                for other, size in moved:
                    other.counted_bytes += size
        return rates
