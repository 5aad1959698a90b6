"""Digests over what came of the scenarios that the repository answers for: which job ran where and when, what crossed
the network (docs/scenarios.md, `outcome`). Code that is moved or renamed and does the same gives the same digests.

    python -m benchmarks.outcome_digests [NAME ...] [--workers 2] [--out FILE] [--against FILE]
    python -m benchmarks.outcome_digests --bounded --out tests/sim/fixtures/outcomes.json  what the test is held to
    python -m benchmarks.outcome_digests --rows chaos --seed 31338 > rows.txt              every row of one run, to diff

A line per scenario: its name, its seeds, the digest over its runs. `--against` exits 1 and names the first difference;
the rows of that run, made before and after, say where the two part.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from benchmarks.bench_paper_figures import BROKERS, batches
from diana.sim.central import central
from diana.sim.central.jobs import jobs_of
from diana.sim.experiments import fanout
from diana.sim.experiments.by_policy import named
from diana.sim.report.outcome_digest import OutcomeReport, RunOutcome, joint, of_columns
from diana.sim.scenario.comparison import AS_IT_IS, AS_WRITTEN, plan
from diana.sim.scenario.scenario import load
from diana.sim.scenario.variants import under
from diana.sim.sites.driver import Boot
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import ExpectSpec, Scenario
from diana.sim.world.runner import run
from diana.sim.world.world import World

SCENARIOS = Path(__file__).parents[1] / "scenarios"
MOST_JOBS = 10_000
"""Jobs of the largest group of these scenarios."""
COUNTS = ("starts", "ends", "moves", "messages", "bytes_sent")


class Case(NamedTuple):
    """A scenario under some policies, loads and seeds."""

    scenario: Callable[[], Scenario]
    seeds: range
    policies: tuple[PolicySpec, ...] = AS_IT_IS.policies
    loads: tuple[float, ...] = AS_IT_IS.loads


class Task(NamedTuple):
    case: str
    policy: str
    load: float
    seed: int


class Read(NamedTuple):
    """A case, its scenario read."""

    scenario: Scenario
    policies: dict[str, PolicySpec]

    @staticmethod
    def of(case: Case) -> Read:
        return Read(case.scenario(), {policy.name: policy for policy in case.policies})

    def run_by(self, task: Task) -> tuple[PolicySpec, Scenario]:
        """The policy of a task, and the scenario as it runs it."""
        policy = self.policies[task.policy]
        return policy, replace(under(self.scenario, policy, task.load), report=("outcome",))


class Kept(msgspec.Struct, frozen=True):
    """A file of digests."""

    version: int
    cases: dict[str, OutcomeReport]


def _scenario(name: str) -> Scenario:
    return load(SCENARIOS / f"{name}.toml")


def _brokers() -> tuple[PolicySpec, ...]:
    return tuple(named(_scenario("diana-figure-7-8"), name) for name in BROKERS)


def cases() -> dict[str, Case]:
    """All of it: the longest run first, that it does not end alone; the comparison, most of the time, last."""
    compared = plan(_scenario("policies"))
    return {
        "figures-7-8": Case(partial(_scenario, "diana-figure-7-8"), range(1)),
        "figures-7-8-brokers": Case(_figures_7_8, range(1), _brokers()),
        "figures-9-10": Case(partial(_scenario, "diana-figure-9-10"), range(2)),
        "figure-4": Case(partial(_scenario, "diana-figure-4"), range(1)),
        "figure-6": Case(partial(_scenario, "diana-figure-6"), range(1)),
        "standby": Case(partial(_scenario, "standby"), range(20)),
        "chaos": Case(partial(_scenario, "chaos"), range(31337, 31537)),
        "policies": Case(partial(_scenario, "policies"), range(2), compared.policies, compared.loads),
    }


def _figures_7_8() -> Scenario:
    """Figure 7's with its smaller batches: the larger ones of all brokers would take many minutes more."""
    return batches(_scenario("diana-figure-7-8"), (25, 50, 100), 0)


