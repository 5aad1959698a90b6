"""A follower's journal as a whole: replaced by a copy of the leader's, or folded into a snapshot of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Self

from diana.adapters.sqlite_store import seeding
from diana.adapters.tasks import end
from diana.engine.journal import codec, fold, records
from diana.engine.journal.state import SiteState, decode_state, encode_state
from diana.errors import StoreFailed
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.layout import DataDir
from diana.node.loop.runner import SNAPSHOT_BYTES
from diana.node.loop.store_thread import StoreThread
from diana.ports import Batch, Journal, Store


class Seeding:
    """`prepare` what was fetched to `path`, then `install` it in one rename."""

    def __init__(self, paths: DataDir, term: int, kept: Mapping[str, str]) -> None:
        """`kept`: meta that is this machine's own."""
        self._kept = kept
        self.path = paths.root / "journal.db.seed"
        self._journal = paths.journal
        self._term = term

    def prepare(self) -> str:
        """Check it and give it an identity of its own, durably: the new replica_uuid. Blocks; StoreFailed."""
        minted = uuid.uuid4().hex
        seeding.prepare(self.path, {"replica_uuid": minted, **self._kept})
        return minted

    def install(self) -> None:
        """The journal's store is closed. StoreFailed."""
        seeding.install(self._journal, self.path, self._term)


class Compaction:
    """Keeps a follower's journal short while it is entered, by the fold its engine would make."""

    def __init__(self, thread: StoreThread, site: str) -> None:
        self._thread = thread
        self._site = site
        self._grown = 0
        self._folding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """A fold that is under way must not outlive the store it reads."""
        await end(self._folding)

    async def grown(self, batch: Batch) -> None:
        self._grown += sum(map(len, batch.records))
        if self._grown > SNAPSHOT_BYTES and (self._folding is None or self._folding.done()):
            if self._folding is not None:
                self._folding.result()
            self._grown = 0
            self._folding = asyncio.create_task(self._fold(self._thread.store))

    async def _fold(self, store: Store) -> None:
        try:
            await self._shorten(store)
        except StoreFailed:
            # A copy of the leader's may have taken its place meanwhile.
            if store is self._thread.store:
                raise

    async def _shorten(self, store: Store) -> None:
        journal = await self._thread.call(store.load)
        snapshot, gone = await asyncio.to_thread(folded, journal, self._site)
        if store is not self._thread.store:
            return
        await self._thread.call(store.snapshot, snapshot, journal.seq)
        for group in gone:
            await self._thread.call(store.drop_group, group)


def folded(journal: Journal, site: str) -> tuple[bytes, list[GroupId]]:
    """A snapshot of the state after `journal`, and the groups that ended in it: their facts can go."""
    state = decode_state(journal.snapshot) if journal.snapshot is not None else SiteState()
    ended: dict[GroupId, None] = {}
    for stored in journal.records:
        record = codec.decode(stored)
        if isinstance(record, records.GroupExpired):
            ended[record.group] = None
        elif isinstance(record, records.TombstoneExpired):
            ended[group_of(record.subgroup)] = None
        fold.apply(state, record, SiteId(site))
    here = {group_of(part) for part, _ in (*state.tombstones, *state.custodies)}
    return encode_state(state), [name for name in ended if name not in here and name not in state.groups]
