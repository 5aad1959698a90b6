"""`diana site promote`: which of a site's two machines leads."""

from __future__ import annotations

import argparse

from diana.cli import output
from diana.cli.parsing import client


def run(args: argparse.Namespace) -> int:
    with client(args) as node:
        told = node.promote(force=args.force, remove=args.remove)
    if args.json:
        output.print_json({"text": told})
    else:
        print(told)
    return 0
