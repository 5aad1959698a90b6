"""The report of a simulation. The top-level keys are public; a scenario's `report` selects among them.

    groups     {name: GroupReport}      sites      {site: SiteReport}
    bound      Bound: what no schedule of the same work does better than, docs/policies.md
    decisions  {name: [Decision]}       plans      [Plan]: a row per workload entry, in their order
    arrivals   [ArrivalReport]: the queues after each group that came and had to wait
    network    messages sent, arrived; events handled; simulated seconds
    transfers  [TransferReport]: what moved beside the jobs, in the order in which it ended
    traces     {entry: Account}: what was taken of each log, what was left out for which reason
    standby    takeovers (also by a leader that returned) while nothing else was wrong: takeovers, longest_s, mean_s
    faults     the keys seeds, faults, lost, doubled, violations, stuck, digest
    migration  jobs per site and time that came, started, were exported and imported, and what became of the moves
    gang_figures  GangFigures: places, waits, transfers, processors held idle and sites of gangs, from their records
    coverage   operation x fault: table {operation: {fault: times}}, empty [...], impossible {reason: [...]}
    compare    policies compared: loads [{load, policies {name: {runs, figures, differences}}}], runs [...], and how
    digest     digest
    outcome    OutcomeReport: digests over what came of each run and over all, docs/scenarios.md
    expect     met, and unmet: what was expected and did not come, a line each (of several seeds: of all, in order)

Several seeds: the numbers of `faults` and `coverage` are sums, the digest covers all, `standby` is over all; the other
keys are those of the first seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId
from diana.model.views.decision import Decision
from diana.sim.checks import coverage
from diana.sim.checks.stories import Violation
from diana.sim.load.traced import Account
from diana.sim.report.arrivals import ArrivalReport
from diana.sim.report.flows import MigrationReport, quantile
from diana.sim.report.gang_figures import GangFigures
from diana.sim.report.outcome_digest import RunOutcome, joint
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.twins.lrm import Others
from diana.sim.twins.transfers import TransferReport


class Bound(msgspec.Struct, frozen=True):
    """Seconds; the makespan counts from the first submission to the last end."""

    makespan_s: float
    """The largest of the next three."""
    work_s: float
    """All work that comes from some time on, through all processors at once."""
    longest_s: float
    """The job that ends last if each has the fastest processors it may have to itself from the moment it comes."""
    link_s: float
    """The busiest link: data that jobs must have from one certain site at another certain one."""
    turnaround_s: float
    """Mean over the jobs: run time at the fastest site."""


class GroupReport(msgspec.Struct, frozen=True, kw_only=True):
    """Times in simulated seconds; wait, run and turnaround over the jobs that started."""

    group: str
    state: str
    """State by its view; `refused` when the submission was, `gone` with the database of its site."""
    note: str
    jobs: int
    done: int
    failed: int
    cancelled: int
    held: int
    unreachable: int
    sites: dict[str, int]
    """Jobs ended, by executing site."""
    makespan_s: float
    wait_mean_s: float
    wait_max_s: float
    run_mean_s: float
    turnaround_mean_s: float
    turnaround_p95_s: float
    bytes_moved: int
    predicted_s: float
    """Turnaround predicted by the decision that placed it first, in whole waves of jobs; 0: none."""


class OthersReport(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that came to a site's batch system past diana."""

    started: int
    ended: int
    wait_mean_s: float
    """Mean wait of those that started."""
    busy_fraction: float
    """Share of the site's processors that was busy with those that ended."""


def others(known: Others | None, capacity_s: float) -> OthersReport | None:
    """`capacity_s`: processor-seconds the site had."""
    if known is None or not known.started:
        return None
    return OthersReport(
        started=known.started,
        ended=known.ended,
        wait_mean_s=known.wait_s / known.started,
        busy_fraction=known.busy_s / capacity_s,
    )


class SiteReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    slots: int
    speed: float
    executed: int
    busy_fraction: float
    bytes_in: int
    boots: int
    warnings: int
    others: OthersReport | None = None
    """Jobs of others, where a batch system has some; the fields above count those that diana gave it."""


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """The first placement of an entry, what the planner foretold and what came (SPEC D6)."""

    name: str
    group_size: int
    """Jobs of the largest unit that was placed as one."""
    makespan_h: float
    """End of the last of its sites, after the decision, by the planner's fluid estimate."""
    mean_site_h: float
    """Mean end over the sites used, by the same estimate."""
    simulated_makespan_h: float
    plan: str
    """whole, split or forced."""
    reason: str
    parts: dict[str, int]
    """Jobs by site."""


def plan_row(name: str, work: WorkSpec, made: Sequence[Decision], makespan_s: float) -> PlanReport | None:
    """The row of an entry's first decisions: one, or with a forced plan one per site; None: nothing was placed."""
    parts = [part for decision in made for part in decision.parts]
    if not parts:
        return None
    jobs: dict[str, int] = {}
    for part in parts:
        jobs[part.site] = jobs.get(part.site, 0) + part.jobs
    unit = made[0].subgroup_jobs if made[0].plan == "split" else 0
    ends_s = [part.predicted_end_s for part in parts]
    return PlanReport(
        name=name,
        group_size=min(unit or max(jobs.values()), max(jobs.values())),
        makespan_h=round(max(ends_s) / 3600.0, 4),
        mean_site_h=round(math.fsum(ends_s) / len(ends_s) / 3600.0, 6),
        simulated_makespan_h=round(makespan_s / 3600.0, 4),
        plan="forced" if work.forced else made[0].plan,
        reason="as the scenario says" if work.forced else made[0].reason,
        parts=jobs,
    )


