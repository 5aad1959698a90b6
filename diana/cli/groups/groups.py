"""`diana groups`: which groups there are, the newest last; `diana status` says how far each is."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, at_least, client

if TYPE_CHECKING:
    from diana.model.views.group import GroupStatus
    from diana.wire.client.messages import StatusResponse

SHOWN = 50
_HEADER = ("GROUP", "NAME", "OWNER", "STATE", ">JOBS", ">DONE", ">FAILED", "SUBMITTED", ">TOOK")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mine", "--me", action="store_true", help="only my groups")
    parser.add_argument("--active", action="store_true", help="only groups that are not over")
    parser.add_argument(
        "--limit",
        type=at_least(1),
        default=SHOWN,
        metavar="N",
        help=f"at most so many; those that are not over come first, then the newest (default: {SHOWN})",
    )
    add_json(parser, "StatusResponse")
    add_node(parser)


def _groups(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.groups(mine=args.mine, active=args.active, limit=args.limit)
    output.print_json(found) if args.json else show(found, args.limit, active=args.active)
    return 0


def show(found: StatusResponse, limit: int = SHOWN, *, active: bool = False) -> None:
    if not found.groups:
        print("no groups that are not over" if active else "no groups; submit one with: diana submit FILE")
        return
    output.print_table(_HEADER, [_row(group) for group in found.groups], least=("TOOK", "SUBMITTED", "OWNER", "NAME"))
    if found.left_out:
        shown = len(found.groups)
        way = f"--limit {shown + found.left_out} asks for all" if shown >= limit else "one answer holds no more"
        print(f"and {output.counted(found.left_out, 'more group')}; {way}")


def _row(group: GroupStatus) -> tuple[object, ...]:
    return (
        group.group,
        group.name or "-",
        group.owner,
        group.state,
        f"{group.jobs:,}",
        f"{group.done:,}",
        f"{group.failed:,}",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(group.submitted_wall_s)),
        output.seconds(group.last_end_s if group.final else -1),
    )


COMMANDS = {
    "groups": Command(
        _options,
        _groups,
        "The newest stand last. TOOK: from submission to the last end, once a group is over.",
        """
diana groups
diana groups --mine --active
diana groups --limit 1000 --json
""",
    ),
}
