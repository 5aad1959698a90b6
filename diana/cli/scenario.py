"""`diana scenario check FILE...`, `diana scenario schema`: are scenario files in order, what may stand there."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diana.cli import output
from diana.cli.parsing import Command, add_json
from diana.errors import UsageError


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] check FILE... | schema"
    parser.add_argument("order", choices=("check", "schema"))
    parser.add_argument("files", nargs="*", metavar="FILE", help="scenarios, as those in scenarios/")
    add_json(parser, 'a list with keys "file", "ok", then "sites", "entries", "groups", "jobs" or else "error"')


def _run(args: argparse.Namespace) -> int:
    if args.order == "schema":
        return _schema(args)
    if not args.files:
        raise UsageError("scenario check: name a file: diana scenario check FILE; scenarios/ holds some")
    rows = [_checked(Path(file)) for file in args.files]
    if args.json:
        output.print_json(rows)
    else:
        _tell(rows)
    return 0 if all(row["ok"] for row in rows) else UsageError.exit_code


def _schema(args: argparse.Namespace) -> int:
    if args.files:
        raise UsageError(f"scenario schema: takes no file; leave {args.files[0]!r} out")
    from diana.sim.published import schema_text

    print(schema_text(), end="")
    return 0


def _checked(path: Path) -> dict[str, Any]:
    from diana.sim import traced
    from diana.sim.scenario import load

    try:
        scenario = load(path)
    except UsageError as error:
        return {"file": str(path), "ok": False, "error": str(error)}
    # Of a cut that each seed draws, what the first seed gets.
    accounts = [(work, traced.account(work, scenario)) for work in scenario.workload]
    sizes = [(one.groups, one.jobs) if one else (work.repeat, work.jobs * work.repeat) for work, one in accounts]
    return {
        "file": str(path),
        "ok": True,
        "sites": len(scenario.sites),
        "entries": len(scenario.workload),
        "groups": sum(groups for groups, _ in sizes),
        "jobs": sum(jobs for _, jobs in sizes),
    }


def _tell(rows: list[dict[str, Any]]) -> None:
    from diana.cli.faults import complain

    for row in rows:
        if not row["ok"]:
            complain(row["error"])
            continue
        entries = "entry" if row["entries"] == 1 else "entries"
        sites, jobs = output.counted(row["sites"], "site"), output.counted(row["jobs"], "job")
        print(output.clean(f"{row['file']}: ok: {sites}, {row['entries']:,} {entries} of work, {jobs}"))


COMMANDS = {
    "scenario": Command(
        _options,
        _run,
        "check reads files as simulate does and says how large they are; exit code 2 when one is wrong.\n"
        "schema prints the JSON Schema of the format. See docs/scenarios.md.",
        """
diana scenario check scenarios/*.toml
diana scenario check --json my.toml
diana scenario schema
""",
    ),
}
