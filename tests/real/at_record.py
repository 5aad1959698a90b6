"""`python -m tests.real.at_record RECORD before|after SIGNAL FILE WORDS...` is `diana WORDS`, and gives itself a signal
at one instant: just before or just after the first record of that kind is durable, when nothing that rests on it has
left. FILE says that it was given: it is given once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main(record: str, when: str, word: str, said: str, *words: str) -> int:
    from diana.adapters.sqlite_store.store import SqliteStore
    from diana.cli.main import main as diana
    from diana.engine.journal import codec
    from diana.ports import Batch

    commit = SqliteStore.commit

    def signalled(store: SqliteStore, batch: Batch) -> int:
        found = any(type(codec.decode(one)).__name__ == record for one in batch.records)
        if found and when == "before":
            _give()
        seq = commit(store, batch)
        if found and when == "after":
            _give()
        return seq

    def _give() -> None:
        if not os.path.exists(said):
            Path(said).touch()
            os.kill(os.getpid(), signal.Signals[word])

    SqliteStore.commit = signalled  # type: ignore[method-assign]
    return diana(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
