#!/usr/bin/env python3
"""The merge command: sums every hist-*.json of this folder into OUT.json.

    merge.py OUT.json

Runs once at the submitter's site when all outputs are there; takes nothing but the standard library.
"""

from __future__ import annotations

import glob
import json
import sys


def main(out: str) -> None:
    total: dict[str, object] = {}
    counts: list[int] = []
    events = files = 0
    for name in sorted(glob.glob("hist-*.json")):
        with open(name, encoding="ascii") as file:
            part = json.load(file)
        if files and (part["low"], part["high"], part["bins"]) != (total["low"], total["high"], total["bins"]):
            raise SystemExit(f"{name}: another binning than the files before it")
        total = part
        counts = [a + b for a, b in zip(counts, part["counts"], strict=True)] if files else part["counts"]
        events += part["events"]
        files += 1
    if not files:
        raise SystemExit("no hist-*.json in this folder")
    with open(out, "w", encoding="ascii") as file:
        json.dump({**total, "events": events, "counts": counts, "files": files}, file)


if __name__ == "__main__":
    main(sys.argv[1])
