"""`diana top`: sites, queues and groups on one page of the terminal that lives. Its parts are imported when it runs.
The node's answers come in at a pace that their size allows, become rows of tables, and are redrawn; keys choose tables,
tell a group's story, and give orders to it after a question. Read `app.py` first, the page itself, then `reading.py`,
which asks the node, and `tables.py`, which makes the rows."""

from __future__ import annotations

import argparse
import os
import sys

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_node, client, duration_s
from diana.errors import UsageError, of_extra

EVERY_S = 1.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mine", "--me", action="store_true", help="only my groups")
    parser.add_argument(
        "--every", type=duration_s, default=EVERY_S, metavar="TIME", help="look again after this (default: 1s)"
    )
    add_node(parser)


def _top(args: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and output.on_terminal()):
        raise UsageError("top: wants a terminal; elsewhere take diana status --active, diana sites or diana queue")
    with of_extra("top", "diana top"):
        from diana.cli.top.app import Top
    with client(args) as node:
        # What is wrong from the beginning is one line; later, the page waits for the node to come back.
        node.groups(limit=1)
        info = node.info()
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)
    from diana.client import AsyncClient

    app = Top(
        lambda: AsyncClient(data=args.data, address=args.address, credential=args.credential),
        info,
        mine=args.mine,
        every_s=args.every,
    )
    app.run()
    if app.fault is not None:
        raise app.fault
    return 0


COMMANDS = {
    "top": Command(
        _options,
        _top,
        "Keys: s sites, u queue, g groups, m machines and peers: the same again makes that table fill the page.\n"
        "Enter tells a group's story: its shares, why it was placed so, what failed last; l there shows the output of\n"
        "a job, also while it runs (n and p: the next and the one before, j: any other). / shows only rows that hold\n"
        "a word; a leaves out what is over; c cancels, h holds, r releases or retries a group, once you said yes;\n"
        "q ends. While the node cannot be reached the page keeps what it knew, and goes on when the node is back.\n"
        "Of many groups those that are not over come first, then the newest; the title says how many are left out.",
        """
diana top
diana top --mine --every 5s
diana top --credential ann-credential
""",
    ),
}
