"""A follower's journal folded into a snapshot of its own is the state a leader would have (D8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import codec
from diana.model.ids import SiteId
from diana.node.loop.runner import SNAPSHOT_BYTES
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.seed import Compaction, folded
from diana.ports import Batch, Journal
from tests.engine.bench import Grid
from tests.engine.builders import spec


def test_a_fold_of_the_journal_is_the_engines_own_state() -> None:
    grid = Grid(alpha=2, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(20), 20)
    grid.finish()
    told = [codec.encode(record) for record in alpha.records()]
    snapshot, gone = folded(Journal(snapshot=None, seq=len(told), at_s=1.0, records=told), SiteId("alpha"))
    assert snapshot == alpha.engine.snapshot()
    assert gone == []
    half = len(told) // 2
    first, _ = folded(Journal(snapshot=None, seq=half, at_s=1.0, records=told[:half]), SiteId("alpha"))
    second, _ = folded(Journal(snapshot=first, seq=len(told), at_s=1.0, records=told[half:]), SiteId("alpha"))
    assert second == snapshot


async def test_a_fold_of_a_journal_that_was_replaced_meanwhile_ends_quietly(tmp_path: Path) -> None:
    thread = StoreThread(SqliteStore(tmp_path / "old.db"))
    grown = Batch(at_s=1.0, records=(bytes(SNAPSHOT_BYTES + 1),))
    try:
        async with Compaction(thread, "alpha") as compacted:
            await compacted.grown(grown)
            thread.store.close()
            thread.store = SqliteStore(tmp_path / "new.db")
            await asyncio.sleep(0.2)
            await compacted.grown(grown)
            await asyncio.sleep(0.2)
            await compacted.grown(grown)
            assert thread.store.meta("db_uuid")
    finally:
        thread.close()
        thread.store.close()


async def test_a_fold_does_not_outlive_the_store_it_reads(tmp_path: Path) -> None:
    thread = StoreThread(SqliteStore(tmp_path / "journal.db"))
    before = asyncio.all_tasks()
    async with Compaction(thread, "alpha") as compacted:
        await compacted.grown(Batch(at_s=1.0, records=(bytes(SNAPSHOT_BYTES + 1),)))
        assert asyncio.all_tasks() != before
    assert asyncio.all_tasks() == before
    thread.close()
    thread.store.close()
