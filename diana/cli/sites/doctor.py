"""`diana doctor`: one line for each thing a site stands on, and how to mend it. Works without a node too."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_data, add_json

if TYPE_CHECKING:
    from diana.wire.client.peers import CheckResult, DoctorResponse

_MARKS = {"ok": "\033[32mok  \033[0m", "warn": "\033[33mwarn\033[0m", "fail": "\033[31mfail\033[0m"}


def _options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_json(parser, "DoctorResponse")


def _doctor(args: argparse.Namespace) -> int:
    from diana.client.where import data_folder
    from diana.node.doctor.checkup import checkup

    data = data_folder(args.data)
    found = checkup(Path(data), lambda: _ask(data))
    output.print_json(found) if args.json else show(found)
    return int(any(row.state == "fail" for row in found.checks))


def _ask(data: str) -> DoctorResponse:
    """The checks the node there makes of itself; a standby that does not lead tells its standing."""
    from diana.client import Client
    from diana.wire.client.peers import DoctorResponse

    with Client(data) as node:
        return DoctorResponse(checks=node.doctor())


def show(found: DoctorResponse) -> None:
    width = max(len(row.name) for row in found.checks)
    for row in found.checks:
        print(line(row, width))
    failed, warned = (sum(row.state == state for row in found.checks) for state in ("fail", "warn"))
    output.heading(f"{output.counted(len(found.checks), 'check')}: {failed} failed, {warned} to look at")


def line(row: CheckResult, width: int = 0) -> str:
    mark = _MARKS.get(row.state, row.state) if output.in_colour() else f"{row.state:<4}"
    mend = f"; {row.mend}" if row.mend else ""
    return f"{mark}  {output.clean(row.name):<{width}}  {output.clean(row.found + mend)}"


COMMANDS = {
    "doctor": Command(
        _options,
        _doctor,
        "Settings, rights, disk, store, audit trail, certificate, port, spawner, limits, GPUs; then clock, peers,\n"
        "reachability and multicast, as the running node sees them, else from here. Takes some seconds, changes\n"
        "nothing. The exit code is 1 if a check failed, 0 if there is nothing worse than a warning.",
        """
diana doctor
diana doctor --data /srv/beta --json
""",
    ),
}
