"""Patience for data: a group waits for its turn where less must be fetched, as long as that is likely to pay.

A site that must fetch more is held back while another, that fetches less, would end the whole group before it ended a
first job, by more than the group has waited already. So a forecast that keeps slipping costs at most as long again as
it promised to save (as in delay scheduling, Zaharia et al., EuroSys 2010, and the ski rental rule).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import NamedTuple

from diana.model.ids import SiteId
from diana.model.views.decision import SiteCost

SAME_S = 1.0
"""Seconds of fetching that make no difference."""


class AdmittedSites(NamedTuple):
    """Sites that a group may wait at, and when that changes."""

    sites: frozenset[SiteId]
    """Sites that may have jobs now."""
    next_s: float
    """Seconds until the first of the others may, if no price changes; infinite: none is held back."""


def patience(rows: Sequence[SiteCost], jobs: int, processors: int, waited_s: float) -> AdmittedSites:
    """Return which of the priced sites may have jobs of a group that has waited so long. `jobs`: those that wait, of
    `processors` each."""
    best_s, before_s = inf, inf
    least_s = min((row.stage_in_s for row in rows), default=0.0)
    held: dict[SiteId, float] = {}
    ordered = sorted(rows, key=lambda row: row.stage_in_s)
    at = 0
    for row in ordered:
        while ordered[at].stage_in_s < row.stage_in_s - SAME_S:
            best_s = min(best_s, ordered[at].total_s)
            at += 1
        # What else makes a site slower, such as few processors, is no reason to leave it idle.
        saves_s = min(_first_end_s(row, jobs, processors) - best_s, row.stage_in_s - least_s)
        if saves_s > waited_s:
            held[row.site] = saves_s
            before_s = min(before_s, saves_s)
    return AdmittedSites(frozenset(row.site for row in rows if row.site not in held), before_s - waited_s)


def _first_end_s(row: SiteCost, jobs: int, processors: int) -> float:
    """Return when a first job would end there: `run_s` is that of the whole group, one wave after the other."""
    waves = ceil(jobs / max(1, row.slots // processors))
    return max(row.wait_s, row.stage_in_s) + row.run_s / max(1, waves) + row.network_s


def nearest(rows: Sequence[SiteCost]) -> frozenset[SiteId]:
    """Return the sites that fetch the least."""
    least_s = min((row.stage_in_s for row in rows), default=0.0)
    return frozenset(row.site for row in rows if row.stage_in_s <= least_s + SAME_S)
