"""The effect of each arrival on a site's queues: SPEC D4's table, from the engine the node runs."""

from __future__ import annotations

import msgspec

from diana.engine.engine import Engine
from diana.engine.journal.state import CustodyKey
from diana.model.ids import SiteId


class QueuedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The queued jobs of one group; two of them for a group that a job threshold parts."""

    user: str
    """Name without the VO."""
    processors: int
    N: float
    """The threshold q T / (Q t) of section X."""
    priority: float
    """Effective priority: with ageing, offset and demotion."""
    level: str


class ArrivalReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group came and was not started at once as a whole."""

    arrival: int
    """Number of the arrival, from 1, over all sites."""
    queued: tuple[QueuedReport, ...]
    """Queued jobs, in order of submission."""
    site: str = ""
    """Name of the site; left out where there is one."""


class Arrivals:
    """Looks at a site's queues after every event there; a part that was not there before is an arrival."""

    def __init__(self, sites: int) -> None:
        self.reports: list[ArrivalReport] = []
        self._several = sites > 1
        self._known: set[tuple[SiteId, CustodyKey]] = set()

    def look(self, site: SiteId, engine: Engine) -> None:
        queues = engine.queues
        came = {(site, key) for key, entry in queues.entries.items() if not entry.reserved} - self._known
        if not came:
            return
        self._known |= came
        queued = tuple(
            QueuedReport(
                user=one.entry.user.partition("@")[0],
                processors=one.entry.processors,
                N=one.allowance,
                priority=one.priority,
                level=one.level.name,
            )
            for one in queues.standing()
            if not one.entry.reserved
        )
        name = site if self._several else ""
        self.reports.append(ArrivalReport(arrival=len(self.reports) + 1, queued=queued, site=name))
