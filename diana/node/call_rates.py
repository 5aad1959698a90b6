"""How often one caller may call and how much it may send (PROMISES 5.12): a bucket per user, refilled steadily, in
bounded memory."""

from __future__ import annotations

from diana.errors import Overloaded
from diana.model.principal import Principal, Role

CALLS_PER_S = 200.0
BURST = 1000.0
"""Calls a user who was quiet may make at once: a script that submits a thousand groups is not slowed."""
MOST_USERS = 10_000
BYTES_PER_S = float(64 << 20)
BURST_BYTES = float(256 << 20)
"""What a user may upload; beyond it the stream is slowed, which costs the sender alone."""
MOST_WAIT_S = 30.0
"""A user who is further behind than this is refused."""


class ByteRates:
    """Of what users upload. Operators are not limited."""

    def __init__(self, bytes_per_s: float = BYTES_PER_S, burst: float = BURST_BYTES) -> None:
        self._rate = bytes_per_s
        self._burst = burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: Principal, size_bytes: int, now_s: float) -> float:
        """Seconds to wait before more is read, once these bytes came. `errors.Overloaded` where several streams at once
        have gone so far beyond that none should go on."""
        if caller.role is Role.OPERATOR:
            return 0.0
        then_s, left = self._left.get(caller.name, (now_s, self._burst))
        left = min(self._burst, left + (now_s - then_s) * self._rate) - size_bytes
        if caller.name not in self._left and len(self._left) >= MOST_USERS:
            self._left = {n: seen for n, seen in self._left.items() if now_s - seen[0] < self._burst / self._rate}
            if len(self._left) >= MOST_USERS:
                self._left.clear()
        self._left[caller.name] = (now_s, left)
        wait_s = max(0.0, -left / self._rate)
        if wait_s > MOST_WAIT_S:
            raise Overloaded(
                f"{caller.name or 'nobody'} uploads more than {self._rate / (1 << 20):g} MiB per second here; "
                f"try again in {wait_s:.0f} s",
                wait_s,
            )
        return wait_s


class CallRates:
    """Operators are not limited: they must reach a node that others flood."""

    def __init__(self, calls_per_s: float = CALLS_PER_S, burst: float = BURST) -> None:
        self._rate = calls_per_s
        self._burst = burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: Principal, now_s: float) -> None:
        """`errors.Overloaded`, with the time after which to try again, when the caller has no call left."""
        if caller.role is Role.OPERATOR:
            return
        then_s, left = self._left.get(caller.name, (now_s, self._burst))
        left = min(self._burst, left + (now_s - then_s) * self._rate)
        if left < 1.0 - 1e-6:
            wait_s = (1.0 - left) / self._rate
            raise Overloaded(
                f"{caller.name or 'nobody'} makes more than {self._rate:g} calls per second here; "
                f"try again in {max(wait_s, 0.1):.1f} s",
                max(wait_s, 0.1),
            )
        if caller.name not in self._left and len(self._left) >= MOST_USERS:
            self._forget(now_s)
        self._left[caller.name] = (now_s, left - 1.0)

    def _forget(self, now_s: float) -> None:
        """Those whose bucket is full again need not be remembered; if that is nobody, the oldest half goes."""
        full_s = self._burst / self._rate
        self._left = {name: seen for name, seen in self._left.items() if now_s - seen[0] < full_s}
        if len(self._left) >= MOST_USERS:
            newest = sorted(self._left.items(), key=lambda item: (-item[1][0], item[0]))[: MOST_USERS // 2]
            self._left = dict(newest)
