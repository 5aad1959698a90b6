"""`diana results`: how the jobs of a group ended, of all that have or of those that failed, from any job on."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, at_least, client, node_given
from diana.errors import UsageError
from diana.model.signals import signal_name

if TYPE_CHECKING:
    from diana.cli.shared.shapes import JobRow
    from diana.client.results import JobResult

SHOWN = 100
_MOST_ERRORS = 20
"""Errors below a table on a terminal."""
MOST_SHOWN = 100_000
"""Rows in one table, which is laid out as a whole."""
ANY = "ended"
OUTCOMES = ("done", "failed", "cancelled", "held")
_HEADER = (">JOB", "OUTCOME", ">EXIT", "SITE", ">ATTEMPT", ">RAN", ">CPU", ">MEMORY", "ERROR")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="a group, a job of it (alpha-12.3), or jobs ('alpha-12.[3-9]')")
    parser.add_argument("--outcome", choices=OUTCOMES, help="only jobs that ended so")
    parser.add_argument(
        "--from", dest="first", type=at_least(0), default=0, metavar="INDEX", help="from this job on (default: 0)"
    )
    parser.add_argument(
        "--limit",
        type=at_least(1),
        metavar="N",
        help=f"at most so many jobs (default: {SHOWN}, in a table {MOST_SHOWN:,} at most; with --json all)",
    )
    parser.add_argument(
        "--columns",
        action="store_true",
        help="with --json: many jobs a line, as columns (ResultsChunk; those of one page bear one number)",
    )
    add_json(parser, "JobRow, one job per line")
    add_node(parser)


def _results(args: argparse.Namespace) -> int:
    from diana.client.results import as_asked

    outcome = args.outcome or ANY
    if args.columns and not args.json:
        raise UsageError("results: --columns is a form of --json; write --json --columns")
    with client(args) as node:
        if args.json and not args.columns:
            for row in node.results(args.group, outcome=outcome, first=args.first, most=args.limit or 0):
                output.print_json(_json_row(row))
            return 0
        if args.json:
            for chunk in node.result_chunks(args.group, outcome=outcome, first=args.first, most=args.limit or 0):
                output.print_json(as_asked(chunk))
            return 0
        limit = min(args.limit or SHOWN, MOST_SHOWN)
        found = list(node.results(args.group, outcome=outcome, first=args.first, most=limit + 1))
    if not found:
        behind = f" from job {args.first} on" if args.first else ""
        _, jobs, _ = args.group.partition(".")
        way = f"; diana status {shlex.quote(args.group)}{node_given(args)} tells how it stands" if jobs else ""
        output.say(f"{args.group}: no job{behind} has ended {_so(outcome)}{way}")
        return 0
    shown = found[:limit]
    if output.on_terminal():
        # What is said of them is longer than a terminal is wide.
        rows = [_row(row)[:-1] for row in shown]
        output.print_table(_HEADER[:-1], rows, least=("CPU", "ATTEMPT", "MEMORY", "RAN", "SITE"))
        _say_errors([row.error for row in shown if row.error])
    else:
        output.print_table(_HEADER, [_row(row) for row in shown])
    if len(found) > limit:
        chosen = f" --outcome {args.outcome}" if args.outcome else ""
        chosen += f" --limit {args.limit}" if args.limit else ""
        chosen += f" --from {found[limit].index}{node_given(args)}"
        print(f"and more; diana results {shlex.quote(args.group)}{chosen} goes on")
    return 0


def _say_errors(errors: list[str]) -> None:
    for error in errors[:_MOST_ERRORS]:
        output.say(error)
    if len(errors) > _MOST_ERRORS:
        print(f"and {output.counted(len(errors) - _MOST_ERRORS, 'more error')}; --json has all")


def _json_row(row: JobResult) -> JobRow:
    import msgspec

    from diana.cli.shared.shapes import JobRow

    return msgspec.convert(row, JobRow, from_attributes=True)


def _so(outcome: str) -> str:
    how = {ANY: "", "held": "with an outcome nobody knows "}.get(outcome, f"as {outcome} ")
    return f"{how}so far"


def _row(row: JobResult) -> tuple[object, ...]:
    ran = row.began
    return (
        row.job,
        row.outcome.replace("_", " "),
        signal_name(row.signal) if row.signal else row.exit_code if ran or row.exit_code else "-",
        row.site or "-",
        row.attempt or "-",
        output.seconds(row.ended_s - row.started_s) if ran else "-",
        output.seconds(row.cpu_s) if ran else "-",
        output.memory(row.max_rss_bytes) if ran and row.max_rss_bytes else "-",
        row.error or "-",
    )


COMMANDS = {
    "results": Command(
        _options,
        _results,
        "In order of the jobs' indices. A page of a large group costs what it holds, not what the group is.\n"
        "failed: also those that took too long, could not be started or lacked an input or output. held: what became\n"
        "of them is not known; diana retry --held tries them again. Jobs on hold wait, and are not among them. A job\n"
        "that was given to no site has none, and what never began there has no times.\n"
        "EXIT: the exit code, or the signal that ended it; --json has a signal's number as signal, and 128 more as\n"
        "exitCode.",
        """
diana results alpha-12
diana results alpha-12.3
diana results 'alpha-12.[3-9,12]'
diana results alpha-12 --outcome failed
diana results alpha-12 --outcome failed --from 500000 --limit 20
diana results alpha-12 --outcome failed --json
diana results alpha-12 --json --columns
""",
    ),
}
