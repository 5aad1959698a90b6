"""Figures 7, 8 and 11 of papers/diana-bulk-scheduling, section XI, from the scenarios of these names, as tables and
pictures.

    python -m benchmarks.bench_paper_figures 7 [--seeds 3] [--batches 25 200 1000] [--repeat 1] [--workers 2]
                                              [--policies diana "round robin" EGEE-like]
    python -m benchmarks.bench_paper_figures 11 [--sites 10 30 100] [--jobs-per-site 100] [--seeds 1]
    python -m benchmarks.bench_paper_figures 7 11 --draw                      the pictures of the last figures again

Policies are rows of the scenarios' `[[policies]]`. Figures and pictures lie in `benchmarks/out/`. Simulated times and
messages come from the seeds alone and are the same on every machine; processor time and memory are this one's. Figures
9 and 10: `bench_migration`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from msgspec.structs import replace

from benchmarks.bench_migration import BLUE, GREEN, INK, ORANGE, PALE, RED, interval
from diana.sim.experiments import fanout
from diana.sim.experiments.by_policy import named, ran
from diana.sim.report.figures import SubmissionTimes, submissions
from diana.sim.report.report import Report
from diana.sim.scenario.scenario import load
from diana.sim.scenario.variants import under
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

SCENARIOS = Path(__file__).parents[1] / "scenarios"
OUT = Path(__file__).parent / "out"
COLOURS = (BLUE, GREEN, ORANGE, RED)

BROKERS = ("diana", "diana without migration", "least queue, job by job", "EGEE-like")
"""Policies of figures 7 and 8, by their names in the scenario: the paper compares itself with EGEE's broker."""
SCALING = ("diana", "round robin", "fastest")
"""Policies of figure 11: the paper's round robin and FLOP."""


def good(report: Report) -> Report:
    """AssertionError when a job was lost, doubled or broke a rule: then the figures mean nothing."""
    assert report.good(), (report.seed, report.violations[:3], report.unmet)
    return report


# --- figures 7 and 8 -------------------------------------------------------------------------------------


def batches(scenario: Scenario, sizes: Sequence[int], repeat: int) -> Scenario:
    """Figure 7's with batches of these sizes only (none: of all), each so often (0: as it stands there)."""
    chosen = [work for work in scenario.workload if not sizes or work.jobs in sizes]
    workload = tuple(replace(work, repeat=repeat or work.repeat) for work in chosen)
    expect = replace(scenario.expect, done=sum(work.jobs * work.repeat for work in workload), sites_used=-1)
    return replace(scenario, workload=workload, expect=expect)


def figure_7(
    policies: Sequence[str], sizes_wanted: Sequence[int], repeat: int, seeds: int, workers: int
) -> list[dict[str, Any]]:
    """A row per policy and batch: means over its repetitions and seeds, with the half of a 95 % interval over seeds."""
    scenario, rows = batches(load(SCENARIOS / "diana-figure-7-8.toml"), sizes_wanted, repeat), []
    sizes = sorted({work.jobs for work in scenario.workload})
    for policy in policies:
        runs = list(fanout.each(partial(_one_of_7, scenario, named(scenario, policy)), range(seeds), workers))
        for jobs in sizes:
            row: dict[str, Any] = {"policy": policy, "jobs": jobs, "seeds": seeds}
            for key, its in (
                ("wait_mean_s", "wait_s"),
                ("run_mean_s", "run_s"),
                ("turnaround_mean_s", "turnaround_s"),
                ("makespan_s", "last_s"),
            ):
                of_seed = [mean(getattr(group, its) for group in run if group.jobs == jobs) for run in runs]
                found = interval(of_seed)
                row[key], row[f"{key}_half"] = found.mean, found.half if len(of_seed) > 1 else 0.0
            row["throughput_per_h"] = 3600.0 * jobs / row["makespan_s"]
            rows.append(row)
            print(_line_7(row), flush=True)
    return rows


def _one_of_7(scenario: Scenario, policy: PolicySpec, seed: int) -> list[SubmissionTimes]:
    found = ran(scenario, policy, seed)
    if found.report is not None:
        good(found.report)
    assert not found.unfinished, (policy.name, seed, found.unfinished)
    return submissions(found.times)


def _line_7(row: dict[str, Any]) -> str:
    times = "  ".join(
        f"{name} {row[key]:8.1f} +- {row[key + '_half']:5.1f} s"
        for name, key in (("queue", "wait_mean_s"), ("execution", "run_mean_s"), ("makespan", "makespan_s"))
    )
    return f"{row['policy']:<24} {row['jobs']:>5} jobs  {times}  {row['throughput_per_h']:7.0f} jobs/h"


# --- figure 11 -------------------------------------------------------------------------------------------


