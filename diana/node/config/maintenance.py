"""`[[maintenance]]` of `site.toml`: read strictly, unrolled into windows, and told to the engine as time goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from diana.engine.journal.events import CalendarTold, Event
from diana.errors import UsageError
from diana.model.maintenance import MOST_WINDOWS, Window

WEEKS = 6
"""Weeks ahead that a weekly window is told: no job takes longer."""
LOOK_S = 60.0
OFF_S = 0.5
"""Seconds that wall clock and site time may drift apart before the engine is told anew."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One table, as it is written; ValueError names the key, what stands there and what may."""

    begin: str = ""
    """`from`: an ISO time with its zone."""
    end: str = ""
    """`to`: likewise."""
    weekly: str = ""
    """Begin of a weekly window, instead of `from` and `to`: a day and a time, such as `sat 22:00`."""
    hours: float = 0.0
    """Length of a weekly window."""
    zone: str = "UTC"
    """Time zone of a weekly window's clock."""
    reason: str = ""
    machines: tuple[str, ...] = ()
    """Members and clusters it is about; empty: the whole site."""

    def __post_init__(self) -> None:
        if not self.reason.isprintable() or len(self.reason) > 200:
            raise ValueError(f"reason: {self.reason[:40]!r}: want one line of at most 200 characters")
        if bool(self.weekly) == bool(self.begin or self.end):
            raise ValueError("from: want from and to, or weekly and hours")
        if not self.weekly:
            if self.hours or self.zone != "UTC":
                raise ValueError("weekly: missing; hours and zone are of weekly windows")
            Window(from_wall_s=wall_time("from", self.begin), to_wall_s=wall_time("to", self.end))
            return
        self._day_and_minute()
        if not 0 < self.hours <= 7 * 24 - 1:
            raise ValueError(f"hours: {self.hours}: want more than 0, at most 167")
        try:
            ZoneInfo(self.zone)
        except (LookupError, OSError, ValueError):
            raise ValueError(f"zone: {self.zone!r}: no time zone here; want a name such as Europe/Berlin") from None

    def windows(self, wall_s: float) -> Iterable[Window]:
        """The windows that are not over, the weekly ones `WEEKS` ahead."""
        once = [] if self.weekly else [(wall_time("from", self.begin), wall_time("to", self.end))]
        for from_s, to_s in once or self._weeks(wall_s):
            if to_s > wall_s:
                yield Window(from_wall_s=from_s, to_wall_s=to_s, reason=self.reason, machines=self.machines)

    def _weeks(self, wall_s: float) -> list[tuple[float, float]]:
        day, minute = self._day_and_minute()
        today = datetime.fromtimestamp(wall_s, ZoneInfo(self.zone)).replace(hour=0, minute=0, second=0, microsecond=0)
        first = today + timedelta(days=(day - today.weekday()) % 7 - 7)
        begins = (first + timedelta(weeks=k) for k in range(WEEKS + 1))
        # By that zone's clock also in the weeks when it changes.
        starts = [(one.replace(hour=minute // 60, minute=minute % 60)).timestamp() for one in begins]
        return [(from_s, from_s + 3600.0 * self.hours) for from_s in starts]

    def _day_and_minute(self) -> tuple[int, int]:
        name, _, at = self.weekly.partition(" ")
        hour, _, minute = at.strip().partition(":")
        day, short = name.lower()[:3], len(hour) <= 2 and len(minute) == 2
        if day in _DAYS and short and f"{hour}{minute}".isdecimal() and int(hour) < 24 and int(minute) < 60:
            return _DAYS.index(day), 60 * int(hour) + int(minute)
        raise ValueError(f'weekly: {self.weekly!r}: want a day and a time, such as "sat 22:00"')


def wall_time(key: str, text: str) -> float:
    """`2031-05-01T08:00+02:00`, `2031-05-01 08:00Z` -> seconds since 1970. ValueError names the key."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{key}: {text!r}: want a time with its zone, such as 2031-05-01T08:00+02:00") from None
    if found.tzinfo is None:
        raise ValueError(f"{key}: {text!r} has no zone; append Z for UTC, or +02:00 and the like")
    return found.astimezone(UTC).timestamp()


_KEYS = {"from": "begin", "to": "end", "weekly": "weekly", "hours": "hours", "zone": "zone", "reason": "reason"}
_KEYS["machines"] = "machines"


def planned(tables: Any, name: str) -> tuple[Planned, ...]:
    """The list of tables. UsageError: `FILE:maintenance: ...`."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{name}:maintenance: no list of tables; write [[maintenance]] before each")
    if len(tables) > MOST_WINDOWS // WEEKS:
        raise UsageError(f"{name}:maintenance: {len(tables)} tables; want {MOST_WINDOWS // WEEKS} at most")
    found = []
    for number, table in enumerate(tables, 1):
        at = f"{name}:maintenance {number}"
        for key in table:
            if key not in _KEYS:
                raise UsageError(f"{at}: {key}: unknown key; known are {', '.join(sorted(_KEYS))}")
        values = {_KEYS[key]: _text(value) for key, value in table.items()}
        try:
            found.append(msgspec.convert(values, Planned))
        except ValueError as error:
            raise UsageError(f"{at}: {error}") from None
    return tuple(found)


def _text(value: Any) -> Any:
    """TOML has times of its own."""
    return value.isoformat() if isinstance(value, datetime) else value


def as_table(one: Planned) -> list[tuple[str, Any]]:
    """Inverse of `planned` for one table: what is not at its default."""
    rows = [(key, getattr(one, field), field) for key, field in _KEYS.items()]
    defaults = {field.name: field.default for field in msgspec.structs.fields(Planned)}
    return [(key, value) for key, value, field in rows if value != defaults[field]]


class Announcer:
    """Tells the engine of the windows to come, and how far the wall clock is ahead of site time: both change."""

    def __init__(
        self,
        every: tuple[Planned, ...],
        site_s: Callable[[], float],
        emit: Callable[[Event], None],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._every = every
        self._site_s, self._wall_s = site_s, wall_s
        self._emit = emit
        self._told: CalendarTold | None = None

    def use(self, every: tuple[Planned, ...]) -> None:
        self._every = every
        self.tell()

    def tell(self) -> None:
        """If anything changed."""
        wall_s = self._wall_s()
        windows = [window for one in self._every for window in one.windows(wall_s)]
        windows.sort(key=lambda w: (w.from_wall_s, w.to_wall_s, w.reason))
        new, old = CalendarTold(windows=tuple(windows), wall_ahead_s=wall_s - self._site_s()), self._told
        if old is None or old.windows != new.windows or abs(old.wall_ahead_s - new.wall_ahead_s) > OFF_S:
            self._told = new
            self._emit(new)

    async def keep_telling(self) -> None:
        while True:
            self.tell()
            await asyncio.sleep(LOOK_S)
