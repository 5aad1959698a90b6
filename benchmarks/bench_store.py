"""Commits per second of the durable store against bare SQLite and bare fsync, all in the same run.

    python -m benchmarks.bench_store [--seconds 1.0] [--rounds 3] [--json FILE]

What is judged is the ratio: absolute figures follow the disk. `bare sqlite` is the least a durable insert costs from
Python (WAL, FULL, one row per transaction); the store adds checksums, packing and its guards.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from diana.adapters.sqlite_store.store import SqliteStore
from diana.ports import Batch

RECORD = b"x" * 200
BATCHES = (1, 100, 10_000)


def rate(step: Callable[[], None], seconds: float) -> float:
    """Steps per second, after a short warm-up."""
    for _ in range(5):
        step()
    count, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        step()
        count += 1
    return count / passed


def bare_fsync(folder: Path) -> Callable[[], None]:
    fd = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step() -> None:
        os.write(fd, RECORD)
        os.fsync(fd)

    return step


def bare_sqlite(folder: Path, rows: int) -> Callable[[], None]:
    connection = sqlite3.connect(folder / f"bare-{rows}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE journal (seq INTEGER PRIMARY KEY, record BLOB)")
    values = [(RECORD,)] * rows

    def step() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO journal (record) VALUES (?)", values)
        connection.execute("COMMIT")

    return step


def our_store(folder: Path, rows: int) -> Callable[[], None]:
    (folder / f"ours-{rows}").mkdir()
    store = SqliteStore(folder / f"ours-{rows}" / "journal.db")
    batch = Batch(at_s=1.0, records=(RECORD,) * rows)

    def step() -> None:
        store.commit(batch)

    return step


def load_rate(folder: Path, records: int) -> float:
    """Records loaded per second, committed in transactions of 100."""
    path = folder / "load.db"
    store = SqliteStore(path)
    batch = Batch(at_s=1.0, records=(RECORD,) * 100)
    for _ in range(records // 100):
        store.commit(batch)
    store.close()
    began = time.perf_counter()
    store = SqliteStore(path)
    assert len(store.load().records) == records
    passed = time.perf_counter() - began
    store.close()
    return records / passed


def measure(seconds: float, rounds: int) -> dict[str, float]:
    samples: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            samples.setdefault("bare_fsync_per_s", []).append(rate(bare_fsync(folder), seconds))
            for rows in BATCHES:
                # Taken in turns, so that a neighbour's load falls on both.
                samples.setdefault(f"bare_sqlite_{rows}_per_s", []).append(rate(bare_sqlite(folder, rows), seconds))
                samples.setdefault(f"store_{rows}_per_s", []).append(rate(our_store(folder, rows), seconds))
            samples.setdefault("load_records_per_s", []).append(load_rate(folder, 200_000))
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.seconds, options.rounds)
    print(f"{'transactions of':>16} {'store/s':>10} {'bare sqlite/s':>14} {'ratio':>6} {'records/s':>12}")
    for rows in BATCHES:
        ours, bare = found[f"store_{rows}_per_s"], found[f"bare_sqlite_{rows}_per_s"]
        print(f"{rows:>16,} {ours:>10,.0f} {bare:>14,.0f} {ours / bare:>6.2f} {ours * rows:>12,.0f}")
    print(f"bare fsync {found['bare_fsync_per_s']:,.0f}/s; loading {found['load_records_per_s']:,.0f} records/s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
