#!/usr/bin/env python3
"""Jacobi iteration as `jacobi.py` does it, by processes at several machines that need each other at each iteration. It
is stopped at a checkpoint and goes on from there with another number of processes: its iterations continue, and it
gives the answer, and prints the chain, of one process.

    jacobi_ranks.py N ITERATIONS [--pause SECONDS]

The first process that is asked to save stops all, after the same iteration. Each saves its rows in `plate.RANK.bin`;
a restart finds the files of all, and divides the rows anew. It needs Python alone.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import os
import signal
import sys
import time
from glob import glob
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

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


SAVED = 85
"""Exit code of a component that saved its state and stopped with the others."""
PATIENCE_S = 60.0
Rows = dict[int, array.array]


class Ranks:
    """The processes of one gang, which talk by way of the first. What they say is trusted once it shows the gang's
    token."""

    def __init__(self) -> None:
        told = os.environ.get
        self.rank, self.size = int(told("DIANA_GANG_RANK", "0")), int(told("DIANA_GANG_SIZE", "1"))
        self._first: Connection | None = None
        self._others: list[Connection] = []
        """Those that the first process hears, by rank."""
        host, port = told("DIANA_GANG_HOSTS", "127.0.0.1").split(",")[0], int(told("DIANA_GANG_PORT", "0"))
        token = told("DIANA_GANG_TOKEN", "").encode()
        if self.rank:
            self._first = _dialled(host, port, token)
            self._first.send(self.rank)
        elif self.size > 1:
            with Listener(("0.0.0.0", port), backlog=self.size, authkey=token) as door:
                came = [door.accept() for _ in range(self.size - 1)]
            self._others = [came[at] for _, at in sorted((one.recv(), at) for at, one in enumerate(came))]

    def all(self, mine: Any) -> list[Any]:
        """Return what each process says, by rank."""
        if self._first is not None:
            self._first.send(mine)
            said: list[Any] = self._first.recv()
            return said
        said = [mine, *(one.recv() for one in self._others)]
        for one in self._others:
            one.send(said)
        return said


def _dialled(host: str, port: int, token: bytes) -> Connection:
    by_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Client((host, port), authkey=token)
        except (ConnectionError, EOFError, OSError):
            if time.monotonic() > by_s:
                raise
            time.sleep(0.1)


def first_plate(n: int) -> array.array:
    plate = array.array("d", bytes(8 * n * n))
    for column in range(n):
        plate[column] = 100.0
    return plate


def save(rank: int, iteration: int, chain: str, rows: Rows) -> None:
    """Write this process's rows under another name first: a part of a file is never taken for the whole."""
    path = f"plate.{rank}.bin"
    with open(path + ".new", "wb") as file:
        first = min(rows, default=0)
        file.write(f"{iteration} {chain} {first} {len(rows)}\n".encode())
        for at in sorted(rows):
            rows[at].tofile(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def load(n: int) -> tuple[int, str, array.array]:
    """Return the plate from the files of all processes that saved it, however many they were. ValueError where they are
    not of one iteration, or lack a row."""
    plate, found, heads = array.array("d", bytes(8 * n * n)), set[int](), set[tuple[str, str]]()
    for path in glob("plate.*.bin"):
        with open(path, "rb") as file:
            iteration, chain, first, count = file.readline().decode().split()
            heads.add((iteration, chain))
            for row in range(int(first), int(first) + int(count)):
                values = array.array("d")
                values.fromfile(file, n)
                plate[row * n : (row + 1) * n] = values
                found.add(row)
    if len(heads) != 1 or found != set(range(n)):
        raise ValueError(f"half a checkpoint: {len(found)} of {n} rows, of {len(heads)} iterations")
    ((iteration, chain),) = heads
    return int(iteration), chain, plate


def swept(plate: array.array, n: int, mine: range) -> Rows:
    """Return this process's rows after one iteration."""
    out: Rows = {}
    for row in mine:
        at = row * n
        values = array.array("d", plate[at : at + n])
        for column in range(1, n - 1) if 0 < row < n - 1 else ():
            point = at + column
            values[column] = 0.25 * (plate[point - 1] + plate[point + 1] + plate[point - n] + plate[point + n])
        out[row] = values
    return out


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("iterations", type=int)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each iteration")
    args = parser.parse_args()
    asked: list[bool] = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    ranks, n = Ranks(), args.n
    iteration, chain, plate = load(n) if os.environ.get("DIANA_CHECKPOINT") else (0, "", first_plate(n))
    mine = range(n * ranks.rank // ranks.size, n * (ranks.rank + 1) // ranks.size)
    while iteration < args.iterations:
        said = ranks.all((swept(plate, n, mine), bool(asked)))
        for rows, _ in said:
            for row, values in rows.items():
                plate[row * n : (row + 1) * n] = values
        iteration += 1
        chain = hashlib.sha256(chain.encode() + plate.tobytes()).hexdigest()
        if ranks.rank == 0:
            print(iteration, chain[:16], ranks.size, flush=True)
        report(iteration, args.iterations)
        if args.pause:
            time.sleep(args.pause)
        if any(stops for _, stops in said) and iteration < args.iterations:
            save(ranks.rank, iteration, chain, {row: plate[row * n : (row + 1) * n] for row in mine})
            return SAVED
    if ranks.rank == 0:
        with open("answer.txt", "w", encoding="ascii") as file:
            file.write(f"{chain}\n{sum(plate):.9f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