def bounded() -> dict[str, Case]:
    """The same scenarios, small: seconds in all."""
    every = cases()
    some = {policy.name: policy for policy in every["policies"].policies}
    chosen = ("diana", "first start", "min-min", "sufferage")
    return {
        "figures-7-8": Case(partial(_small, "diana-figure-7-8", ("25 jobs",)), range(1)),
        "policies": Case(partial(_small, "policies"), range(1), tuple(some[name] for name in chosen), (0.95,)),
        "figures-9-10": Case(partial(_small, "diana-figure-9-10", jobs=20), range(1)),
        "figure-4": Case(partial(_small, "diana-figure-4", ("groups of 500",), jobs=2000), range(1)),
        "figure-6": every["figure-6"],
        "standby": Case(partial(_small, "standby", jobs=40, until_s=60.0), range(1)),
        "chaos": every["chaos"]._replace(seeds=every["chaos"].seeds[:2]),
    }


def _small(name: str, entries: tuple[str, ...] = (), jobs: int = MOST_JOBS, until_s: float = math.inf) -> Scenario:
    """The scenario with these entries only (none: with all), each with one group of so few jobs, one soon after
    another, and faults for so long at most; what it expects is not asked."""
    scenario = _scenario(name)
    workload = tuple(
        replace(work, repeat=1, jobs=min(jobs, work.jobs), submit_s=float(5 + number))
        for number, work in enumerate(work for work in scenario.workload if not entries or work.name in entries)
    )
    faults = replace(scenario.faults, until_s=min(until_s, scenario.faults.until_s))
    return replace(scenario, workload=workload, faults=faults, expect=ExpectSpec())


def tasks(name: str, case: Case) -> list[Task]:
    return [
        Task(name, policy.name, load, seed) for policy in case.policies for load in case.loads for seed in case.seeds
    ]


def outcomes(chosen: dict[str, Case], workers: int = 0) -> Iterator[tuple[str, OutcomeReport]]:
    """Digests of each case, in order, over all cores."""
    every = [task for name, case in chosen.items() for task in tasks(name, case)]
    # Forked, processes have the scenarios as they were read, not as pickle makes them anew.
    done = fanout.each(partial(_one, {name: Read.of(case) for name, case in chosen.items()}), every, workers)
    for name, case in chosen.items():
        found = [next(done) for _ in tasks(name, case)]
        yield name, joint(found)


def _one(known: dict[str, Read], task: Task) -> RunOutcome:
    """One run; what broke an invariant, or did not end, is named, and has a digest all the same."""
    policy, scenario = known[task.case].run_by(task)
    if policy.central:
        jobs = jobs_of(scenario, task.seed)
        came, unfinished = central.scheduled(jobs, policy.central, scenario.limit_s, policy.broker)
        return _named(of_columns(came, unfinished, task.seed), task)
    report = run(World(scenario, task.seed, Boot()))
    if not report.good():
        first = [*map(str, report.violations[:1]), *report.unmet[:1]]
        print(f"{_where(task)}: not as it should be: {'; '.join(first)}", file=sys.stderr)
    assert report.outcome is not None, "it was asked for"
    return _named(report.outcome, task)


def _named(outcome: RunOutcome, task: Task) -> RunOutcome:
    return outcome if task.policy == AS_WRITTEN else replace(outcome, policy=task.policy, load=task.load)


def _where(task: Task) -> str:
    return f"{task.case}, {task.policy}, load {task.load:g}, seed {task.seed}"


# --- comparing -------------------------------------------------------------------------------------------


