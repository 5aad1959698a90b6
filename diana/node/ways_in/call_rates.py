"""Limits on how often one caller may call and how much it may send (PROMISES 5.12): a bucket per user, refilled
steadily, in bounded memory."""

from __future__ import annotations

from diana.errors import Overloaded
from diana.model.trust.principal import Principal, Role

CALLS_PER_S = 200.0
BURST = 1000.0
"""Calls a user who was quiet may make at once: a script that submits a thousand groups is not slowed."""
GAP_S = 0.001
SUBMISSIONS_PER_S = 50.0
SUBMISSION_GAP_S = 0.01
"""The same for submissions and plans: each has the node decide where jobs would run, which takes as long as many other
calls."""
AT_ONCE = 4
"""Calls of one user begin `GAP_S` apart, but for `AT_ONCE`: less than one call takes, so that a script notices nothing.
"""
REFUSED_AFTER_S = 0.2
REFUSED_GAP_S = 0.025
MOST_REFUSED_AFTER_S = 5.0
"""A call too many is refused after this time, the more of them the later: refusing costs work too."""
ROWS_PER_CALL = 20
GROUPS_PER_CALL = 8
"""Rows, and groups, of an answer that cost as much as one call: each group is looked at by itself."""
MOST_USERS = 10_000
BYTES_PER_S = float(64 << 20)
BURST_BYTES = float(256 << 20)
"""Bytes a user may upload at once after a quiet time; beyond them the stream is slowed, which costs the sender alone.
"""
MOST_WAIT_S = 30.0
"""A user who is further behind than this is refused."""


class ByteRates:
    """Rates of the bytes that users upload. Operators are not limited."""

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

    def __init__(self, calls_per_s: float = CALLS_PER_S, burst: float = BURST, of: str = "calls") -> None:
        """`of`: the calls in words."""
        self._rate = calls_per_s
        self._burst = burst
        self._word = of
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
                f"{caller.name or 'nobody'} makes more than {self._rate:g} {self._word} per second here; "
                f"try again in {max(wait_s, 0.1):.1f} s",
                max(wait_s, 0.1),
            )
        if caller.name not in self._left and len(self._left) >= MOST_USERS:
            self._forget(now_s)
        self._left[caller.name] = (now_s, left - 1.0)

    def charge(self, caller: Principal, calls: float) -> None:
        """Charge the last call for `calls` more; the debt is paid back before the next."""
        if caller.role is not Role.OPERATOR and caller.name in self._left:
            then_s, left = self._left[caller.name]
            self._left[caller.name] = (then_s, max(left - calls, -self._burst))

    def _forget(self, now_s: float) -> None:
        """Forget users whose bucket is full again; if that is nobody, the half not seen for longest."""
        full_s = self._burst / self._rate
        self._left = {name: seen for name, seen in self._left.items() if now_s - seen[0] < full_s}
        if len(self._left) >= MOST_USERS:
            newest = sorted(self._left.items(), key=lambda item: (-item[1][0], item[0]))[: MOST_USERS // 2]
            self._left = dict(newest)


class CallSpacing:
    """Spaces out the calls of each user, so that another user's call is through between any two. Without it a user who
    calls again and again on many connections would call on all of them at the same moment, for ever."""

    def __init__(self, gap_s: float, at_once: int = 1, most_s: float = MOST_WAIT_S) -> None:
        """`at_once` begin without a wait, the others `gap_s` apart, none later than `most_s`."""
        self._gap_s = gap_s
        self._ahead_s = gap_s * (at_once - 1)
        self._most_s = most_s
        self._next_s: dict[str, float] = {}

    def wait_s(self, caller: Principal, now_s: float) -> float:
        """Seconds until this call is to begin."""
        if caller.role is Role.OPERATOR:
            return 0.0
        due_s = max(now_s, self._next_s.get(caller.name, now_s))
        if caller.name not in self._next_s and len(self._next_s) >= MOST_USERS:
            self._next_s = {name: next_s for name, next_s in self._next_s.items() if next_s > now_s}
            if len(self._next_s) >= MOST_USERS:
                self._next_s.clear()
        self._next_s[caller.name] = min(due_s, now_s + self._most_s) + self._gap_s
        return min(max(0.0, due_s - self._ahead_s - now_s), self._most_s)
