"""The durable store of a site: journal, snapshot, facts and meta in one SQLite file.

A package, because three things that change for different reasons live here: the store itself (`store`), the
schema with the one place where older files are upcast (`schema`), and the reading of a write-ahead log that tells
a torn tail from damage (`wal`).
"""

from diana.adapters.sqlite_store.store import SqliteStore

__all__ = ["SqliteStore"]
