#!/usr/bin/env python3
"""LU factors of a matrix with partial pivots, right-looking, over columns in blocks that go round the processes: a
small twin of the ScaLAPACK program that GrADS schedules. Each step is shorter than the one before.

    lu.py N [--block COLUMNS] [--seed SEED] [--pause SECONDS]

The process that has the next block factors it and tells the others, who update theirs. Blocks are updated one by one,
so that the answer is the same to the last bit however many processes there are. It ends with the largest residual of
P A = L U.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from ranks import Progress, Ranks


def first_matrix(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((n, n)) - 0.5


def factored(panel: np.ndarray, first: int) -> tuple[np.ndarray, list[int]]:
    """Factor the columns of one block from the row `first` on; return (the panel, the row that each column swapped)."""
    panel, pivots = panel.copy(), []
    for column in range(panel.shape[1]):
        row = first + column
        if row >= len(panel):
            break
        pivot = row + int(np.argmax(np.abs(panel[row:, column])))
        pivots.append(pivot)
        panel[[row, pivot]] = panel[[pivot, row]]
        panel[row + 1 :, column] /= panel[row, column]
        panel[row + 1 :, column + 1 :] -= np.outer(panel[row + 1 :, column], panel[row, column + 1 :])
    return panel, pivots


def swapped(block: np.ndarray, first: int, pivots: list[int]) -> np.ndarray:
    block = block.copy()
    for row, pivot in enumerate(pivots, first):
        block[[row, pivot]] = block[[pivot, row]]
    return block


def updated(block: np.ndarray, panel: np.ndarray, first: int) -> np.ndarray:
    """Return a block right of the panel after the panel's step: its rows swapped already."""
    width = panel.shape[1]
    block = block.copy()
    for row in range(first + 1, min(first + width, len(block))):
        block[row] -= panel[row, : row - first] @ block[first:row]
    block[first + width :] -= panel[first + width :] @ block[first : first + width]
    return block


def owner(at: int, size: int) -> int:
    return at % size


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("--block", type=int, default=16, help="columns of a block")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each step")
    args = parser.parse_args()
    ranks = Ranks()
    starts = list(range(0, args.n, args.block))
    progress = Progress(ranks, len(starts), args.pause)
    saved = progress.begun()
    matrix = saved.get("matrix", first_matrix(args.n, args.seed))
    rows = saved.get("rows", np.arange(args.n))
    mine = [at for at in range(len(starts)) if owner(at, ranks.size) == ranks.rank]
    while progress.more():
        step, first = progress.step, starts[progress.step]
        columns = slice(first, first + args.block)
        found = factored(matrix[:, columns], first) if step in mine else None
        panel, pivots = ranks.all(found)[owner(step, ranks.size)]
        new = {}
        for at in mine:
            own = matrix[:, starts[at] : starts[at] + args.block]
            if at == step:
                new[at] = panel
            else:
                own = swapped(own, first, pivots)
                new[at] = updated(own, panel, first) if at > step else own
        blocks = {at: block for part in ranks.all(new) for at, block in part.items()}
        matrix = np.concatenate([blocks[at] for at in range(len(starts))], axis=1)
        rows = swapped(rows[:, None], first, pivots)[:, 0]
        progress.did({"matrix": matrix, "rows": rows})
    lower, upper = np.tril(matrix, -1) + np.eye(args.n), np.triu(matrix)
    worst = np.abs(first_matrix(args.n, args.seed)[rows] - lower @ upper).max()
    progress.answer([f"residual below 1e-9: {worst < 1e-9}"])
    return 0 if worst < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
