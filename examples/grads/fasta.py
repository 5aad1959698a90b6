#!/usr/bin/env python3
"""A search for the sequences that are most like a given one, in several databases: a small twin of the FASTA program
that GrADS schedules. Each sequence is looked at for words it has in common with the query, and those with many are
aligned (Smith and Waterman).

    fasta.py DATABASES SEQUENCES [--length LETTERS] [--best COUNT] [--seed SEED] [--pause SECONDS]

There are so many databases of so many sequences each, drawn from the seed. A process searches a share of all sequences,
some in each step. The answer is the same however many processes there are.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from ranks import Progress, Ranks

LETTERS = 4
WORD = 4
"""Letters of a word."""
LEAST_WORDS = 6
"""Words in common along one diagonal for which a sequence is aligned."""
MATCH, MISMATCH, GAP = 5, -4, -7
STEPS = 20


def sequence(seed: int, database: int, number: int, length: int) -> np.ndarray:
    """Return one sequence; every seventh has a piece of the query in it, with errors."""
    chance = np.random.default_rng([seed, database + 1, number])
    letters = chance.integers(0, LETTERS, length, dtype=np.int8)
    if number % 7 == 0:
        piece = query(seed, length)[: int(chance.integers(length // 4, length // 2))].copy()
        wrong = chance.random(len(piece)) < 0.1
        piece[wrong] = chance.integers(0, LETTERS, int(wrong.sum()), dtype=np.int8)
        at = int(chance.integers(0, length - len(piece)))
        letters[at : at + len(piece)] = piece
    return letters


def query(seed: int, length: int) -> np.ndarray:
    return np.random.default_rng([seed, 0]).integers(0, LETTERS, length, dtype=np.int8)


def words(letters: np.ndarray) -> np.ndarray:
    """Return the number of the word that begins at each letter."""
    out = np.zeros(len(letters) - WORD + 1, dtype=np.int64)
    for at in range(WORD):
        out = out * LETTERS + letters[at : at + len(out)]
    return out


def most_on_a_diagonal(one: np.ndarray, other: np.ndarray) -> int:
    """Return the words that both have in common along the best diagonal."""
    rows, columns = np.nonzero(words(one)[:, None] == words(other)[None, :])
    return int(np.bincount(columns - rows + len(one)).max()) if len(rows) else 0


def aligned(one: np.ndarray, other: np.ndarray) -> int:
    """Return the score of the best local alignment, by antidiagonals, all cells of which are free of each other."""
    n, m = len(one), len(other)
    before, last = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    best = 0
    for total in range(2, n + m + 1):
        low, high = max(1, total - m), min(n, total - 1)
        i = np.arange(low, high + 1)
        same = np.where(one[i - 1] == other[total - i - 1], MATCH, MISMATCH)
        cells = np.zeros(n + 1, dtype=np.int64)
        beside = np.maximum(last[i - 1], last[i]) + GAP
        cells[i] = np.maximum(0, np.maximum(before[i - 1] + same, beside))
        best = max(best, int(cells.max()))
        before, last = last, cells
    return best


def searched(some: range, per_database: int, length: int, seed: int) -> np.ndarray:
    """Return rows (score, database, number) of the sequences that are like the query."""
    wanted, found = query(seed, length), []
    for at in some:
        database, number = divmod(at, per_database)
        letters = sequence(seed, database, number, length)
        if most_on_a_diagonal(wanted, letters) >= LEAST_WORDS:
            found.append((aligned(wanted, letters), database, number))
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def best_of(rows: np.ndarray, count: int) -> np.ndarray:
    order = np.lexsort((rows[:, 2], rows[:, 1], -rows[:, 0]))
    return rows[order[:count]]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("databases", type=int)
    parser.add_argument("sequences", type=int)
    parser.add_argument("--length", type=int, default=120)
    parser.add_argument("--best", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each step")
    args = parser.parse_args()
    ranks = Ranks()
    progress = Progress(ranks, STEPS, args.pause)
    best = progress.begun().get("best", np.zeros((0, 3), dtype=np.int64))
    items = args.databases * args.sequences
    while progress.more():
        # A step is a slice of all sequences, of which each process has its share: what is done does not depend on how
        # many there are.
        first, last = items * progress.step // STEPS, items * (progress.step + 1) // STEPS
        mine = ranks.share(items)
        width = len(mine) / items
        before = mine.start / items
        share = range(first + round((last - first) * before), first + round((last - first) * (before + width)))
        parts = ranks.all(searched(share, args.sequences, args.length, args.seed))
        best = best_of(np.concatenate([best, *parts]), args.best)
        progress.did({"best": best})
    progress.answer([f"{score} database {database} sequence {number}" for score, database, number in best.tolist()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
