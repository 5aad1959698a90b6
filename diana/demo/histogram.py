#!/usr/bin/env python3
"""The job's program: histogram of the invariant mass of muon pairs.

    histogram.py EVENTS OUT.json

It travels to the sites as a file and runs there by itself, so it takes nothing but the standard library.
EVENTS: 8 bytes `DIANAEV1`, then per event eight little-endian float32 (E, px, py, pz of each muon, GeV).
OUT.json: {"low", "high", "bins", "events", "counts"}; pairs outside [low, high) are in `events` only.
"""

from __future__ import annotations

import array
import json
import math
import sys

MAGIC = b"DIANAEV1"
LOW, HIGH, BINS = 20.0, 140.0, 240
PER_GEV = 2.0
"""Bins per GeV; a power of two, so that multiplying by it rounds nothing."""


def read_events(path: str) -> array.array[float]:
    """All numbers of the file, eight per event; ValueError for a file of another kind."""
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path}: no event file")
        numbers = array.array("f")
        numbers.frombytes(file.read())
    if len(numbers) % 8:
        raise ValueError(f"{path}: ends within an event")
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def count_masses(numbers: array.array[float]) -> list[int]:
    """Counts per bin of m = sqrt(E^2 - p^2), in double precision, one rounding per operation as written."""
    counts = [0] * BINS
    sqrt = math.sqrt
    values = iter(numbers)
    for e1, x1, y1, z1, e2, x2, y2, z2 in zip(*[values] * 8, strict=True):
        e = e1 + e2
        x = x1 + x2
        y = y1 + y2
        z = z1 + z2
        square = e * e - (x * x + y * y + z * z)
        if square > 0.0:
            mass = sqrt(square)
            if LOW <= mass < HIGH:
                counts[int((mass - LOW) * PER_GEV)] += 1
    return counts


def main(events: str, out: str) -> None:
    numbers = read_events(events)
    result = {
        "low": LOW,
        "high": HIGH,
        "bins": BINS,
        "events": len(numbers) // 8,
        "counts": count_masses(numbers),
    }
    with open(out, "w", encoding="ascii") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
