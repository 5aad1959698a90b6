"""`diana simulate FILE --on grid`: the seeds of a comparison as one bulk group on a diana grid.

A job is one seed under all policies and loads; what it prints are the rows that a run here would have made, so the same
code makes the same tables of them."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import msgspec
from msgspec.structs import replace

from diana.errors import DianaError, UsageError
from diana.sim.experiments import compare as cp
from diana.sim.experiments import instrument
from diana.sim.scenario.comparison import ComparisonPlan, plan
from diana.sim.scenario.scenario import load
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario

if TYPE_CHECKING:
    from diana.cli.shared.progress import Tell
    from diana.client import Client

_CARRIED = "scenario.toml"
_SAYS = 'code=0; "$@" || code=$?; test "$code" -le 1'
"""A seed that breaks an invariant ends with 1, and its rows are wanted all the same."""


class SimulateOptions(NamedTuple):
    seeds: int
    """0: as many as the scenario compares."""
    first_seed: int
    program: str
    """The command by which a site calls diana; several words are split as a shell does it."""
    as_json: bool
    html: Path | None


def run_on_grid(path: str, asked: SimulateOptions, node: Client, tell: Tell | None, out: TextIO | None = None) -> int:
    """0: every run was good; 1: one was not. UsageError for a scenario that compares nothing; DianaError when a seed
    has no result. The group goes on when this is interrupted."""
    scenario = load(Path(path))
    if scenario.compare is None:
        raise UsageError(f"scenario {path}: --on grid is for comparisons; add a [compare] table and [[policies]]")
    its = plan(scenario)
    seeds = range(asked.first_seed, asked.first_seed + (asked.seeds or its.seeds))
    with tempfile.TemporaryDirectory(prefix="diana-grid-") as made:
        folder = Path(made)
        group = node.submit(_job(scenario, Path(path).stem, seeds, asked.program, folder), folder=folder).group
        print(f"{group}: {len(seeds)} seeds accepted", file=sys.stderr)
        done = 0
        for status in node.watch(group):
            done = status.done
            if tell is not None:
                tell(done, status.jobs)
        if done < len(seeds):
            raise DianaError(
                f"group {group}: {done} of {len(seeds)} seeds have a result; see diana logs --failed {group}"
            )
        rows = _rows(node, group, folder / "out", its)
    return instrument.finish(scenario, its, rows, (), asked.html, asked.as_json, out or sys.stdout)


def _job(scenario: Scenario, name: str, seeds: range, program: str, folder: Path) -> dict[str, Any]:
    """The job file; what it carries is written into `folder` or lies where the scenario found it."""
    text, logs = _portable(scenario)
    (folder / _CARRIED).write_text(text, encoding="utf-8")
    words = [*shlex.split(program), "simulate", _CARRIED, "--json", "--no-shrink", "--workers", "1"]
    if len(words) < 7:
        raise UsageError(f"simulate: --program {program!r}: no program; give one, such as diana")
    command = ["sh", "-c", _SAYS, "sh", *(word.replace("{", "{{").replace("}", "}}") for word in words)]
    return {
        "group": {
            "name": f"simulate-{name}",
            "command": [*command, "--report", "compare", "--seeds", "1", "--first-seed", "{seed}"],
            "stdout": "rows-{index}.json",
        },
        "sweep": {"seed": f"{seeds[0]}-{seeds[-1]}"},
        "inputs": [{"url": _CARRIED}, *({"url": file, "path": carried} for file, carried in logs)],
        "outputs": {"collect": ["rows-{index}.json"]},
    }


def _portable(scenario: Scenario) -> tuple[str, list[tuple[str, str]]]:
    """The scenario with all that it read in, and the logs that go beside it: where each lies, its name there."""
    logs: list[tuple[str, str]] = []
    workload = []
    for number, work in enumerate(scenario.workload):
        if work.trace is not None:
            carried = f"log-{number}{'.swf.gz' if work.trace.file.endswith('.gz') else '.swf'}"
            logs.append((work.trace.file, carried))
            work = replace(work, trace=replace(work.trace, file=carried))
        workload.append(work)
    return written(replace(scenario, workload=tuple(workload))), logs


def _rows(node: Client, group: str, folder: Path, its: ComparisonPlan) -> list[cp.RunRow]:
    """The rows in the order in which they would have come here."""
    files = sorted(node.fetch(group, folder))
    rows: list[cp.RunRow] = []
    for file in files:
        try:
            rows += msgspec.convert(json.loads(file.read_bytes())["compare"], cp.Comparison).runs
        except (ValueError, KeyError, msgspec.ValidationError):
            raise DianaError(f"group {group}: {file.name} is no comparison; has that site another release?") from None
    return _ordered(rows, its)


def _ordered(rows: Sequence[cp.RunRow], its: ComparisonPlan) -> list[cp.RunRow]:
    policies = {policy.name: place for place, policy in enumerate(its.policies)}
    return sorted(rows, key=lambda row: (its.loads.index(row.load), row.seed, policies[row.policy]))
