"""Does migration pay (SPEC D7)? The congestion scenario with migration off, as it ships, and by the paper's rule alone,
over the same seeds; and pictures of one run as figures 9 and 10 of papers/diana-bulk-scheduling show it.

    python -m benchmarks.bench_migration [--seeds 10] [--workers 2] [--draw]

Everything is drawn from the seeds, so the figures are the same on every machine. They and the pictures lie in
`benchmarks/out/`; `--draw` makes the pictures anew from the figures that lie there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import msgspec

from diana.sim.experiments import fanout
from diana.sim.report.flows import MigrationReport, SiteFlow
from diana.sim.report.report import Report
from diana.sim.scenario.scenario import load
from diana.sim.specs.scenario_spec import Scenario

SCENARIO = Path(__file__).parents[1] / "scenarios" / "diana-congestion.toml"
OUT = Path(__file__).parent / "out"
MODES = ("off", "default", "paper")
COLUMN_S = 300.0
"""Rates in the pictures are means over so long: about what a job and its wait take."""
INK, PALE = "#1f2933", "#9aa5b1"
BLUE, ORANGE, GREEN, RED = "#2f6db3", "#d9822b", "#3c8d5a", "#b3382f"
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
        2.110, 2.101, 2.093, 2.086)  # fmt: skip
"""Student's t, two-sided 95 %, for 1 to 20 degrees of freedom; the last one, a little wide, for more."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One seed under one rule."""

    seed: int
    mean_s: float
    p95_s: float
    moves: int
    exported_jobs: int
    most_exports: int
    late: int
    """Exported jobs that started later than within the gain that justified their move."""
    bytes_in: int
    users_s: dict[str, float]
    """Mean turnaround of each user's jobs."""


class Interval(msgspec.Struct, frozen=True):
    mean: float
    half: float
    """Half the width of the 95 % interval of the mean."""

    def __str__(self) -> str:
        return f"{self.mean:.1f} +- {self.half:.1f}"


def interval(values: Sequence[float]) -> Interval:
    """Confidence interval of the mean, by Student's t; of one value: infinitely wide."""
    if len(values) < 2:
        return Interval(mean(values), math.inf)
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return Interval(mean(values), t * stdev(values) / math.sqrt(len(values)))


def by_rule(scenario: Scenario, mode: str) -> Scenario:
    settings = {**scenario.settings, "migration": mode}
    return msgspec.structs.replace(scenario, settings=settings, report=("migration", "sites"))


def run_of(report: Report) -> Run:
    """AssertionError when a job was lost, doubled or broke a rule: then the figures mean nothing."""
    assert report.good(), (report.seed, report.violations[:3], report.unmet)
    found = report.migration
    assert found is not None, "it was asked for"
    every = found.turnaround["all"]
    return Run(
        seed=report.seed,
        mean_s=every.mean_s,
        p95_s=every.p95_s,
        moves=found.moves,
        exported_jobs=found.exported_jobs,
        most_exports=found.most_exports,
        late=found.started_late,
        bytes_in=sum(site.bytes_in for site in report.sites.values()),
        users_s={user: one.mean_s for user, one in found.turnaround.items() if user != "all"},
    )


def measure(scenario: Scenario, seeds: int, workers: int) -> tuple[dict[str, list[Run]], MigrationReport]:
    """The runs by rule, and how work flowed in the first run of the rule that ships."""
    runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
    shown = None
    for mode in MODES:
        for report in fanout.reports(by_rule(scenario, mode), range(seeds), workers):
            runs[mode].append(run_of(report))
            print(f"    {mode:<8} seed {report.seed:<3} {_told(runs[mode][-1])}", flush=True)
            if mode == "default" and shown is None:
                shown = report.migration
    assert shown is not None, "there is one seed at least"
    return runs, shown


def _told(run: Run) -> str:
    return (
        f"mean {run.mean_s:7.1f} s  p95 {run.p95_s:7.1f} s  {run.moves:4d} moves of {run.exported_jobs:4d} jobs"
        f"  {run.bytes_in / 1e6:7.0f} MB"
    )


def summary(runs: dict[str, list[Run]]) -> list[str]:
    """Means, and for each rule the differences to none, seed by seed."""
    off = runs["off"]
    lines = [f"{'migration':<10}{'mean s':>16}{'p95 s':>16}{'less mean s':>18}{'less p95 s':>18}{'jobs moved':>16}"]
    for mode, some in runs.items():
        cells = [str(interval([one.mean_s for one in some])), str(interval([one.p95_s for one in some]))]
        for field in ("mean_s", "p95_s"):
            less = [getattr(a, field) - getattr(b, field) for a, b in zip(off, some, strict=True)]
            cells.append("" if mode == "off" else str(interval(less)))
        cells.append(str(interval([float(one.exported_jobs) for one in some])))
        widths = (16, 16, 18, 18, 16)
        lines.append(f"{mode:<10}" + "".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True)))
    most = max(one.most_exports for some in runs.values() for one in some)
    late = sum(one.late for one in runs["default"]), sum(one.exported_jobs for one in runs["default"])
    lines.append(f"exports of any one job: {most} at most; started later than within the gain: {late[0]} of {late[1]}")
    return lines


