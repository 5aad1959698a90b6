"""Maintenance windows: times, announced by the operator, at which a site or some of its machines take no work."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

import msgspec

MOST_WINDOWS = 256
"""Windows that may be planned at once, those that are over not counted."""


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One maintenance window, set in `site.toml` or by an operator's order. Wall times in seconds since 1970."""

    from_wall_s: float
    to_wall_s: float
    reason: str = ""
    machines: tuple[str, ...] = ()
    """Members and clusters it concerns; empty: the whole site."""

    def __post_init__(self) -> None:
        if not (isfinite(self.from_wall_s) and isfinite(self.to_wall_s) and self.from_wall_s < self.to_wall_s):
            raise ValueError(f"to = {utc(self.to_wall_s)}: want a time after from = {utc(self.from_wall_s)}")

    def coming(self) -> str:
        """Describe the window to people before it begins."""
        where = f" of {', '.join(self.machines)}" if self.machines else ""
        return f"maintenance{where} from {utc(self.from_wall_s)} to {utc(self.to_wall_s)}{self._why()}"

    def on(self) -> str:
        """Describe the window to people while it lasts."""
        return f"maintenance until {utc(self.to_wall_s)}{self._why()}"

    def _why(self) -> str:
        return f": {self.reason}" if self.reason else ""


def utc(wall_s: float) -> str:
    """`2031-05-01 08:00 UTC`."""
    try:
        return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(wall_s)
