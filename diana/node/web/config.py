"""`[web]` of site.toml: where the dashboard is served, and how it shows itself to browsers."""

from __future__ import annotations

import msgspec

LISTEN = "127.0.0.1:0"
OFF = "none"
LEAST_HOURS, MOST_HOURS = 0.01, 24.0 * 30


class Web(msgspec.Struct, frozen=True, kw_only=True):
    listen: str = LISTEN
    """host:port; port 0: any free one, the same again after a restart where it can be had; "none": no dashboard."""
    certificate: str = ""
    """PEM file browsers trust, its chain after it; empty: the node's own, which only the VO trusts."""
    key: str = ""
    """PEM file of its key."""
    session_hours: float = 12.0
    """Hours after which a browser has to be let in anew."""

    def __post_init__(self) -> None:
        if not LEAST_HOURS <= self.session_hours <= MOST_HOURS:
            raise ValueError(f"session_hours = {self.session_hours}: want {LEAST_HOURS:g} to {MOST_HOURS:g}")
