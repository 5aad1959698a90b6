"""The windows of maintenance of this site, in site time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from diana.model.maintenance import Window


class _Span(NamedTuple):
    """A window in site time."""

    from_s: float
    to_s: float
    window: Window


class Calendar:
    """The volatile part of the windows; `settle` computes it anew and is called whenever `next_s` has come."""

    def __init__(self) -> None:
        self.configured: tuple[Window, ...] = ()
        """Windows by `site.toml`; those that operators announce are in the state."""
        self.ahead_s = 0.0
        """Seconds by which the wall clock is ahead of site time."""
        self.closed = ""
        """Reason why the site takes no work now; empty: it takes work."""
        self.closed_machines: dict[str, str] = {}
        self.closes_s = inf
        """Site time at which the site closes next; inf: no window is planned."""
        self.closings: tuple[tuple[float, float], ...] = ()
        """Spans (from, to) of site time in which the whole site is closed, joined where they meet; past ones are left
        out."""
        self.notice = ""
        """The present window, or else the next one, for people; empty: none is planned."""
        self.next_s = inf
        """Site time at which any of this next changes by itself."""
        self._machines: dict[str, float] = {}

    def settle(self, announced: Iterable[Window], now: float) -> None:
        told = (*self.configured, *announced)
        spans = [_Span(w.from_wall_s - self.ahead_s, w.to_wall_s - self.ahead_s, w) for w in told]
        every = sorted(
            (one for one in spans if one.to_s > now), key=lambda one: (one.from_s, one.to_s, one.window.reason)
        )
        edges = [edge for from_s, to_s, _ in every for edge in (from_s, to_s) if edge > now]
        self.next_s = min(edges, default=inf)
        site = [one for one in every if not one.window.machines]
        self.closings = _joined([(from_s, to_s) for from_s, to_s, _ in site])
        here = [one for one in site if one.from_s <= now]
        # The window that lasts longest, where there are several.
        self.closed = max(here, key=lambda one: one.to_s).window.on() if here else ""
        self.closes_s = min((from_s for from_s, _ in self.closings if from_s > now), default=inf)
        self.closed_machines, self._machines = {}, {}
        for from_s, _, window in every:
            for name in window.machines:
                if from_s <= now:
                    self.closed_machines.setdefault(name, window.on())
                else:
                    self._machines.setdefault(name, from_s)
        self.notice = every[0].window.coming() if every else ""

    def closes_of(self, machine: str) -> float:
        """Return the site time at which that machine closes next, alone or with the whole site."""
        return min(self.closes_s, self._machines.get(machine, inf))

    def last_of(self, machines: Callable[[], Iterable[str]]) -> float:
        """Return the site time at which the last of its machines closes next. They are asked for only where some close
        without the others."""
        return max(map(self.closes_of, machines()), default=self.closes_s) if self._machines else self.closes_s

    def ahead(self) -> bool:
        """True if anything closes at a known time to come."""
        return self.closes_s < inf or bool(self._machines)


def _joined(spans: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    out: list[tuple[float, float]] = []
    for from_s, to_s in spans:
        if out and from_s <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], to_s))
        else:
            out.append((from_s, to_s))
    return tuple(out)
