"""The report as text for people."""

from __future__ import annotations

import json
from typing import Any

from diana.sim.checks import coverage
from diana.sim.report import flows, outcome_digest


def table(chosen: dict[str, Any]) -> str:
    """The report for people: one line per value, one row per entry."""
    lines: list[str] = []
    for key, value in chosen.items():
        if key == "outcome":
            lines += outcome_digest.text(value)
            continue
        if key == "coverage":
            lines += coverage.text(value)
            continue
        if key == "migration":
            lines += flows.text(value)
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
