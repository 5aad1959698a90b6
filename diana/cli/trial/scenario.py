"""`diana scenario check FILE...`, `schema`, `run FILE`: are files in order, what may stand there, how real nodes do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, at_least, duration_s
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.cli.shared.shapes import Checked


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] check FILE... | schema | run FILE"
    parser.add_argument("order", choices=("check", "schema", "run"))
    parser.add_argument("files", nargs="*", metavar="FILE", help="scenarios, as those in scenarios/")
    add_json(
        parser,
        "of check a list with keys file, ok, then sites, entries, groups, jobs, or else error; of run its report",
    )
    how = parser.add_argument_group("run")
    how.add_argument(
        "--on", choices=("processes", "netns", "compose"), help="where its nodes stand (default: processes)"
    )
    how.add_argument("--seed", type=at_least(0), metavar="S", help="of what the scenario draws (default: 0)")
    how.add_argument("--speed-up", type=_factor, metavar="F", help="F seconds of the scenario in one (default: 1)")
    how.add_argument("--within", type=duration_s, metavar="TIME", help="what runs longer is stuck (default: 30m)")
    how.add_argument("--keep", type=Path, metavar="DIR", help="leave data directories and logs in this new folder")


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-3 <= value <= 1e4:
        raise argparse.ArgumentTypeError(f"{text!r} is no factor; write a number, 0.001 to 10000, such as 60")
    return value


def _run_one(args: argparse.Namespace) -> int:
    if len(args.files) != 1:
        raise UsageError("scenario run: name one file: diana scenario run FILE --on processes; scenarios/ holds some")
    from diana.sim.scenario.shipped import resolved
    from diana.trial.run import Options, run

    said = {"on": args.on, "seed": args.seed, "speed_up": args.speed_up, "within_s": args.within, "keep": args.keep}
    options = Options(**{name: value for name, value in said.items() if value is not None})
    return run(Path(resolved(args.files[0])), options, args.json)


def _run(args: argparse.Namespace) -> int:
    if args.order == "run":
        return _run_one(args)
    for option in ("on", "seed", "speed_up", "within", "keep"):
        if getattr(args, option) is not None:
            raise UsageError(f"scenario {args.order}: --{option.replace('_', '-')} is for run; leave it out")
    if args.order == "schema":
        return _schema(args)
    if not args.files:
        raise UsageError("scenario check: name a file: diana scenario check FILE; scenarios/ holds some")
    from diana.sim.scenario.shipped import resolved

    rows = [_checked(Path(resolved(file))) for file in args.files]
    if args.json:
        output.print_json(rows)
    else:
        _tell(rows)
    return 0 if all(row.ok for row in rows) else UsageError.exit_code


def _schema(args: argparse.Namespace) -> int:
    if args.files:
        raise UsageError(f"scenario schema: takes no file; leave {args.files[0]!r} out")
    from diana.sim.scenario.published import schema_text

    print(schema_text(), end="")
    return 0


def _checked(path: Path) -> Checked:
    from diana.cli.shared.shapes import Checked
    from diana.sim.load import traced
    from diana.sim.scenario.scenario import load

    try:
        scenario = load(path)
    except UsageError as error:
        return Checked(file=str(path), ok=False, error=str(error))
    # Of a cut that each seed draws, what the first seed gets.
    accounts = [(work, traced.account(work, scenario)) for work in scenario.workload]
    sizes = [(one.groups, one.jobs) if one else (work.repeat, work.jobs * work.repeat) for work, one in accounts]
    return Checked(
        file=str(path),
        ok=True,
        sites=len(scenario.sites),
        entries=len(scenario.workload),
        groups=sum(groups for groups, _ in sizes),
        jobs=sum(jobs for _, jobs in sizes),
    )


def _tell(rows: list[Checked]) -> None:
    from diana.cli.shared.faults import complain

    for row in rows:
        if not row.ok:
            complain(row.error)
            continue
        entries = output.counted(row.entries, "entry", "entries")
        sites, jobs = output.counted(row.sites, "site"), output.counted(row.jobs, "job")
        output.say(f"{row.file}: ok: {sites}, {entries} of work, {jobs}")


COMMANDS = {
    "scenario": Command(
        _options,
        _run,
        "check reads files as simulate does and says how large they are; exit code 2 when one is wrong.\n"
        "schema prints the JSON Schema of the format. run plays it on real nodes: processes of this machine, network\n"
        "namespaces (root) or docker-compose; exit code 1 when a group comes to no end or an expectation is not met.\n"
        "See docs/scenarios.md.",
        """
diana scenario check scenarios/*.toml
diana scenario check --json my.toml
diana scenario schema
diana scenario run scenarios/two-sites.toml
diana scenario run scenarios/five-sites.toml --on netns --speed-up 60 --json
""",
    ),
}
