"""`diana simulate FILE`: run a scenario over seeds, print its report; a failure shows seed, options and story."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from msgspec import structs

from diana.sim.experiments import fanout, gang_tables, patience, program_tables
from diana.sim.experiments.failure import failure, smaller
from diana.sim.experiments.shrink import LIMIT_S
from diana.sim.report.report import Report, selected
from diana.sim.report.table import table
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.comparison import AS_IT_IS, plan
from diana.sim.specs.gang_spec import GangTables
from diana.sim.specs.program_spec import ProgramTables

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
    if scenario.gangs is not None:
        return _gang_tables(scenario.gangs, as_json, out)
    if scenario.grads is not None:
        return _program_tables(scenario.grads, seeds, as_json, out)
    comparing = scenario.compare is not None and (not keys or "compare" in keys)
    if comparing or html is not None:
        from diana.sim.experiments import instrument

        its = plan(scenario) if comparing else AS_IT_IS
        some = range(first_seed, first_seed + (seeds or its.seeds))
        shown = scenario.report
        if comparing and "compare" not in shown:
            shown = (*(key for key in shown if key in ("traces", "outcome")), "compare")
        wanted = instrument.ReportOptions(some, shown, workers, shrink_s, html, tell)
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


def _gang_tables(tables: GangTables, as_json: bool, out: TextIO) -> int:
    told = gang_tables.answers(tables)
    out.write(json.dumps(told, indent=2) + "\n" if as_json else gang_tables.text(told))
    wrong = gang_tables.differences(tables)
    for line in (*gang_tables.doubts(tables), *wrong):
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def _program_tables(tables: ProgramTables, seeds: int, as_json: bool, out: TextIO) -> int:
    told, wrong = program_tables.answers(structs.replace(tables, seeds=seeds or tables.seeds))
    out.write(json.dumps(told, indent=2) + "\n" if as_json else program_tables.text(told))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def refusals(report: Report) -> list[str]:
    """A line for each entry of the workload with a group that no site took, with the reason its sites gave."""
    every = [(name, group.note) for name, group in report.groups.items() if group.state == "refused"]
    lines = [f"diana: workload {name}: refused: {why or 'no answer'}" for name, why in every[:MOST_REFUSALS]]
    return lines + ([f"diana: {len(every) - len(lines)} more were refused"] if len(every) > len(lines) else [])
