"""The data for the pictures of one run: courses over time, quantiles and a few thousand bars, however many jobs it
had."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from diana.model.ids import SiteId
from diana.sim.report.figures import GridCapacity, busy_s, slowdowns
from diana.sim.report.flows import MigrationReport
from diana.sim.report.outcome import Floats, JobTimes

BUCKETS = 200
"""Points of a course over time."""
MOST_SITES = 24
"""Sites that are drawn one by one: those with the most work."""
GANTT_SITES = 10
MOST_BARS = 2500
"""Bars in the picture of who ran where."""
QUANTILES = (*(k / 100 for k in range(100)), 0.995, 0.999, 1.0)


class SiteRow(NamedTuple):
    """One site over the whole run."""

    name: str
    processors: int
    jobs: int
    utilisation: float
    exported: int
    """Jobs submitted there that ran elsewhere."""
    imported: int
    """Jobs that ran there and were submitted elsewhere."""


class Bar(NamedTuple):
    """One job in the picture of who ran where."""

    site: int
    """Place in `Drawing.sites`."""
    lane: int
    lanes: int
    """Lanes from there on; all bars of a job have as many together as its processors."""
    start_s: float
    end_s: float
    user: int


class Drawing(NamedTuple):
    """Courses have a value for each of `times_s`, the ends of equal buckets of time."""

    times_s: list[float]
    waiting: list[int]
    """Jobs submitted that had not started, over the whole grid."""
    busy: list[float]
    """Share of all processors that were busy."""
    sites: list[SiteRow]
    """The busiest sites, in the scenario's order."""
    other_sites: int
    site_busy: list[list[float]]
    """Share of its processors that were busy, by site."""
    exports: list[list[int]]
    """Jobs submitted there that started elsewhere, by site, in each bucket."""
    imports: list[list[int]]
    moved_out: list[list[int]]
    """Jobs that left it because it was congested, by site; empty: not observed."""
    moved_in: list[list[int]]
    wait_s: list[float]
    """Waits at `QUANTILES`; the next two likewise."""
    turnaround_s: list[float]
    slowdown: list[float]
    bars: list[Bar]
    """Bars of the first jobs of the `GANTT_SITES` busiest sites."""
    bars_until_s: float
    all_bars: bool
    """True if no job of any site is missing there."""
    users: list[str]
    bytes_moved: float
    jobs: int


def drawing_of(outcome: JobTimes, its: GridCapacity, moved: MigrationReport | None = None) -> Drawing | None:
    """The drawing of all jobs, untrimmed; None: there are none."""
    if not len(outcome.submit_s):
        return None
    begin_s, end_s = 0.0, float(outcome.end_s.max())
    edges = np.linspace(begin_s, end_s, BUCKETS + 1)
    busiest = _busiest(outcome, its)
    sites = sorted(busiest)
    bars, until_s, all_bars = _bars(outcome, sites, busiest[:GANTT_SITES])
    names = [outcome.sites[place] for place in sites]
    return Drawing(
        times_s=edges[1:].tolist(),
        waiting=(_upto(outcome.submit_s, edges) - _upto(outcome.start_s, edges)).tolist(),
        busy=_busy(outcome, edges, sum(its.processors)).tolist(),
        sites=[_site_row(outcome, its, place) for place in sites],
        other_sites=len(outcome.sites) - len(sites),
        site_busy=[_busy(_at(outcome, place), edges, its.processors[place]).tolist() for place in sites],
        exports=[_starts(outcome, edges, (outcome.home == place) & (outcome.site != place)) for place in sites],
        imports=[_starts(outcome, edges, (outcome.home != place) & (outcome.site == place)) for place in sites],
        moved_out=_moved(moved, "exported", names, edges),
        moved_in=_moved(moved, "imported", names, edges),
        wait_s=_quantiles(outcome.start_s - outcome.submit_s),
        turnaround_s=_quantiles(outcome.end_s - outcome.submit_s),
        slowdown=_quantiles(slowdowns(outcome, its.fastest)),
        bars=bars,
        bars_until_s=until_s,
        all_bars=all_bars,
        users=list(outcome.users),
        bytes_moved=outcome.bytes_moved,
        jobs=len(outcome.submit_s),
    )


def _busiest(outcome: JobTimes, its: GridCapacity) -> list[int]:
    work_s = np.bincount(
        outcome.site, outcome.processors * (outcome.end_s - outcome.start_s), minlength=len(outcome.sites)
    )
    order = sorted(range(len(outcome.sites)), key=lambda place: (-float(work_s[place]), -its.processors[place], place))
    return order[:MOST_SITES]


def _at(outcome: JobTimes, place: int) -> JobTimes:
    """The jobs that ran at one site."""
    here = outcome.site == place
    columns = {name: getattr(outcome, name)[here] for name in ("start_s", "end_s", "processors")}
    return outcome._replace(**columns)


