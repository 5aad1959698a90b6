"""`diana dashboard`: a way into the node's pages for a browser, or a token for what collects its metrics."""

from __future__ import annotations

import argparse

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client, duration_s

OPENING_S = 5.0
"""A browser that just starts reads its page so soon."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="open it in this machine's browser")
    parser.add_argument("--metrics", action="store_true", help="a token for Prometheus instead")
    parser.add_argument(
        "--for",
        dest="for_s",
        type=duration_s,
        metavar="TIME",
        help="how long it holds (default: session_hours of [web])",
    )
    add_json(parser, "DashboardResponse")
    add_node(parser)


def _dashboard(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.dashboard("metrics" if args.metrics else "pages", for_s=args.for_s or 0.0)
    if args.json:
        output.print_json(found)
    else:
        print(f"{found.url}\nAuthorization: Bearer {found.token}" if args.metrics else found.url)
    if args.open and not args.metrics:
        _open(found.url)
    return 0


def _open(url: str) -> None:
    """Open the pages by way of a file that only its owner reads: everybody on the machine sees the words a program is
    called with."""
    import html
    import tempfile
    import time
    import webbrowser
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="diana-") as folder:
        page = Path(folder) / "dashboard.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
        webbrowser.open(page.as_uri())
        time.sleep(OPENING_S)


COMMANDS = {
    "dashboard": Command(
        _options,
        _dashboard,
        "The address it prints lets one browser in, within two minutes and once, with the rights of whoever asked.\n"
        "Where only the node's own machine reaches it, tunnel to it: ssh -L PORT:127.0.0.1:PORT HOST.",
        """
diana dashboard
diana dashboard --open
diana dashboard --metrics --for 365d
""",
    ),
}
