"""Pace of each peer, and of each machine of the site: so many bytes and messages are read of it a second, whatever it
sends, over all its streams.

Nothing is dropped. Reading waits, which stops the sender by gRPC's own window, and a Retry tells a peer for how long.
While users call a node that has no time to spare, peers and machines get a part of their pace (`Slack`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

BYTES_PER_S = 4 << 20
BURST_BYTES = 16 << 20
MESSAGES_PER_S = 2_000.0
BURST_MESSAGES = 10_000.0
LEAST_PART = 1 / 16
"""Part of its pace that each has left at least: 256 KiB and 125 messages a second."""
LONGEST_S = 4.0
"""Most seconds that one message keeps the next from being read because the pace is a part: whoever said a long one is
not taken for silent meanwhile."""
BUSY, EASY = 0.25, 0.4
"""Part of the time in which the node waits for something to do, below which the pace is halved, and above which it
grows."""
GROWTH = 1.25
LOOK_S = 0.5
"""Seconds after which who waits looks anew: the pace may have grown."""
MOST_KNOWN = 1024
"""Peers whose pace is remembered; beyond it those that owe nothing are forgotten."""

Name = TypeVar("Name", bound=str)


class Slack:
    """Part of their pace that peers and machines have just now: halved as long as users call and the node hardly ever
    waits, and growing otherwise. So the figures hold on a slow machine, too."""

    def __init__(self) -> None:
        self.part = 1.0
        self._asked = False

    def asked(self) -> None:
        """Note that a user calls."""
        self._asked = True

    def note(self, idle: float) -> None:
        """Note the part of the time since the last note in which the node waited for something to do."""
        if self._asked and idle < BUSY:
            self.part = max(LEAST_PART, self.part / 2)
        elif not self._asked or idle > EASY:
            self.part = min(1.0, self.part * GROWTH)
        self._asked = False


class PeerPace:
    """Room of one peer. It is charged after the fact, so a message of any size comes through, and those after it
    wait."""

    __slots__ = ("_at_s", "_bytes", "_messages", "_slack")

    def __init__(self, now_s: float, slack: Slack | None = None) -> None:
        self._at_s = now_s
        self._slack = slack or Slack()
        self._bytes = float(BURST_BYTES)
        self._messages = BURST_MESSAGES

    def charge(self, size: int, now_s: float, messages: float = 1.0) -> float:
        """Charge one message, or one that costs as much as so many; return the seconds to wait before the next is
        read."""
        self._refill(now_s)
        self._bytes -= size
        self._messages -= messages
        return self._left_s()

    def expect(self, messages: float) -> None:
        """Make room for messages that the peer is asked for."""
        self._messages = min(BURST_MESSAGES, self._messages + messages)

    def owed_s(self, now_s: float) -> float:
        """Return the seconds that are still to wait."""
        self._refill(now_s)
        return self._left_s()

    def is_full(self, now_s: float) -> bool:
        """True if nothing is owed: a new one would be the same."""
        self._refill(now_s)
        return self._bytes >= BURST_BYTES and self._messages >= BURST_MESSAGES

    def _left_s(self) -> float:
        whole_s = max(0.0, -self._bytes / BYTES_PER_S, -self._messages / MESSAGES_PER_S)
        return max(whole_s, min(whole_s / self._slack.part, LONGEST_S))

    def _refill(self, now_s: float) -> None:
        passed_s, self._at_s = max(0.0, now_s - self._at_s) * self._slack.part, now_s
        self._bytes = min(float(BURST_BYTES), self._bytes + passed_s * BYTES_PER_S)
        self._messages = min(BURST_MESSAGES, self._messages + passed_s * MESSAGES_PER_S)


async def wait(pace: PeerPace, wait_s: float, clock: Callable[[], float]) -> None:
    """Wait for what `charge` said, or until nothing is owed any more."""
    until_s = clock() + wait_s
    while (left_s := min(until_s - clock(), pace.owed_s(clock()))) > 0:
        await asyncio.sleep(min(left_s, LOOK_S))


class Paces(Generic[Name]):
    """The pace of each by name, kept over its streams: who dials anew gets no new room."""

    def __init__(self, slack: Slack | None = None) -> None:
        self._of: dict[Name, PeerPace] = {}
        self._slack = slack

    def of(self, name: Name, now_s: float) -> PeerPace:
        found = self._of.get(name)
        if found is None:
            if len(self._of) >= MOST_KNOWN:
                self._of = {one: pace for one, pace in self._of.items() if not pace.is_full(now_s)}
            found = self._of[name] = PeerPace(now_s, self._slack)
        return found