def difference(found: dict[str, OutcomeReport], kept: dict[str, OutcomeReport]) -> str:
    """The first difference, in one line; empty: there is none. Cases that `found` lacks are not looked at."""
    for name, report in found.items():
        if name not in kept:
            return f"{name}: not in the file"
        before = {_key(row): row for row in kept[name].runs}
        for row in report.runs:
            was = before.pop(_key(row), None)
            if was is None:
                return f"{name}, {_key(row)}: not in the file"
            if was.digest != row.digest:
                counts = [
                    f"{key} {getattr(was, key)} -> {getattr(row, key)}" for key in COUNTS if _differs(was, row, key)
                ]
                return f"{name}, {_key(row)}: {was.digest[:16]} -> {row.digest[:16]}, " + (
                    ", ".join(counts) or "all counts equal"
                )
        if before:
            return f"{name}, {next(iter(before))}: only in the file"
    return ""


def _differs(one: RunOutcome, two: RunOutcome, key: str) -> bool:
    return bool(getattr(one, key) != getattr(two, key))


def _key(row: RunOutcome) -> str:
    return f"seed {row.seed}" if row.load is None else f"{row.policy}, load {row.load:g}, seed {row.seed}"


def read(path: Path) -> dict[str, OutcomeReport]:
    return msgspec.json.decode(path.read_bytes(), type=Kept).cases


def written(found: dict[str, OutcomeReport]) -> bytes:
    """A line per run, so that a re-blessing shows which runs changed."""
    blocks = []
    for name, report in found.items():
        rows = ",\n".join(f"      {msgspec.json.encode(row).decode()}" for row in report.runs)
        blocks.append(f'    "{name}": {{\n     "digest": "{report.digest}",\n     "runs": [\n{rows}\n     ]\n    }}')
    return ('{\n  "version": 1,\n  "cases": {\n' + ",\n".join(blocks) + "\n  }\n}\n").encode()


def rows(case: Case, task: Task) -> Iterator[str]:
    """Every row of a run, as text."""
    world = World(Read.of(case).run_by(task)[1], task.seed, Boot())
    assert world.outcome is not None, "it was asked for"
    found: list[Sequence[object]] = []
    world.outcome.shown = found.append
    run(world)
    return (" ".join(map(str, row)) for row in found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outcome_digests")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(cases()) + " (default: all)")
    parser.add_argument("--bounded", action="store_true", help="few seeds of small scenarios, as the test runs them")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0: one per core")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the digests there, as JSON")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with these; exit 1 if one differs")
    parser.add_argument("--rows", metavar="NAME", help="print every row of one run instead")
    parser.add_argument("--seed", type=int, help="of --rows (default: the first)")
    parser.add_argument("--policy", help="of --rows (default: the first)")
    parser.add_argument("--load", type=float, help="of --rows (default: the first)")
    args = parser.parse_args(arguments)
    chosen = bounded() if args.bounded else cases()
    for name in (*args.names, *([args.rows] if args.rows else [])):
        if name not in chosen:
            parser.error(f"{name} is none of {', '.join(chosen)}")
    if args.rows:
        _print_rows(parser, args, chosen[args.rows])
        return 0
    kept = read(args.against) if args.against else None
    found: dict[str, OutcomeReport] = {}
    for name, report in outcomes({n: c for n, c in chosen.items() if not args.names or n in args.names}, args.workers):
        found[name] = report
        seeds = chosen[name].seeds
        if args.out:
            # After each, so that a run that is broken off leaves what it has.
            args.out.write_bytes(written(found))
        print(f"{name:<20} seeds {seeds[0]}-{seeds[-1]:<8} {report.digest}", flush=True)
    if kept is not None:
        told = difference(found, kept)
        print(f"first difference: {told}" if told else "no difference")
        return 1 if told else 0
    return 0


def _print_rows(parser: argparse.ArgumentParser, args: argparse.Namespace, case: Case) -> None:
    policies = [one for one in case.policies if args.policy in (None, one.name)]
    if not policies or policies[0].central:
        parser.error(f"--policy {args.policy}: want one with an engine: {', '.join(p.name for p in case.policies)}")
    seed = case.seeds[0] if args.seed is None else args.seed
    task = Task(args.rows, policies[0].name, case.loads[0] if args.load is None else args.load, seed)
    for line in rows(case, task):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
