"""`make bench`: the figures, beside what the bare machine does in the same run.

python -m benchmarks.run [p1 p2 p3 p4 p7 p8 p10 catalogue handover alternatives calls] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.calibration import calibration
from benchmarks.figures import FIGURES

OUT = Path(__file__).parent / "out" / "figures.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(FIGURES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    unknown = [name for name in args.figures if name not in FIGURES]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(FIGURES)}")
    report: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="diana-bench-") as folder:
        report["calibration"] = calibration(Path(folder))
        for name in args.figures or FIGURES:
            if not args.json:
                doc = FIGURES[name].__doc__ or ""
                print(f"{name.upper()}  {doc.splitlines()[0]}", flush=True)
            report[name] = FIGURES[name](Path(folder), args.rounds)
            if not args.json:
                show(report[name])
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print("calibration of this run")
        show(report["calibration"])
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def show(values: dict[str, float]) -> None:
    for key, value in values.items():
        print(f"    {key:<24} {value:>12,.3f}" if value % 1 else f"    {key:<24} {value:>12,.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
