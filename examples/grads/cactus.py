#!/usr/bin/env python3
"""The field of two sources that circle each other, in a cube: a small twin of the Cactus program that GrADS schedules.
A wave equation in three dimensions, by finite differences.

    cactus.py N STEPS [--pause SECONDS]

Each process has some planes of the cube, and tells its neighbours those at its edges. The answer is the same to the
last bit however many processes there are.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from ranks import Progress, Ranks

COURANT = 0.5
"""Way of the wave in a step, in points; below 1 / sqrt(3) it is stable."""
TURN = 0.15
"""Angle that the sources turn in a step."""


def sources(step: int, n: int) -> list[tuple[int, int, int, float]]:
    """Return (plane, row, column, strength) of both."""
    angle, middle, radius = TURN * step, n // 2, n / 5
    rows, columns = round(radius * float(np.sin(angle))), round(radius * float(np.cos(angle)))
    return [(middle, middle + rows, middle + columns, 1.0), (middle, middle - rows, middle - columns, -1.0)]


def stepped(now: np.ndarray, before: np.ndarray, first: int, step: int, n: int) -> np.ndarray:
    """Return our planes after a step. `now` and `before` have one more at each end, of which ours is `first`."""
    middle = now[1:-1, 1:-1, 1:-1]
    bend = now[2:, 1:-1, 1:-1] + now[:-2, 1:-1, 1:-1] + now[1:-1, 2:, 1:-1] + now[1:-1, :-2, 1:-1]
    bend = bend + now[1:-1, 1:-1, 2:] + now[1:-1, 1:-1, :-2] - 6.0 * middle
    out = np.zeros_like(now[1:-1])
    out[:, 1:-1, 1:-1] = 2.0 * middle - before[1:-1, 1:-1, 1:-1] + COURANT**2 * bend
    for plane, row, column, strength in sources(step, n):
        if first <= plane < first + len(out):
            out[plane - first, row, column] += COURANT**2 * strength
    # The cube's own faces stay at rest.
    for face in (0, n - 1):
        if first <= face < first + len(out):
            out[face - first] = 0.0
    return out


def with_edges(ranks: Ranks, mine: np.ndarray) -> np.ndarray:
    """Return our planes between those of the neighbours; those who have none are passed over."""
    edges = ranks.all((mine[0], mine[-1]) if len(mine) else None)
    still = np.zeros(mine.shape[1:])
    below = next((pair[1] for pair in edges[: ranks.rank][::-1] if pair is not None), still)
    above = next((pair[0] for pair in edges[ranks.rank + 1 :] if pair is not None), still)
    return np.concatenate([below[None], mine, above[None]])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each step")
    args = parser.parse_args()
    n = args.n
    ranks = Ranks()
    progress = Progress(ranks, args.steps, args.pause)
    saved = progress.begun()
    mine = ranks.share(n)
    own = slice(mine.start, mine.stop)
    empty = np.zeros((n, n, n))
    now, before = saved.get("now", empty)[own], saved.get("before", empty)[own]
    whole = {"now": saved.get("now", empty)}
    while progress.more():
        wide = with_edges(ranks, now)
        now, before = stepped(wide, np.pad(before, ((1, 1), (0, 0), (0, 0))), mine.start, progress.step, n), now
        parts = ranks.all((now, before))
        whole = {name: np.concatenate([part[at] for part in parts]) for at, name in enumerate(("now", "before"))}
        progress.did(whole)
    field = whole["now"]
    progress.answer([f"{field.sum():.12e} {np.square(field).sum():.12e}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
