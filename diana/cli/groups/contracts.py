"""Contracts of running jobs as text, and the verb by which a job says how far it is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import diana
from diana import report
from diana.cli.shared import output
from diana.cli.shared.parsing import Command
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.model.views.contract import JobContract


HEADER = Path(diana.__file__).with_name("diana_report.h")


def contract_lines(group: str, contracts: Sequence[JobContract]) -> list[str]:
    """Return a line for each job."""
    return [_line(group, one) for one in contracts]


def _line(group: str, one: JobContract) -> str:
    far = f"{group}.{one.index} at {one.site}: {one.done:g} of {one.total:g}"
    left = f"{output.seconds(one.remaining_s)} left"
    if not one.state:
        return f"{far}, {left}; nothing was foretold of it"
    pace = f"{one.mean_ratio:.2f} of the foretold time for a step (the last {one.last_ratio:.2f})"
    relaxed = f"; relaxed: {one.relaxed}" if one.relaxed else ""
    return f"{far}, {left}, {pace}: {one.state}{relaxed}"


def _options(parser: argparse.ArgumentParser) -> None:
    some = parser.add_mutually_exclusive_group(required=True)
    some.add_argument("--progress", metavar="DONE/TOTAL", help="steps done of all, such as 40/100")
    parser.add_argument(
        "--own", type=float, default=0.0, metavar="SECONDS", help="of a gang with spares: its own part of the step"
    )
    parser.add_argument(
        "--roster", type=int, default=0, metavar="N", help="of a gang with spares: the roster that it computes by"
    )
    some.add_argument("--header", action="store_true", help="print diana_report.h, by which C and C++ programs report")


def _report(args: argparse.Namespace) -> int:
    if args.header:
        print(HEADER.read_text(encoding="ascii"), end="")
        return 0
    done, _, total = args.progress.partition("/")
    try:
        steps = float(done), float(total)
    except ValueError:
        raise UsageError(f"--progress {args.progress!r}: want steps done of all, such as 40/100") from None
    if not 0 <= steps[0] <= steps[1] < float("inf") or not steps[1]:
        raise UsageError(f"--progress {args.progress!r}: want at most all steps, and at least one in all")
    if not (0 <= args.own < float("inf") and args.roster >= 0):
        raise UsageError(f"--own {args.own:g} --roster {args.roster}: want seconds and a number, neither below 0")
    report(*steps, args.own, args.roster)
    return 0


COMMANDS = {
    "report": Command(
        _options,
        _report,
        "In a job whose job file has a [contract] or gang.spares; elsewhere it does nothing. As often as one likes:\n"
        "the newest counts.",
        """
diana report --progress 40/100
diana report --header > diana_report.h
""",
    ),
}
