"""`diana simulate` where policies are compared or a page is written: runs them, prints the report, says what failed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.experiments import compare as cp
from diana.sim.experiments import compare_text
from diana.sim.experiments.failure import failure, smaller
from diana.sim.report.outcome_digest import RunOutcome, joint
from diana.sim.report.report import Report, selected
from diana.sim.report.table import table
from diana.sim.scenario.comparison import ComparisonPlan
from diana.sim.scenario.variants import under
from diana.sim.specs.scenario_spec import Scenario


class ReportOptions(NamedTuple):
    """The arguments of `main.run`, which see."""

    seeds: range
    keys: tuple[str, ...]
    workers: int = 0
    shrink_s: float = 0.0
    html: Path | None = None
    tell: cp.Tell | None = None


def run(scenario: Scenario, its: ComparisonPlan, wanted: ReportOptions, as_json: bool, out: TextIO) -> int:
    """Run every policy and print the report. Keys beside `compare` are those of the first run: the first policy under
    the first load and seed."""
    drawn, reports = list[cp.ComparedRun](), list[Report]()
    rows, bad, came = list[cp.RunRow](), list[cp.ComparedRun](), list[RunOutcome]()
    for one in cp.runs(scenario, its, wanted.seeds, wanted.workers, wanted.tell):
        rows.append(one.row)
        if one.drawing is not None:
            drawn.append(one._replace(report=None))
        if one.report is not None and (its.whole or not reports):
            reports.append(one.report)
        if one.outcome is not None:
            came.append(one.outcome)
        if not one.row.good:
            bad.append(one._replace(report=None if bad else one.report))
    _complain(scenario, its, bad, len(rows), wanted.shrink_s)
    chosen = selected(reports, [key for key in wanted.keys if key != "compare"]) if reports else {}
    if "outcome" in chosen and not its.whole:
        chosen["outcome"] = msgspec.to_builtins(joint(came))
    finish(scenario, its, rows, drawn, wanted.html, as_json, out, chosen, "compare" in wanted.keys)
    return 1 if bad else 0


def finish(
    scenario: Scenario,
    its: ComparisonPlan,
    rows: Sequence[cp.RunRow],
    drawn: Sequence[cp.ComparedRun],
    html: Path | None,
    as_json: bool,
    out: TextIO,
    chosen: dict[str, Any] | None = None,
    comparing: bool = True,
) -> int:
    """Print the comparison of all rows after the keys `chosen` of the first run, and write its page. 1: a run was not
    good."""
    comparison = cp.comparison(rows, its)
    chosen = dict(chosen or {})
    if comparing:
        chosen["compare"] = msgspec.to_builtins(comparison)
    out.write(json.dumps(chosen, indent=2) + "\n" if as_json else _text(chosen, comparison))
    if html is not None:
        from diana.sim.experiments.page import page

        try:
            html.write_text(page(scenario, comparison, drawn), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--html {html}: {(error.strerror or str(error)).lower()}; name another file") from None
    return 0 if all(row.good for row in rows) else 1


def _text(chosen: dict[str, Any], comparison: cp.Comparison) -> str:
    others = {key: value for key, value in chosen.items() if key != "compare"}
    text = table(others) if others else ""
    return text + compare_text.text(comparison) if "compare" in chosen else text


def _complain(
    scenario: Scenario, its: ComparisonPlan, bad: Sequence[cp.ComparedRun], all_runs: int, shrink_s: float
) -> None:
    if not bad:
        return
    row, report, *_ = bad[0]
    policy = next(one for one in its.policies if one.name == row.policy)
    if not its.whole:
        print(f"policy {row.policy!r}, load {row.load:g}:", file=sys.stderr)
    if report is not None:
        one = replace(under(scenario, policy, row.load), report=("faults",))
        print(failure(one, report), file=sys.stderr)
        if shrink_s > 0:
            print(smaller(one, report.seed, shrink_s), file=sys.stderr)
    if len(bad) > 1:
        some = ", ".join(f"{one.row.policy} {one.row.load:g} {one.row.seed}" for one in bad[:20])
        print(f"{len(bad)} of {all_runs} runs failed (policy, load, seed): {some}", file=sys.stderr)
