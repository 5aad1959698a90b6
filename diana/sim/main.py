"""`diana simulate FILE`: run a scenario over seeds, print its report; a failure shows seed, options and story."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from diana.sim import scenario as sc
from diana.sim.driver import Boot
from diana.sim.report import Report, selected
from diana.sim.runner import simulate
from diana.sim.trace import Trace


def run(path: str | Path, seeds: int = 1, first_seed: int = 0, as_json: bool = False, out: TextIO | None = None) -> int:
    """0: all invariants and expectations held for all seeds; 1: not (the failure is on standard error).
    UsageError for a wrong scenario."""
    out = out or sys.stdout
    scenario = sc.load(Path(path))
    reports: list[Report] = []
    failed: list[int] = []
    for seed in range(first_seed, first_seed + max(1, seeds)):
        report = simulate(scenario, seed)
        reports.append(report)
        if not report.good():
            failed.append(seed)
            if len(failed) == 1:
                print(failure(scenario, report), file=sys.stderr)
    if len(failed) > 1:
        print(f"{len(failed)} of {len(reports)} seeds failed: {failed[:20]}", file=sys.stderr)
    chosen = selected(reports, scenario.report)
    out.write(json.dumps(chosen, indent=2) + "\n" if as_json else table(chosen))
    return 1 if failed else 0


def failure(scenario: sc.Scenario, report: Report, boot: Boot | None = None) -> str:
    """Seed, options, what broke, and the story of the first broken group: a run is its seed, so it is run again."""
    lines = [
        f"seed {report.seed} fails: {len(report.violations)} violations, {report.lost} jobs lost, "
        f"{report.doubled} doubled, {report.stuck} stuck",
        f"again: diana simulate FILE --first-seed {report.seed} --seeds 1",
        "options: " + ", ".join(f"{k}={v:g}" for k, v in report.options.items()),
        "faults: " + (", ".join(f"{v} {k}" for k, v in report.fault_kinds.items()) or "none"),
        *report.unmet,
        *(str(v) for v in report.violations[:10]),
    ]
    first = next((v for v in report.violations if v.group != "-"), None)
    if first is not None:
        trace = Trace(first.group, first.at_s)
        simulate(scenario, report.seed, boot=boot, trace=trace)
        lines += [f"story of {first.group} until then:", *trace.lines]
    return "\n".join(lines)


def table(chosen: dict[str, Any]) -> str:
    """The report for people: one line per value, one row per entry."""
    lines: list[str] = []
    for key, value in chosen.items():
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
