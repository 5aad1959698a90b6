"""The flow of work between sites over time: jobs that came, started, left for other sites and came from them (SPEC D7;
figures 9 and 10 of papers/diana-bulk-scheduling), and whether each move kept its promise.

An observer of durable records and of what really runs: it counts beside the checkers and judges nothing.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job.spec import Resources
from diana.sim.checks.stories import Transfer
from diana.sim.kernel.clock import Clock
from diana.sim.twins.lrm import Watcher

FINEST_S = 10.0
"""Width of a bucket of time; doubled whenever there would be more than `MOST_BUCKETS`."""
MOST_BUCKETS = 1024
KINDS = ("submitted", "sent", "arrived", "received", "imported", "started", "exported", "waiting")
SHOWN_SITES, SHOWN_COLUMNS = 6, 12
"""Sites with the most exports and imports in the table for people, and about how many stretches of time it has."""


class SiteFlow(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one site, per bucket of time; `waiting` as it stands at the end of each."""

    submitted: list[int]
    """Jobs submitted by users of this site, wherever they went."""
    sent: list[int]
    """Submitted jobs that were placed elsewhere when they came."""
    arrived: list[int]
    """Jobs placed here, those that came from a congested site left out."""
    received: list[int]
    """Arrived jobs that were submitted elsewhere."""
    imported: list[int]
    """Jobs taken from a congested site."""
    started: list[int]
    exported: list[int]
    """Jobs that left this site because it was congested."""
    waiting: list[int]


