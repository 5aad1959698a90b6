#!/usr/bin/env python3
"""Jacobi iteration for the heat in a square plate, as a program that GrADS would schedule: it reports its iterations,
saves its state when it is asked to, and goes on from there wherever it is started next.

    jacobi.py N ITERATIONS [--pause SECONDS] [--every K]

The upper edge of an N x N plate is hot. Each K iterations it prints one line: the iteration and a hash over the whole
plate and the hash before, so that two runs that print the same chain did the same work. The last plate's sum goes to
`answer.txt`. It needs Python alone.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import os
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


STATE = "state.bin"
SAVED = 85
"""Exit code of a job that saved its state and stopped."""


def first_plate(n: int) -> array.array[float]:
    plate = array.array("d", bytes(8 * n * n))
    for column in range(n):
        plate[column] = 100.0
    return plate


def swept(plate: array.array[float], n: int) -> array.array[float]:
    """Return the plate after one iteration: each inner point becomes the mean of its four neighbours."""
    out = array.array("d", plate)
    for row in range(1, n - 1):
        at = row * n
        for point in range(at + 1, at + n - 1):
            out[point] = 0.25 * (plate[point - 1] + plate[point + 1] + plate[point - n] + plate[point + n])
    return out


def save(iteration: int, chain: str, plate: array.array[float]) -> None:
    """Write the state under another name first: a part of it is never taken for the whole."""
    with open(STATE + ".new", "wb") as file:
        file.write(f"{iteration} {chain or '-'}\n".encode())
        plate.tofile(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(STATE + ".new", STATE)


def load(n: int) -> tuple[int, str, array.array[float]]:
    with open(STATE, "rb") as file:
        iteration, chain = file.readline().decode().split()
        plate = array.array("d")
        plate.fromfile(file, n * n)
    return int(iteration), "" if chain == "-" else chain, plate


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("iterations", type=int)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each iteration")
    parser.add_argument("--every", type=int, default=1, help="iterations between two printed lines")
    args = parser.parse_args()
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    start = load(args.n) if os.environ.get("DIANA_CHECKPOINT") else (0, "", first_plate(args.n))
    iteration, chain, plate = start
    while iteration < args.iterations:
        plate = swept(plate, args.n)
        iteration += 1
        if iteration % args.every == 0 or iteration == args.iterations:
            chain = hashlib.sha256(chain.encode() + plate.tobytes()).hexdigest()
            print(iteration, chain[:16], os.environ.get("DIANA_SITE", "-"), flush=True)
        report(iteration, args.iterations)
        if args.pause:
            time.sleep(args.pause)
        if asked and iteration < args.iterations:
            save(iteration, chain, plate)
            return SAVED
    with open("answer.txt", "w", encoding="ascii") as file:
        file.write(f"{chain}\n{sum(plate):.9f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