# --- pictures --------------------------------------------------------------------------------------------


def draw(path: Path, site: str, flow: SiteFlow, bucket_s: float, capacity_per_min: float, title: str) -> None:
    """A PNG of one site over time: what was submitted and placed there, ran, left and came, and what waited."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = {
        "placed here": (_per_min(flow.arrived, bucket_s), PALE, "-"),
        "started": (_per_min(flow.started, bucket_s), BLUE, "-"),
        "exported": (_per_min(flow.exported, bucket_s), ORANGE, "-"),
        "imported": (_per_min(flow.imported, bucket_s), GREEN, "-"),
    }
    if sum(flow.submitted):
        rows = {"submitted here": (_per_min(flow.submitted, bucket_s), RED, ":"), **rows}
    with plt.rc_context({"font.size": 10, "axes.edgecolor": PALE, "text.color": INK, "axes.labelcolor": INK}):
        figure, (rates, queue) = plt.subplots(
            2, 1, figsize=(8.5, 5.2), height_ratios=(3, 1), sharex=True, layout="constrained"
        )
        try:
            edges = [at * COLUMN_S / 60.0 for at in range(len(next(iter(rows.values()))[0]) + 1)]
            for name, (values, colour, style) in rows.items():
                wide = 2.0 if name in ("exported", "imported", "started") else 1.4
                rates.stairs(values, edges, color=colour, linewidth=wide, linestyle=style, label=name, baseline=None)
            rates.axhline(capacity_per_min, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
            where = (1.0, capacity_per_min)
            rates.annotate(
                "all its\nslots busy", where, xycoords=("axes fraction", "data"), va="center", fontsize=8, color=INK
            )
            rates.set_ylabel("jobs per minute")
            # A submission comes all at once: it would press all else flat.
            most = max(max(values) for name, (values, _, _) in rows.items() if name != "submitted here")
            rates.set_ylim(0, 1.3 * max(most, capacity_per_min))
            rates.legend(ncols=5, fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0))
            waiting = [at * bucket_s / 60.0 for at in range(len(flow.waiting) + 1)]
            queue.stairs(flow.waiting, waiting, fill=True, color=BLUE, alpha=0.25)
            queue.set_ylabel("jobs waiting")
            queue.set_xlabel("minutes")
            for axes in (rates, queue):
                axes.spines[["top", "right"]].set_visible(False)
                axes.margins(x=0)
            figure.suptitle(f"{site}: {title}", fontsize=12, fontweight="bold", x=0.01, ha="left")
            figure.savefig(path, dpi=110)
        finally:
            plt.close(figure)


def _per_min(jobs: list[int], bucket_s: float) -> list[float]:
    step = max(1, round(COLUMN_S / bucket_s))
    return [60.0 * sum(jobs[at : at + step]) / (step * bucket_s) for at in range(0, len(jobs), step)]


def pictures(scenario: Scenario, found: MigrationReport, folder: Path) -> list[Path]:
    """Figure 9: where more is submitted than can be served; figure 10: the site that both exports and imports most."""
    slots = {site.name: site.slots for site in scenario.sites}
    crowded = max(found.sites, key=lambda s: (sum(found.sites[s].submitted), s))
    others = {s: flow for s, flow in found.sites.items() if s != crowded}
    both = max(others, key=lambda s: (min(sum(others[s].exported), sum(others[s].imported)), s))
    titles = {
        crowded: ("figure-9.png", "more is submitted than it can serve"),
        both: ("figure-10.png", "it exports and imports, as its own users come and go"),
    }
    out = []
    for site, (name, title) in titles.items():
        draw(folder / name, site, found.sites[site], found.bucket_s, slots[site] * 60.0 / _run_s(scenario), title)
        out.append(folder / name)
    return out


def _run_s(scenario: Scenario) -> float:
    jobs = sum(work.jobs * work.repeat for work in scenario.workload)
    return sum((w.true_work_s or w.work_s) * w.jobs * w.repeat for w in scenario.workload) / jobs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_migration")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0, help="processes; 0: one per core")
    parser.add_argument("--draw", action="store_true", help="only the pictures, from the figures of the last run")
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    kept = OUT / "migration.json"
    scenario = load(SCENARIO)
    if args.draw:
        raw: dict[str, Any] = json.loads(kept.read_text())
        runs = msgspec.convert(raw["runs"], dict[str, list[Run]])
        found = msgspec.convert(raw["flows"], MigrationReport)
    else:
        runs, found = measure(scenario, max(1, args.seeds), args.workers)
        kept.write_text(json.dumps(msgspec.to_builtins({"runs": runs, "flows": found})) + "\n")
    print("\n".join(summary(runs)))
    for path in pictures(scenario, found, OUT):
        print(path)


if __name__ == "__main__":
    main()
