"""`make bench-peers`: diana beside what people use today, the same work in turns, in one run.

    python -m benchmarks.bench_peers [PEER ...] [--cells WORDS] [--rounds 3] [--quick] [--no-install] [--add]
        [--json benchmarks/out/peers.json] [--page docs/peers.md]

Peers that are not there are installed by name (Debian's packages as root, Python's into build/peers); those that cannot
be had are named with the reason. In each round every peer stands between two measurements of diana's (A B A C A ...),
and its ratio is that to the one right before it; above 1 diana is better. `--quick` takes small sizes and one round.
`--page` writes the table between its marks; given an earlier file by `--from`, without measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import table
from benchmarks.peers.cells import CELLS, SLOTS, Cell
from benchmarks.peers.installs import NAMES, Peer, peer
from benchmarks.site import BenchSite

OUT = Path(__file__).parent / "out" / "peers.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--cells", default="", help="only cells whose name has one of these words, by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--no-install", action="store_true", help="only peers that are there")
    parser.add_argument("--json", type=Path, default=OUT)
    parser.add_argument("--add", action="store_true", help="keep the rows of other peers that --json has")
    parser.add_argument("--page", type=Path, help="the page whose table is written")
    parser.add_argument("--from", type=Path, dest="earlier", help="figures of an earlier run, for --page")
    options = parser.parse_args()
    unknown = [name for name in options.peers if name not in NAMES]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(NAMES)}")
    words = [word for word in options.cells.split(",") if word]
    cells = [cell for cell in CELLS if not words or any(word in cell.name for word in words)]
    if not cells:
        parser.error(f"--cells {options.cells}: no cell's name has any of these words")
    if options.earlier:
        figures = json.loads(options.earlier.read_text())
    else:
        old = json.loads(options.json.read_text()) if options.add else None
        figures = run(options, cells, old)
    if options.page:
        table.write(options.page, figures)
    else:
        print(table.table(figures))
    return 0


def run(options: argparse.Namespace, cells: list[Cell], old: table.Found | None) -> table.Found:
    """Measure, and keep what was measured after each cell, whatever comes of the next. `old`: figures to add to."""
    rounds = 1 if options.quick else options.rounds
    wanted = options.peers or list(NAMES)
    needed = [name for name in wanted if any(name in cell.theirs for cell in cells)]
    peers = []
    for name in needed:
        print(f"{name}: looked for", file=sys.stderr, flush=True)
        peers.append(peer(name, install=not options.no_install))
    rows: list[dict[str, Any]] = []
    for cell in cells:
        some = [one for one in peers if not one.absent and one.name in cell.theirs]
        if some:
            rows += measured(cell, some, cell.quick if options.quick else cell.size, rounds)
        figures = found(peers, rows, rounds)
        if old is not None:
            figures = added(old, figures)
        keep(options.json, figures)
    return figures


def added(old: table.Found, new: table.Found) -> table.Found:
    """Return the old figures with the new ones in place of those of the same peers."""
    again = {row["peer"] for row in (*new["rows"], *new["absent"])}
    sides = {side: [*(row for row in old[side] if row["peer"] not in again), *new[side]] for side in ("rows", "absent")}
    order = [cell.name for cell in CELLS]
    sides["rows"].sort(key=lambda row: order.index(row["cell"]))
    return {**new, **sides, "command": f"{old['command']}; {new['command']}"}


def keep(path: Path, found: table.Found) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")


def found(peers: list[Peer], rows: list[dict[str, Any]], rounds: int) -> table.Found:
    return {
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end",
        "command": "python -m benchmarks.bench_peers " + " ".join(sys.argv[1:]),
        "taken": f"{rounds} round{'s' if rounds > 1 else ''}, {time.strftime('%Y-%m-%d', time.gmtime())}",
        "release": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip(),
        "rows": rows,
        "absent": [{"peer": one.name, "why": one.absent} for one in peers if one.absent],
    }


def measured(cell: Cell, peers: list[Peer], size: int, rounds: int) -> list[dict[str, Any]]:
    """Measure the cell in turns; return a row for each peer, of one that failed with the reason."""
    ours: dict[str, list[float]] = {one.name: [] for one in peers}
    theirs: dict[str, list[float]] = {one.name: [] for one in peers}
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="diana-peers-")))
        site = BenchSite(folder / "site", slots=SLOTS)
        if cell.loaded:
            stack.enter_context(site)
        for turn in range(rounds):
            for one in peers:
                if one.name in failed:
                    continue
                here = [folder / f"{turn}-{one.name}-{side}" for side in ("diana", "peer")]
                for place in here:
                    place.mkdir()
                own = cell.ours(site, size, here[0])
                try:
                    their = cell.theirs[one.name](one, size, here[1])
                except (RuntimeError, OSError, subprocess.SubprocessError, SystemExit, AssertionError) as error:
                    failed[one.name] = " ".join(str(error).split())[:200]
                    print(f"{cell.name}: {one.name} failed: {failed[one.name]}", file=sys.stderr, flush=True)
                    continue
                ours[one.name].append(own)
                theirs[one.name].append(their)
                print(
                    f"{cell.name}: diana {own:,.4g}, {one.name} {their:,.4g} {cell.unit}", file=sys.stderr, flush=True
                )
    return [row(cell, one, size, ours[one.name], theirs[one.name], failed.get(one.name, "")) for one in peers]


def row(cell: Cell, one: Peer, size: int, ours: list[float], theirs: list[float], failed: str = "") -> dict[str, Any]:
    """Return the row of a peer: medians, spreads, and how many times better diana is, by the pairs of each round."""
    about = {"cell": cell.name, "unit": cell.unit, "size": size, "peer": one.name, "version": one.version}
    if failed or not ours:
        return {**about, "failed": failed or "not measured"}
    pairs = zip(ours, theirs, strict=True)
    ratios = [_times(a, b) if cell.more else _times(b, a) for a, b in pairs]
    return {
        **about,
        "ours": median(ours),
        "ours_range": [min(ours), max(ours)],
        "theirs": median(theirs),
        "theirs_range": [min(theirs), max(theirs)],
        "ratio": median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
    }


def _times(better: float, worse: float) -> float:
    """The quotient; a figure of 0, as of an idle processor, counts as the least that the clock shows."""
    return max(better, 0.01) / max(worse, 0.01)


if __name__ == "__main__":
    sys.exit(main())