def sized(scenario: Scenario, sites: int, jobs_per_site: int) -> Scenario:
    """Figure 11's with so many of its sites, and so many groups more."""
    first, work = scenario.sites[0], scenario.workload[0]
    work = replace(work, repeat=max(1, jobs_per_site * sites // work.jobs))
    equal = tuple(replace(first, name=f"{first.name}-{k}" if k > 1 else first.name) for k in range(1, sites + 1))
    expect = replace(scenario.expect, done=work.jobs * work.repeat)
    return replace(scenario, sites=equal, workload=(work,), expect=expect)


def figure_11(policies: Sequence[str], every: Sequence[int], jobs_per_site: int, seeds: int) -> list[dict[str, Any]]:
    """A row per policy and size, each run in a process of its own. ValueError for a central policy: it has no messages,
    and its processor time is not that of an engine."""
    rows = []
    for policy in policies:
        if named(load(SCENARIOS / "diana-figure-11.toml"), policy).central:
            raise ValueError(f"{policy}: a central policy has no engine whose messages and time could be counted")
        for sites in every:
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                runs = [pool.apply(_one_of_11, (policy, sites, jobs_per_site, seed)) for seed in range(seeds)]
            row: dict[str, Any] = {"policy": policy, "seeds": seeds}
            row |= {key: mean(run[key] for run in runs) for key in runs[0]}
            rows.append(row)
            print(_line_11(row), flush=True)
    return rows


def _one_of_11(policy: str, sites: int, jobs_per_site: int, seed: int) -> dict[str, float]:
    whole = load(SCENARIOS / "diana-figure-11.toml")
    scenario = under(sized(whole, sites, jobs_per_site), named(whole, policy))
    began_s = time.process_time()
    report = good(simulate(scenario, seed))
    took_s, (group,) = time.process_time() - began_s, report.groups.values()
    return {
        "sites": sites,
        "jobs": group.jobs,
        "cpu_ms_per_job": 1000.0 * took_s / group.jobs,
        "cpu_ms_per_site_s": 1000.0 * took_s / (sites * report.network.simulated_s),
        "messages_per_job": report.network.sent / group.jobs,
        "messages_per_site_s": report.network.sent / (sites * report.network.simulated_s),
        "turnaround_mean_s": group.turnaround_mean_s,
        "makespan_s": group.makespan_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


def _line_11(row: dict[str, Any]) -> str:
    return (
        f"{row['policy']:<24} {row['sites']:>5.0f} sites {row['jobs']:>7.0f} jobs {row['cpu_ms_per_job']:7.2f} ms/job"
        f"  {row['messages_per_job']:6.1f} messages/job ({row['messages_per_site_s']:5.1f} per site and s)"
        f" turnaround {row['turnaround_mean_s']:6.1f} s  makespan {row['makespan_s']:6.1f} s  {row['peak_mib']:.0f} MiB"
    )


# --- pictures --------------------------------------------------------------------------------------------


def draw(path: Path, title: str, rows: list[dict[str, Any]], x: str, panels: Sequence[tuple[str, str]]) -> None:
    """A PNG with a panel per (key, label) over `x`, a line per policy; bars where a row has a `_half`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    policies = list(dict.fromkeys(row["policy"] for row in rows))
    with plt.rc_context({"font.size": 10, "axes.edgecolor": PALE, "text.color": INK, "axes.labelcolor": INK}):
        figure, every = plt.subplots(
            1, len(panels), figsize=(4.6 * len(panels), 4.0), squeeze=False, layout="constrained"
        )
        try:
            for axes, (key, label) in zip(every[0], panels, strict=True):
                for policy, colour in zip(policies, COLOURS, strict=False):
                    some = [row for row in rows if row["policy"] == policy]
                    values, halves = [row[key] for row in some], [row.get(f"{key}_half", 0.0) for row in some]
                    axes.errorbar(
                        [r[x] for r in some], values, halves, color=colour, label=policy, marker="o", markersize=4
                    )
                axes.set(xlabel=x, ylabel=label, ylim=(0, None))
                if x == "sites":
                    axes.set_xscale("log")
                axes.spines[["top", "right"]].set_visible(False)
            every[0][0].legend(frameon=False, fontsize=9)
            figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
            figure.savefig(path, dpi=110)
        finally:
            plt.close(figure)
    print(path)


PICTURES: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "7": (
        "Queue time and execution time against the number of jobs (figures 7 and 8)",
        "jobs",
        (("wait_mean_s", "queue time, s"), ("run_mean_s", "execution time, s")),
    ),
    "11": (
        "Scaling in sites, a hundred jobs to a site (figure 11)",
        "sites",
        (
            ("cpu_ms_per_job", "processor time per job, ms"),
            ("messages_per_job", "messages per job"),
            ("turnaround_mean_s", "turnaround, s"),
        ),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_paper_figures")
    parser.add_argument("figures", nargs="+", choices=tuple(PICTURES), help="7 stands for 7 and 8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes for figure 7; 0: one per core")
    parser.add_argument("--policies", nargs="+", default=[], metavar="NAME", help="of the scenario's [[policies]]")
    parser.add_argument("--batches", type=int, nargs="+", default=[], help="figure 7: of so many jobs only")
    parser.add_argument("--repeat", type=int, default=0, help="figure 7: each batch so often; 0: as in the scenario")
    parser.add_argument("--sites", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--jobs-per-site", type=int, default=100)
    parser.add_argument("--draw", action="store_true", help="only the pictures, from the figures of the last run")
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    for figure in args.figures:
        kept = OUT / f"figure-{figure}.json"
        if not args.draw:
            seeds = max(1, args.seeds)
            if figure == "7":
                rows = figure_7(args.policies or BROKERS, args.batches, args.repeat, seeds, args.workers)
            else:
                rows = figure_11(args.policies or SCALING, args.sites, args.jobs_per_site, seeds)
            kept.write_text(json.dumps(rows, indent=1) + "\n")
        title, x, panels = PICTURES[figure]
        draw(OUT / f"figure-{figure}.png", title, json.loads(kept.read_text()), x, panels)


if __name__ == "__main__":
    main()
