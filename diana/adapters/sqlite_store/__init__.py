"""The durable store of a site: journal, snapshot, facts and meta in one SQLite file. Batches of records and chunks of
facts come in and are durable when `commit` returns; a restart reads snapshot and records back, or is told that the file
is damaged or newer than this release. Three things that change for different reasons live here: the store itself, the
schema with the one place where older files are upcast, and the reading of a write-ahead log that tells a torn tail from
damage. Read `store.py` first, then `schema.py` and `wal.py`."""
