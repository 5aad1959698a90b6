#!/usr/bin/env python3
"""Conway's Game of Life on a torus, as a program that GrADS would schedule: it reports its generations, saves the board
when it is asked to, and goes on from there wherever it is started next.

    life.py N GENERATIONS [--seed SEED] [--pause SECONDS]

Each generation prints its number, the living cells, and a hash over the board and the hash before. The last line goes
to `answer.txt`. It needs Python alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import time

try:
    from diana import report
except ImportError:  # a machine whose Python has no diana: the same by hand

    def report(done: float, total: float) -> bool:
        path = os.environ.get("DIANA_REPORT", "")
        if path:
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(f"{done}/{total}")
            os.replace(f"{path}.new", path)
        return bool(path)


STATE = "board.txt"
SAVED = 85


def first_board(n: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choice("#..") for _ in range(n)) for _ in range(n)]


def next_board(board: list[str]) -> list[str]:
    n = len(board)
    out = []
    for row in range(n):
        above, here, below = board[row - 1], board[row], board[(row + 1) % n]
        cells = []
        for column in range(n):
            left, right = column - 1, (column + 1) % n
            near = sum(line[k] == "#" for line in (above, here, below) for k in (left, column, right))
            near -= here[column] == "#"
            cells.append("#" if near == 3 or (near == 2 and here[column] == "#") else ".")
        out.append("".join(cells))
    return out


def save(generation: int, chain: str, board: list[str]) -> None:
    with open(STATE + ".new", "w", encoding="ascii") as file:
        file.write("\n".join([f"{generation} {chain or '-'}", *board]))
        file.flush()
        os.fsync(file.fileno())
    os.replace(STATE + ".new", STATE)


def load() -> tuple[int, str, list[str]]:
    with open(STATE, encoding="ascii") as file:
        head, *board = file.read().split("\n")
    generation, chain = head.split()
    return int(generation), "" if chain == "-" else chain, board


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("generations", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each generation")
    args = parser.parse_args()
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    generation, chain, board = load() if os.environ.get("DIANA_CHECKPOINT") else (0, "", first_board(args.n, args.seed))
    line = ""
    while generation < args.generations:
        board = next_board(board)
        generation += 1
        chain = hashlib.sha256(f"{chain}{board}".encode()).hexdigest()
        line = f"{generation} {sum(row.count('#') for row in board)} {chain[:16]}"
        print(line, os.environ.get("DIANA_SITE", "-"), flush=True)
        report(generation, args.generations)
        if args.pause:
            time.sleep(args.pause)
        if asked and generation < args.generations:
            save(generation, chain, board)
            return SAVED
    with open("answer.txt", "w", encoding="ascii") as file:
        file.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
