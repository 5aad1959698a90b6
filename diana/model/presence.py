"""How long a machine of a site was there, of the time in which somebody knew (SPEC D8). A few numbers, whatever
happened: older time fades, so that a machine that was mended is believed again (`policy/availability.py` counts)."""

from __future__ import annotations

from typing import Literal

import msgspec

Whereabouts = Literal["here", "away", "unknown"]


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    at_s: float
    """Site time up to which the figures count."""
    standing: Whereabouts = "unknown"
    """Where the machine is since then. `unknown`: nobody leads the site, or its new leader has not met it yet."""
    here_s: float = 0.0
    """Seconds for which it was there, faded."""
    away_s: float = 0.0
    """Seconds for which it was away, faded."""
    goings: float = 0.0
    """Times it went away unplanned, faded."""

    @property
    def known_s(self) -> float:
        return self.here_s + self.away_s


class RollCall(msgspec.Struct, frozen=True, kw_only=True):
    led: str
    """Machine that leads and counts."""
    process: str = ""
    """Identity of its node's process; empty: not known."""
    machines: tuple[Presence, ...] = ()


class LeadGiven(msgspec.Struct, frozen=True, kw_only=True):
    """The leader is about to hand over, as planned: that it goes is no fault of its machine."""

    to: str
    """Empty: it came to nothing, and the leader goes on."""
    at_s: float
    why: str = ""
