"""`diana simulate FILE`: run a scenario over seeds, print its report; a failure shows seed, options and story."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from diana.sim.checks import coverage
from diana.sim.experiments import fanout, patience
from diana.sim.experiments.shrink import LIMIT_S, shrink
from diana.sim.kernel.trace import Trace
from diana.sim.report import flows, outcome_digest
from diana.sim.report.report import Report, selected
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.compare_spec import AS_IT_IS, plan
from diana.sim.world.driver import Boot
from diana.sim.world.runner import simulate

MOST_REFUSALS = 5
"""Refusals told one by one."""


def run(
    path: str | Path,
    seeds: int = 0,
    first_seed: int = 0,
    as_json: bool = False,
    out: TextIO | None = None,
    workers: int = 0,
    keys: tuple[str, ...] = (),
    shrink_s: float = LIMIT_S,
    html: Path | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> int:
    """Run the scenario and print its report. 0: all invariants and expectations held for all seeds; 1: not (the failure
    is on standard error). A scenario with `compare` is run as a comparison unless `keys` leave that out. `seeds`: 0: as
    many as it says, else one. `workers`: processes the seeds are spread over, 0: one per core; the output is the same.
    `keys`: report these instead of the scenario's own. The first seed that fails is made small within `shrink_s`
    seconds; 0: it is not. `html`: a page for the browser is written there. `tell(n, of)` after each run. UsageError for
    a wrong scenario."""
    out = out or sys.stdout
    scenario = sc.reporting(sc.load(Path(path)), keys)
    comparing = scenario.compare is not None and (not keys or "compare" in keys)
    if comparing or html is not None:
        from diana.sim.experiments import instrument

        its = plan(scenario) if comparing else AS_IT_IS
        some = range(first_seed, first_seed + (seeds or its.seeds))
        shown = scenario.report
        if comparing and "compare" not in shown:
            shown = (*(key for key in shown if key in ("traces", "outcome")), "compare")
        wanted = instrument.Wanted(some, shown, workers, shrink_s, html, tell)
        return instrument.run(scenario, its, wanted, as_json, out)
    reports: list[Report] = []
    failed: list[int] = []
    some = range(first_seed, first_seed + max(1, seeds))
    for report in fanout.reports(scenario, some, workers, patience.on_stderr()):
        reports.append(report)
        if tell is not None:
            tell(len(reports), max(1, seeds))
        if len(reports) == 1:
            for line in refusals(report):
                print(line, file=sys.stderr)
        if not report.good():
            failed.append(report.seed)
            if len(failed) == 1:
                print(failure(scenario, report), file=sys.stderr)
                if shrink_s > 0:
                    print(smaller(scenario, report.seed, shrink_s), file=sys.stderr)
    if len(failed) > 1:
        print(f"{len(failed)} of {len(reports)} seeds failed: {failed[:20]}", file=sys.stderr)
    chosen = selected(reports, scenario.report)
    out.write(json.dumps(chosen, indent=2) + "\n" if as_json else table(chosen))
    return 1 if failed else 0


def refusals(report: Report) -> list[str]:
    """A line for each entry of the workload with a group that no site took, with the reason its sites gave."""
    every = [(name, group.note) for name, group in report.groups.items() if group.state == "refused"]
    lines = [f"diana: workload {name}: refused: {why or 'no answer'}" for name, why in every[:MOST_REFUSALS]]
    return lines + ([f"diana: {len(every) - len(lines)} more were refused"] if len(every) > len(lines) else [])


def failure(scenario: sc.Scenario, report: Report, boot: Boot | None = None) -> str:
    """Seed, options, what broke, and the story of the first broken group: a run is its seed, so it is run again."""
    lines = [
        f"seed {report.seed} fails: {len(report.violations)} violations, {report.lost} jobs lost, "
        f"{report.doubled} doubled, {report.stuck} stuck",
        f"again: diana simulate FILE --first-seed {report.seed} --seeds 1",
        *report.unmet,
        *(
            [f"limit_s = {scenario.limit_s:g} came first: raise it, or see below what did not end"]
            if report.network.simulated_s >= scenario.limit_s
            else []
        ),
        *(
            [f"heal_s = {scenario.faults.heal_s:g} after the faults the run was over: raise it, or see below"]
            if report.stuck and scenario.faults.until_s
            else []
        ),
        "options: " + ", ".join(f"{k}={v:g}" for k, v in report.options.items() if k != "only"),
        *(f"drawn: {line}" for line in report.drawn),
        "faults: " + (", ".join(f"{v} {k}" for k, v in report.fault_kinds.items()) or "none"),
        *(str(v) for v in report.violations[:10]),
    ]
    first = next((v for v in report.violations if v.group != "-"), None)
    if first is not None:
        trace = Trace(first.group, first.at_s)
        simulate(scenario, report.seed, boot=boot, trace=trace)
        lines += [f"story of {first.group} until then:", *trace.lines]
    return "\n".join(lines)


def smaller(scenario: sc.Scenario, seed: int, limit_s: float = LIMIT_S, boot: Boot | None = None) -> str:
    """The smallest scenario found that fails as this seed does, ready to be run, and its story."""
    found = shrink(scenario, seed, boot=boot, limit_s=limit_s)
    if found is None:
        return f"seed {seed} is not made smaller: it breaks no invariant, only what the scenario expects"
    work, kept = found.scenario.workload, found.report
    how = "nothing more can be left out" if found.finished else f"the limit of {limit_s:g} s was reached"
    jobs, sites = sum(w.jobs for w in work), len(found.scenario.sites)
    return "\n".join(
        [
            f"smaller: {jobs} jobs of {len(work)} groups, {sites} sites, {kept.faults} faults of {found.faults_before} "
            f"still break {', '.join(found.rules)} ({found.runs} runs; {how})",
            f"# diana simulate FILE --first-seed {seed}, with this FILE:",
            written(found.scenario),
            failure(found.scenario, kept, boot),
        ]
    )


def table(chosen: dict[str, Any]) -> str:
    """The report for people: one line per value, one row per entry."""
    lines: list[str] = []
    for key, value in chosen.items():
        if key == "coverage":
            lines += coverage.text(value)
            continue
        if key == "migration":
            lines += flows.text(value)
            continue
        if key == "outcome":
            lines += outcome_digest.text(value)
            continue
        if isinstance(value, list):
            lines += _listed(key, value)
            continue
        if not isinstance(value, dict):
            lines.append(f"{key:<12} {value}")
            continue
        lines.append(f"{key}:")
        for name, entry in value.items():
            lines.append(f"  {name:<16} {_row(entry)}")
    return "\n".join(lines) + "\n"


def _listed(key: str, entries: list[dict[str, Any]]) -> list[str]:
    """A line per entry, one more for each thing it holds."""
    lines = [f"{key}:"]
    for entry in entries:
        held = [item for value in entry.values() if isinstance(value, list | tuple) for item in value]
        lines.append("  " + _row({k: v for k, v in entry.items() if not isinstance(v, list | tuple)}))
        lines += [f"    {_row(item)}" for item in held]
    return lines


def _row(entry: Any) -> str:
    if not isinstance(entry, dict):
        return f"{entry:g}" if isinstance(entry, float) else json.dumps(entry)
    return "  ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={_flat(v)}" for k, v in entry.items())


def _flat(value: Any) -> str:
    return ",".join(f"{k}:{v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
