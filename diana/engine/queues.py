"""Which custody starts next. Orders subgroups, never single jobs.

First come first served by original submission time; whoever does not fit is passed over in this round.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from diana.engine.state import Custody, CustodyKey

_Entry = tuple[float, CustodyKey]


class Queues:
    """Custodies that have jobs which could start."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def put(self, custody: Custody) -> None:
        entry = (custody.submitted_s, custody.key)
        at = bisect_left(self._entries, entry)
        if at == len(self._entries) or self._entries[at] != entry:
            insort(self._entries, entry)

    def remove(self, custody: Custody) -> None:
        entry = (custody.submitted_s, custody.key)
        at = bisect_left(self._entries, entry)
        if at < len(self._entries) and self._entries[at] == entry:
            del self._entries[at]

    def order(self) -> list[CustodyKey]:
        return [key for _, key in self._entries]

    def __len__(self) -> int:
        return len(self._entries)