class TurnaroundReport(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the submission to the end, of the jobs that were done."""

    jobs: int
    mean_s: float
    p95_s: float


class MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    moves: int
    """Orders, each of any number of jobs."""
    exported_jobs: int
    most_exports: int
    """Most exports of any one job; the rule is 1."""
    started_in_time: int
    """Exported jobs that started at the site they were sent to within the gain that justified the move."""
    started_late: int
    late_at: dict[str, int]
    """Late jobs, by the site they were sent to."""
    started_elsewhere: int
    """Exported jobs that started at another site than they were sent to: it had no room for them any more."""
    worst_start: float
    """The longest time from the order to the start, as a share of the gain that justified it."""
    turnaround: dict[str, TurnaroundReport]
    """Turnaround by user; `all`: of all."""
    bucket_s: float
    sites: dict[str, SiteFlow]


class _Order:
    """The promise of a move."""

    __slots__ = ("gain_s", "group", "indices", "made_s", "to")

    def __init__(self, record: r.JobsMoved, now_s: float) -> None:
        self.group, self.indices, self.to = record.group, record.indices, record.to
        self.gain_s, self.made_s = record.gain_s, now_s


class _Copy:
    """A placement at its site; `gone`: those of its jobs that have started there, or left."""

    __slots__ = ("gone", "indices", "site")

    def __init__(self, site: SiteId, indices: IndexSet) -> None:
        self.site, self.indices = site, indices
        self.gone = FinishedSet()


class Flows(Watcher):
    """`committed` wants every durable record; as a watcher of the LRMs it passes on to `beside`."""

    __slots__ = (
        "_beside",
        "_by_type",
        "_clock",
        "_copies",
        "_counts",
        "_exports",
        "_groups",
        "_late_at",
        "_orders",
        "_spans",
        "_starts",
        "_took",
        "_waiting",
    )

    def __init__(self, clock: Clock, sites: Sequence[SiteId], beside: Watcher) -> None:
        self._clock = clock
        self._beside = beside
        self._counts: dict[SiteId, dict[str, Counter[int]]] = {s: {kind: Counter() for kind in KINDS} for s in sites}
        self._waiting = dict.fromkeys(sites, 0)
        self._copies: dict[Transfer, _Copy] = {}
        self._groups: dict[GroupId, tuple[str, float]] = {}
        """Owner of each group, and when it was submitted."""
        self._orders: dict[GroupId, list[_Order]] = {}
        self._exports: dict[GroupId, Counter[int]] = {}
        self._starts = Counter[str]()
        self._late_at = Counter[str]()
        self._spans = array("d")
        self._took: dict[str, array[float]] = {}
        self._by_type: Mapping[type, Callable[[SiteId, Any], None]] = {
            r.GroupSubmitted: self._submitted,
            r.GroupPlaced: self._placed,
            r.JobsMoved: self._moved,
            r.CustodyTaken: self._taken,
            r.CustodyDropped: self._dropped,
            r.RunsEnded: self._ended,
        }

    def committed(self, site: SiteId, record: r.Record) -> None:
        """`record` became durable at `site`."""
        note = self._by_type.get(type(record))
        if note is not None:
            note(site, record)

    def _count(self, site: SiteId, kind: str, jobs: int) -> None:
        self._counts[site][kind][int(self._clock.now_s // FINEST_S)] += jobs

    def _wait(self, site: SiteId, jobs: int) -> None:
        self._waiting[site] += jobs
        self._counts[site]["waiting"][int(self._clock.now_s // FINEST_S)] = self._waiting[site]

    # --- records ---------------------------------------------------------------------------------------

    def _submitted(self, site: SiteId, record: r.GroupSubmitted) -> None:
        if record.returned:
            return
        self._groups[record.group] = (record.owner, self._clock.now_s)
        self._count(site, "submitted", record.jobs)

    def _placed(self, site: SiteId, record: r.GroupPlaced) -> None:
        for part in record.parts:
            if part.site != site and not part.exported:
                self._count(site, "sent", len(part.indices))
            if part.site == site:
                self._came(site, part.subgroup, part.epoch, part.indices, part.exported)

    def _taken(self, site: SiteId, record: r.CustodyTaken) -> None:
        self._came(site, record.subgroup, record.epoch, record.indices, record.exported)

    def _came(self, site: SiteId, subgroup: SubgroupId, epoch: int, indices: IndexSet, exported: bool) -> None:
        if (subgroup, epoch) not in self._copies:
            self._copies[subgroup, epoch] = _Copy(site, indices)
            self._count(site, "imported" if exported else "arrived", len(indices))
            if not exported and origin_of(group_of(subgroup)) != site:
                self._count(site, "received", len(indices))
            self._wait(site, len(indices))

    def _moved(self, site: SiteId, record: r.JobsMoved) -> None:
        if record.exported:
            self._orders.setdefault(record.group, []).append(_Order(record, self._clock.now_s))
            self._exports.setdefault(record.group, Counter()).update(record.indices)

    def _dropped(self, site: SiteId, record: r.CustodyDropped) -> None:
        copy = self._copies.get((record.subgroup, record.epoch))
        if copy is not None:
            self._gone(copy, copy.indices)

    def _ended(self, site: SiteId, record: r.RunsEnded) -> None:
        copy = self._copies.get((record.subgroup, record.epoch))
        if copy is None:
            return
        orders = self._orders.get(group_of(record.subgroup), ())
        left = record.revoked & IndexSet.union(one.indices for one in orders)
        if left:
            self._count(site, "exported", len(left))
        self._gone(copy, record.ended | record.cancelled | record.revoked)

    def _gone(self, copy: _Copy, indices: IndexSet) -> None:
        before = len(copy.gone)
        copy.gone.add_set(indices)
        if len(copy.gone) > before:
            self._wait(copy.site, before - len(copy.gone))

    # --- what really runs ------------------------------------------------------------------------------

    def claimed(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._beside.claimed(site, worker, run, need)

    def void(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._beside.void(site, worker, run, need)

    def executed(self, site: SiteId, run: Run, on_crash: str) -> None:
        self._beside.executed(site, run, on_crash)
        self._count(site, "started", 1)
        copy = self._copies.get((run.subgroup, run.epoch))
        if copy is None or not copy.gone.add(run.index):
            return
        self._wait(site, -1)
        for order in self._orders.get(group_of(run.subgroup), ()):
            if run.index in order.indices:
                self._judge(site, order)

    def _judge(self, site: SiteId, order: _Order) -> None:
        if site != order.to:
            self._starts["elsewhere"] += 1
            return
        took_s = self._clock.now_s - order.made_s
        self._starts["in time" if took_s <= order.gain_s else "late"] += 1
        if took_s > order.gain_s:
            self._late_at[site] += 1
        self._spans.append(took_s / max(order.gain_s, 1e-9))

    def ended(self, site: SiteId, worker: str, run: Run, need: Resources, outcome: Outcome) -> None:
        self._beside.ended(site, worker, run, need, outcome)
        known = self._groups.get(group_of(run.subgroup))
        if known is not None and outcome is Outcome.DONE:
            owner, submitted_s = known
            self._took.setdefault(owner, array("d")).append(self._clock.now_s - submitted_s)

    # --- the report ------------------------------------------------------------------------------------

    def report(self) -> MigrationReport:
        every = array("d")
        for took in self._took.values():
            every.extend(took)
        exported = sum(len(one.indices) for orders in self._orders.values() for one in orders)
        bucket_s = FINEST_S
        while self._clock.now_s / bucket_s > MOST_BUCKETS:
            bucket_s *= 2.0
        return MigrationReport(
            moves=sum(map(len, self._orders.values())),
            exported_jobs=exported,
            most_exports=max((max(jobs.values()) for jobs in self._exports.values()), default=0),
            started_in_time=self._starts["in time"],
            started_late=self._starts["late"],
            late_at=dict(sorted(self._late_at.items())),
            started_elsewhere=self._starts["elsewhere"],
            worst_start=max(self._spans, default=0.0),
            turnaround={"all": _turnaround(every)} | {one: _turnaround(t) for one, t in sorted(self._took.items())},
            bucket_s=bucket_s,
            sites={site: self._site_flow(counts, bucket_s) for site, counts in self._counts.items()},
        )

    def _site_flow(self, counts: dict[str, Counter[int]], bucket_s: float) -> SiteFlow:
        buckets, fine = int(self._clock.now_s // bucket_s) + 1, round(bucket_s / FINEST_S)
        columns = {kind: [0] * buckets for kind in KINDS}
        for kind in KINDS[:-1]:
            for at, jobs in counts[kind].items():
                columns[kind][at // fine] += jobs
        last, seen = 0, counts["waiting"]
        for at in range(buckets):
            known = [seen[one] for one in range(at * fine, (at + 1) * fine) if one in seen]
            last = columns["waiting"][at] = known[-1] if known else last
        return SiteFlow(**columns)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed; 0: there are none."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if len(values) else 0.0


def _turnaround(took_s: Sequence[float]) -> TurnaroundReport:
    mean_s = math.fsum(took_s) / len(took_s) if len(took_s) else 0.0
    return TurnaroundReport(jobs=len(took_s), mean_s=mean_s, p95_s=quantile(took_s, 0.95))


def text(found: dict[str, Any]) -> list[str]:
    """The report for people: what moved and what it brought, then the sites that moved most, in columns of time."""
    lines = [
        f"migration: {found['moves']} moves of {found['exported_jobs']} jobs, {found['most_exports']} at most of any"
        f" job; {found['started_in_time']} started within the gain, {found['started_late']} later,"
        f" {found['started_elsewhere']} elsewhere"
    ]
    for user, one in found["turnaround"].items():
        lines.append(
            f"  {user:<20} {one['jobs']:>7} jobs  turnaround {one['mean_s']:9.1f} s  p95 {one['p95_s']:9.1f} s"
        )
    sites = found["sites"]
    busiest = sorted(sites, key=lambda s: (-sum(sites[s]["exported"]) - sum(sites[s]["imported"]), s))[:SHOWN_SITES]
    for site in sorted(busiest):
        lines += _site_text(site, sites[site], found["bucket_s"])
    if len(sites) > len(busiest):
        lines.append(f"  ... and {len(sites) - len(busiest)} sites that moved less")
    return lines


def _site_text(site: str, flow: dict[str, list[int]], bucket_s: float) -> list[str]:
    buckets = len(flow["started"])
    step = max(1, -(-buckets // SHOWN_COLUMNS))
    starts = range(0, buckets, step)
    lines = [
        f"  {site:<12} until" + "".join(f"{min(at + step, buckets) * bucket_s:>8g}" for at in starts) + " s    all"
    ]
    for kind in KINDS:
        cells = [flow[kind][at : at + step] for at in starts]
        shown = [cell[-1] if kind == "waiting" else sum(cell) for cell in cells]
        total = "" if kind == "waiting" else f"  {sum(shown):>6}"
        lines.append(f"    {kind:<14}  " + "".join(f"{jobs:>8}" for jobs in shown) + total)
    return lines