def _upto(times_s: Floats, edges: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Number of times at or before each edge but the first."""
    return np.searchsorted(np.sort(times_s), edges[1:], side="right")


def _busy(outcome: JobTimes, edges: Floats, processors: int) -> Floats:
    """Mean share of the processors in each bucket: the growth of the processor-seconds done by its edges."""
    done = _done_by(outcome.start_s, outcome.processors, edges) - _done_by(outcome.end_s, outcome.processors, edges)
    shares: Floats = np.diff(done) / np.maximum(1e-9, np.diff(edges) * max(1, processors))
    return shares


def _done_by(times_s: Floats, weights: np.ndarray[tuple[int], np.dtype[np.int32]], edges: Floats) -> Floats:
    """Sum of weight x (edge - time) over the times before each edge."""
    order = np.argsort(times_s, kind="stable")
    sorted_s = times_s[order]
    weight = np.concatenate([[0.0], np.cumsum(weights[order], dtype=np.float64)])
    moment = np.concatenate([[0.0], np.cumsum(weights[order] * sorted_s)])
    upto = np.searchsorted(sorted_s, edges, side="right")
    sums: Floats = edges * weight[upto] - moment[upto]
    return sums


def _starts(outcome: JobTimes, edges: Floats, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    counts: list[int] = np.histogram(outcome.start_s[which], edges)[0].tolist()
    return counts


def _moved(moved: MigrationReport | None, kind: str, names: list[str], edges: Floats) -> list[list[int]]:
    """The observer's buckets laid into ours, each whole into the one where it begins."""
    if moved is None:
        return []
    out = []
    for name in names:
        seen: list[int] = getattr(moved.sites[SiteId(name)], kind)
        at_s = np.minimum(np.arange(len(seen)) * moved.bucket_s, edges[-1])
        out.append(np.histogram(at_s, edges, weights=seen)[0].astype(int).tolist())
    return out


def _site_row(outcome: JobTimes, its: GridCapacity, place: int) -> SiteRow:
    here, from_here = outcome.site == place, outcome.home == place
    lasts_s = max(1e-9, float(outcome.end_s.max()))
    return SiteRow(
        name=outcome.sites[place],
        processors=its.processors[place],
        jobs=int(np.count_nonzero(here)),
        utilisation=busy_s(_at(outcome, place), 0.0, lasts_s) / (lasts_s * max(1, its.processors[place])),
        exported=int(np.count_nonzero(from_here & ~here)),
        imported=int(np.count_nonzero(here & ~from_here)),
    )


def _quantiles(values: Floats) -> list[float]:
    points: list[float] = np.quantile(values, QUANTILES, method="inverted_cdf").tolist()
    return points


def _bars(outcome: JobTimes, sites: list[int], some: list[int]) -> tuple[list[Bar], float, bool]:
    """The first jobs to start at `some`, each on the lowest free lanes; until when, and whether that is all."""
    place_of = {place: number for number, place in enumerate(sites)}
    rows = np.flatnonzero(np.isin(outcome.site, some))
    order = rows[np.lexsort((rows, outcome.end_s[rows], outcome.start_s[rows]))]
    first = order[:MOST_BARS]
    until_s = float(outcome.start_s[first[-1]]) if len(order) > MOST_BARS else float(outcome.end_s.max())
    lanes = {place: _Lanes() for place in some}
    bars = []
    for row in first.tolist():
        site, wide = int(outcome.site[row]), int(outcome.processors[row])
        start_s, end_s = float(outcome.start_s[row]), float(outcome.end_s[row])
        for lane, lanes_wide in lanes[site].take(start_s, end_s, wide):
            bars.append(Bar(place_of[site], lane, lanes_wide, start_s, end_s, int(outcome.user[row])))
    return bars, until_s, len(first) == len(outcome.site)


class _Lanes:
    """A site's processors as lanes; a job of several gets the lowest free ones, in as few stretches as that gives."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[float, int]] = []
        self._made = 0

    def take(self, start_s: float, end_s: float, wide: int) -> list[tuple[int, int]]:
        """Stretches of lanes: the first lane of each and how many."""
        while self._busy and self._busy[0][0] <= start_s + 1e-9:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        taken = [heapq.heappop(self._free) for _ in range(min(wide, len(self._free)))]
        more = wide - len(taken)
        taken += range(self._made, self._made + more)
        self._made += more
        stretches: list[tuple[int, int]] = []
        for lane in taken:
            heapq.heappush(self._busy, (end_s, lane))
            if stretches and sum(stretches[-1]) == lane:
                stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1)
            else:
                stretches.append((lane, 1))
        return stretches
