"""The time that jobs of a history waited at their sites beside what the engine accounts for: slots that stayed empty
after a job though others waited, and begins that came late though slots were free. A batch system's own queue, and the
load of other people on its machines, show as these.

Numbers of the logs come in, and quantiles by site go out; the simulator draws from them (`gaps_s` and `waits_s` of
`sim/specs/site_spec.py`)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from diana.sim.load import past
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec

LEAST = 8
"""Observations below which nothing is said of a site."""
PARTS = 50
"""Quantiles that are told, at the middles of as many equal parts: their mean is that of all."""
LONGEST_S = 60.0
"""Gaps that are longer are no gaps: nothing waited that could run there."""
WAITED_S = 0.5
"""Seconds that a job must have waited already when a slot came free, so that the gap is not its own way there."""
MOST_ROWS = 200_000
"""Jobs of a site that are looked at, the latest."""


class _Row(NamedTuple):
    start_s: float
    end_s: float
    submit_s: float
    fetches: bool
    """True if its group reads data, whose way there is accounted for elsewhere."""


def observed(scenario: Scenario) -> Scenario:
    """The scenario whose sites wait as those of its histories did. A site that says so itself, or that has machines
    beside its own, stays as it is."""
    rows = _rows(scenario)
    sites = tuple(_site(site, scenario, rows[site.name]) if _is_plain(site) else site for site in scenario.sites)
    return replace(scenario, sites=sites)


def _is_plain(site: SiteSpec) -> bool:
    return site.lrm == "slots" and not (site.gaps_s or site.waits_s or site.machines) and site.slots > 0


def _rows(scenario: Scenario) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = defaultdict(list)
    for work in scenario.workload:
        if work.history is None:
            continue
        history = past.read(work.history.file)
        for group in history.groups:
            begin_s, fetches = work.submit_s + group.submit_s, bool(group.note.datasets)
            starts = begin_s + group.wait_s
            ends = starts + group.run_s
            for start_s, end_s, site in zip(starts.tolist(), ends.tolist(), group.partition.tolist(), strict=True):
                found[history.site_of.get(site, "")].append(_Row(start_s, end_s, begin_s, fetches))
    return defaultdict(list, {site: sorted(rows)[-MOST_ROWS:] for site, rows in found.items()})


def _site(site: SiteSpec, scenario: Scenario, rows: list[_Row]) -> SiteSpec:
    closed = [(one.from_s, one.to_s) for one in site.maintenance]
    for event in scenario.events:
        if event.kind == "drain" and site.name in event.sites:
            closed.append((event.at_s, event.at_s + event.for_s if event.for_s else float("inf")))
        if event.kind == "slots" and site.name in event.sites:
            # How many slots were free is not known any more.
            return site
    gaps: list[float] = []
    waits: list[float] = []
    for kind, seconds, from_s, to_s in _looked(rows, site.slots):
        if not any(from_s < end_s and begin_s < to_s for begin_s, end_s in closed):
            (gaps if kind == "gap" else waits).append(seconds)
    return replace(site, gaps_s=_quantiles(gaps), waits_s=_quantiles(waits))


def _looked(rows: list[_Row], slots: int) -> Iterator[tuple[str, float, float, float]]:
    """(gap or wait, seconds, from, to). The slot that came free first is the first to be taken."""
    turns = sorted([(row.end_s, 0, row) for row in rows] + [(row.start_s, 1, row) for row in rows], key=lambda t: t[:2])
    running, empty = 0, deque[float]()
    for at_s, begins, row in turns:
        if not begins:
            running -= 1
            if running == slots - len(empty) - 1:
                empty.append(at_s)
            continue
        running += 1
        since_s = empty.popleft() if empty else -1.0
        if since_s >= 0 and row.submit_s < since_s - WAITED_S:
            if at_s - since_s < LONGEST_S:
                yield "gap", at_s - since_s, since_s, at_s
        elif running <= slots and not row.fetches and since_s < row.submit_s and at_s - row.submit_s < LONGEST_S:
            yield "wait", at_s - row.submit_s, row.submit_s, at_s
        if running >= slots:
            empty.clear()


def _quantiles(seconds: list[float]) -> tuple[float, ...]:
    if len(seconds) < LEAST:
        return ()
    places = (np.arange(PARTS) + 0.5) / PARTS
    return tuple(round(each, 3) for each in np.quantile(np.array(seconds), places).tolist())
