"""Verbs that try the thing out: demo on real processes, simulate under a virtual clock."""

from __future__ import annotations

import argparse
from pathlib import Path

from diana.cli.shared.pages import add_page, check_page
from diana.cli.shared.parsing import Command, add_json, add_node, at_least, client
from diana.errors import UsageError


def _demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("demo-out"), metavar="DIR", help="results (default: demo-out)")
    parser.add_argument("--sites", type=at_least(1), default=5, metavar="N", help="node processes (default: 5)")
    parser.add_argument(
        "--jobs", type=at_least(1), default=200, metavar="N", help="jobs, one input file each (default: 200)"
    )
    parser.add_argument("--keep", action="store_true", help="leave data directories and nodes for a look afterwards")
    add_json(parser, "the content of result.json")


def _demo(args: argparse.Namespace) -> int:
    from diana.client.where import data_folder
    from diana.demo.drive import run_demo

    # Its data directories lie below: what no node could serve from is refused before any is made.
    data_folder(args.out)
    return run_demo(args.out, args.sites, args.jobs, args.keep, args.json)


def _simulate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", metavar="FILE", nargs="?", help="a scenario, as those in scenarios/")
    _trace_options(parser)
    parser.add_argument(
        "--seeds", type=at_least(1), metavar="N", help="how many runs (default: 1, or as the scenario compares)"
    )
    parser.add_argument("--first-seed", type=at_least(0), default=0, metavar="S", help="seeds S to S+N-1 (default: 0)")
    parser.add_argument(
        "--workers",
        type=at_least(0),
        default=0,
        metavar="N",
        help="processes, for the same result (default: all cores)",
    )
    parser.add_argument(
        "--report", default="", metavar="KEY,...", help="these keys instead of the scenario's, as faults,coverage"
    )
    parser.add_argument(
        "--shrink",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="make the first seed that fails small (within a minute; default: yes)",
    )
    add_page(parser)
    add_json(parser, "the scenario's report, or the trace's figures")
    parser.add_argument(
        "--on",
        choices=("here", "grid"),
        default="here",
        help="grid: each seed of a comparison is a job of a bulk group",
    )
    parser.add_argument(
        "--program", default="diana", metavar="WORDS", help="with --on grid: how sites call diana (default: diana)"
    )
    add_node(parser)


def _trace_options(parser: argparse.ArgumentParser) -> None:
    trace = parser.add_argument_group("instead of a scenario: a log through one batch system")
    trace.add_argument("--trace", metavar="FILE", help="in the Standard Workload Format, .swf or .swf.gz")
    trace.add_argument(
        "--lrm", choices=("fcfs", "easy"), help="the batch system: strict FCFS (default) or EASY backfilling"
    )
    trace.add_argument(
        "--processors", type=at_least(1), metavar="P", help="of the machine (default: MaxProcs in the log's header)"
    )
    trace.add_argument("--first", type=at_least(1), metavar="N", help="only the first N usable jobs by submission")
    trace.add_argument("--partition", type=at_least(0), metavar="K", help="only jobs of this partition (field 16)")


_TRACE_ONLY = ("lrm", "processors", "first", "partition")
_SCENARIO_ONLY = {
    "seeds": None,
    "first_seed": 0,
    "workers": 0,
    "report": "",
    "shrink": True,
    "html": None,
    "on": "here",
}
"""Options of a scenario only, each with its value when it is not given."""


def _replay(args: argparse.Namespace) -> int:
    if args.scenario is not None:
        raise UsageError(f"simulate: {args.scenario} and --trace {args.trace}: give a scenario or a trace, not both")
    for name, unsaid in _SCENARIO_ONLY.items():
        if getattr(args, name) != unsaid:
            raise UsageError(
                f"simulate: --{name.replace('_', '-')} is for a scenario; a trace has one run, leave it out"
            )
    from diana.sim.experiments.replay import run

    return run(args.trace, args.lrm or "fcfs", args.processors, args.first, args.partition, args.json)


def _simulate(args: argparse.Namespace) -> int:
    if args.trace is not None:
        return _replay(args)
    for name in _TRACE_ONLY:
        if getattr(args, name) is not None:
            raise UsageError(f"simulate: --{name} is for --trace FILE, which is not given")
    if args.scenario is None:
        raise UsageError("simulate: no FILE; name a scenario (scenarios/ holds some), or a log with --trace")
    from diana.sim.scenario.shipped import found

    args.scenario = found(args.scenario)
    check_page("simulate", args.html)
    from diana.cli.shared.progress import progress

    if args.on == "grid":
        return _on_grid(args)
    from diana.sim.experiments.shrink import LIMIT_S
    from diana.sim.main import run

    keys = tuple(key.strip() for key in args.report.split(",") if key.strip())
    shrink_s = LIMIT_S if args.shrink else 0.0
    with progress("runs") as tell:
        return run(
            args.scenario,
            args.seeds or 0,
            args.first_seed,
            args.json,
            workers=args.workers,
            keys=keys,
            shrink_s=shrink_s,
            html=args.html,
            tell=tell,
        )


def _on_grid(args: argparse.Namespace) -> int:
    if args.report not in ("", "compare"):
        raise UsageError(f"simulate: --report {args.report}: of a grid only compare comes back; leave it out")
    from diana.cli.shared.progress import progress
    from diana.cli.trial.on_grid import SimulateOptions, run_on_grid

    asked = SimulateOptions(args.seeds or 0, args.first_seed, args.program, args.json, args.html)
    with client(args) as node, progress("seeds") as tell:
        return run_on_grid(args.scenario, asked, node, tell)


COMMANDS = {
    "demo": Command(
        _demo_options,
        _demo,
        "Makes real input at different sites, histograms it with one bulk group, compares with a direct computation.",
        """
diana demo
diana demo --sites 3 --jobs 20 --json
""",
    ),
    "simulate": Command(
        _simulate_options,
        _simulate,
        "The engine of a node, under a virtual clock. Exit code 1 when a seed breaks an invariant or expectation.",
        """
diana simulate scenarios/five-sites.toml
diana simulate scenarios/chaos.toml --seeds 200 --first-seed 7
diana simulate scenarios/policies.toml --html policies.html
diana simulate scenarios/policies.toml --on grid
diana simulate --trace log.swf.gz --processors 128 --lrm easy --first 1000 --json
""",
    ),
}
