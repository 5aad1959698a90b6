"""`diana metrics`: what a Prometheus server would read, for a text file collector and for people."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client
from diana.errors import UsageError


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="write it there, whole or not at all; such as NAME.prom")
    add_json(parser, "MetricsResponse")
    add_node(parser)


def _metrics(args: argparse.Namespace) -> int:
    if args.out and args.json:
        raise UsageError("metrics: --out writes the text as it is; leave out --json")
    with client(args) as node:
        text = node.metrics()
    if args.json:
        output.print_json({"text": text})
    elif args.out:
        _write(Path(args.out), text)
    else:
        sys.stdout.write(text)
    return 0


def _write(path: Path, text: str) -> None:
    """Write the file at once: whoever reads the folder meanwhile sees the old file or the new one, and nothing else
    that ends alike."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise UsageError(f"{path}: {error.strerror}; name a file in a folder this account may write") from None


COMMANDS = {
    "metrics": Command(
        _options,
        _metrics,
        "In Prometheus's text format; docs/metrics.md names every metric. --out is for node_exporter's text file\n"
        "collector, from a timer. Works at a standby and at a machine that only runs jobs too.",
        """
diana metrics
diana metrics --out /var/lib/prometheus/node-exporter/diana.prom
diana metrics --json
""",
    ),
}