class NetworkReport(msgspec.Struct, frozen=True, kw_only=True):
    sent: int
    arrived: int
    events: int
    simulated_s: float


class Report(msgspec.Struct, kw_only=True):
    """One seed's run."""

    seed: int
    options: dict[str, float | bool]
    drawn: list[str] = []
    """Sites and workload that this seed drew, a line each; empty: nothing."""
    groups: dict[str, GroupReport] = {}
    bound: Bound | None = None
    sites: dict[str, SiteReport] = {}
    decisions: dict[str, tuple[Decision, ...]] = {}
    plans: list[PlanReport] = []
    arrivals: list[ArrivalReport] = []
    transfers: list[TransferReport] = []
    network: NetworkReport
    faults: int
    fault_kinds: dict[str, int]
    lost: int
    doubled: int
    stuck: int
    violations: list[Violation]
    digest: str
    takeovers_s: list[float] = []
    """Seconds from the loss of a leader until the site served again, where a standby in sync and the witness were
    well."""
    coverage: coverage.Table = {}
    migration: MigrationReport | None = None
    gang_figures: GangFigures | None = None
    traces: dict[str, Account] = {}
    outcome: RunOutcome | None = None
    """None: it was not asked for."""
    unmet: list[str]
    """Expectations of the scenario that did not come true, one line each."""

    def good(self) -> bool:
        return not (self.lost or self.doubled or self.stuck or self.violations or self.unmet)


def selected(reports: list[Report], keys: Iterable[str]) -> dict[str, Any]:
    """The report of one or several seeds as plain values, by top-level key in the order asked for."""
    first = reports[0]
    out: dict[str, Any] = {}
    for key in keys:
        if key == "faults":
            out |= {
                "seeds": len(reports),
                "faults": sum(x.faults for x in reports),
                "lost": sum(x.lost for x in reports),
                "doubled": sum(x.doubled for x in reports),
                "violations": sum(len(x.violations) for x in reports),
                "stuck": sum(x.stuck for x in reports),
                "digest": joint_digest(reports),
            }
        elif key == "standby":
            took_s = [one for x in reports for one in x.takeovers_s]
            out["standby"] = {
                "takeovers": len(took_s),
                "longest_s": round(max(took_s, default=0.0), 3),
                "mean_s": round(math.fsum(took_s) / max(1, len(took_s)), 3),
            }
        elif key == "coverage":
            out["coverage"] = coverage.report(x.coverage for x in reports)
        elif key == "expect":
            unmet = [line for x in reports for line in x.unmet]
            out["expect"] = {"met": not unmet, "unmet": unmet}
        elif key == "digest":
            out["digest"] = joint_digest(reports)
        elif key == "outcome":
            out["outcome"] = msgspec.to_builtins(joint(x.outcome for x in reports if x.outcome is not None))
        else:
            out[key] = msgspec.to_builtins(getattr(first, key))
    return out


def joint_digest(reports: list[Report]) -> str:
    if len(reports) == 1:
        return reports[0].digest
    return hashlib.sha256("\n".join(x.digest for x in reports).encode()).hexdigest()


_TIMES = ("makespan_s", "wait_mean_s", "wait_max_s", "run_mean_s", "turnaround_mean_s", "turnaround_p95_s")


class Tally:
    """Sums over the facts of one entry's jobs, the last attempt of each."""

    __slots__ = ("_last", "submit_s")

    def __init__(self, submit_s: float) -> None:
        self.submit_s = submit_s
        """Submission of the first group."""
        self._last: dict[int, tuple[int, SiteId, int, float, float, float]] = {}

    def add(self, facts: Facts, first: int = 0, submit_s: float | None = None) -> None:
        """`first`: the number of the group's first job among the entry's; `submit_s`: when it came, if not first."""
        came_s = self.submit_s if submit_s is None else submit_s
        rows = zip(facts.indices, facts.attempts, facts.outcomes, facts.started_s, facts.ended_s, strict=True)
        for own, attempt, outcome, started_s, ended_s in rows:
            index = first + own
            if index not in self._last or self._last[index][0] < attempt:
                self._last[index] = (attempt, facts.site, outcome, started_s, ended_s, came_s)

    def sites(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, site, *_ in self._last.values():
            counts[site] = counts.get(site, 0) + 1
        return dict(sorted(counts.items()))

    def times(self) -> dict[str, float]:
        """makespan, wait, run and turnaround; zero when nothing started."""
        ran = [x for x in self._last.values() if x[3] >= 0 and x[2] != Outcome.STAGING_FAILED]
        if not ran:
            return dict.fromkeys(_TIMES, 0.0)
        waits = [x[3] - x[5] for x in ran]
        ends = [x[4] - x[5] for x in ran]
        return {
            "makespan_s": max(x[4] for x in ran) - self.submit_s,
            "wait_mean_s": math.fsum(waits) / len(ran),
            "wait_max_s": max(waits),
            "run_mean_s": math.fsum(x[4] - x[3] for x in ran) / len(ran),
            "turnaround_mean_s": math.fsum(ends) / len(ran),
            "turnaround_p95_s": quantile(ends, 0.95),
        }
