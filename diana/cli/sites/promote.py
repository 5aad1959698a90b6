"""`diana site promote`: which of a site's two machines leads."""

from __future__ import annotations

import argparse

from diana.cli.shared import output
from diana.cli.shared.parsing import client


def run(args: argparse.Namespace) -> int:
    with client(args) as node:
        told = node.promote(force=args.force, remove=args.remove)
    output.tell(told, args.json)
    return 0
