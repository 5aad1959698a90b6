"""The limit on logging a peer's nonsense: it is always counted, but whoever talks nonsense all day must not fill the
disk of those who listen, nor hide what others do."""

from __future__ import annotations

from diana.model.ids import SiteId

AT_ONCE = 20
"""Lines about one site without a pause."""
ANOTHER_S = 10.0
"""Seconds after which one more line may be told."""
MOST_SITES = 4096
"""Sites remembered; beyond this number all begin anew."""


class Complaints:
    def __init__(self) -> None:
        self._room: dict[SiteId, tuple[float, float]] = {}
        """Per site (lines that may still be told, site time at which that was so)."""
        self._silent: dict[SiteId, int] = {}

    def line(self, site: SiteId, text: str, now: float) -> str:
        """Return the line to log for `text`, a complaint about `site`; empty: nothing, for now."""
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
