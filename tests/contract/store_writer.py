"""A process that commits to a store as fast as it can and prints each seq once it is durable, until it is killed.

Record n is n as eight bytes, repeated; every tenth batch carries facts, every hundredth is followed by a snapshot.
"""

from __future__ import annotations

import sys
from pathlib import Path

from diana.adapters.sqlite_store.store import SqliteStore
from tests.contract.store_builders import batch, facts, key


def record(seq: int) -> bytes:
    return seq.to_bytes(8, "big") * (1 + seq % 50)


def main(path: str) -> None:
    store = SqliteStore(Path(path))
    seq = store.load().seq
    number = seq
    while True:
        number += 1
        records = [record(seq + 1 + k) for k in range(1 + number % 4)]
        chunk = ((key(batch=seq), facts(seq)),) if number % 10 == 0 else ()
        seq = store.commit(batch(*records, at_s=float(seq), facts=chunk))
        print(f"{seq} {int(bool(chunk))} {seq - len(records)}", flush=True)
        if number % 100 == 0:
            store.snapshot(b"state at %d" % seq, seq)


if __name__ == "__main__":
    main(sys.argv[1])
