"""How often a peer's nonsense is told in the log: it is always counted, but whoever talks nonsense all day must not
fill the disk of those who listen, nor hide what others do."""

from __future__ import annotations

from diana.model.ids import SiteId

AT_ONCE = 20
"""Lines about one site without a pause."""
ANOTHER_S = 10.0
"""After this long one more may be told."""
MOST_SITES = 4096
"""Remembered; beyond that all begin anew."""


class Complaints:
    def __init__(self) -> None:
        self._room: dict[SiteId, tuple[float, float]] = {}
        """Lines that may be told of a site, and when that was so."""
        self._silent: dict[SiteId, int] = {}

    def line(self, site: SiteId, text: str, now: float) -> str:
        """What is told of `text`, which is about a word of `site`; empty: nothing, for now."""
        if len(self._room) >= MOST_SITES and site not in self._room:
            self._room.clear()
            self._silent.clear()
        room, since_s = self._room.get(site, (float(AT_ONCE), now))
        room = min(AT_ONCE, room + max(0.0, now - since_s) / ANOTHER_S)
        if room < 1.0:
            self._room[site] = (room, now)
            self._silent[site] = self._silent.get(site, 0) + 1
            return ""
        self._room[site] = (room - 1.0, now)
        missed = self._silent.pop(site, 0)
        return f"{text} ({missed:,} more like this were not told)" if missed else text
