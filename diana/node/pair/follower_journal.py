"""The journal of a machine that follows: the leader's transactions entered in order, each with the uploads its groups
read, or a copy of the leader's whole journal in place of its own.

Nothing here waits without end for a leader: a fetch from one that is gone is given up, because a takeover needs all
that came to be on this disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from diana.errors import StoreFailed, Unreachable
from diana.model.layout import DataDir
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.pair import Pair, Said, SeedOver, SeedReady, log_of, now_s
from diana.node.pair.seed import Compaction, Seeding
from diana.node.pair.shelf import KEPT_BYTES, unpacked
from diana.node.pair.uploads import blobs_of
from diana.ports import Batch, Store
from diana.replica import messages as ms
from diana.replica.machine import Replica

if TYPE_CHECKING:
    from diana.adapters.replica_link.seeds import SeedFetcher

WAITING_BYTES = 2 * KEPT_BYTES
"""Bytes of transactions that wait for this disk; more than a leader keeps at hand, so that a follower so far behind is
seeded."""
BLOBS_S = 10.0
"""Seconds in which uploads are asked for again before the stream is ended: a leader waits for them as long as it
stands."""
AGAIN_S = 0.2
OWN_META = ("audit_head",)
"""Meta of the machine, not of the journal: a seed does not replace it."""
NOT_TAKEN = {"restored_from": ""}
"""Meta blanked in a seed: an order for the leader's next start is the leader's alone and would be done twice here."""

_log = logging.getLogger("diana.standby")


class ReplicaHost(Protocol):
    """The replication, as far as the journal of the machine that follows needs it."""

    site: str
    thread: StoreThread
    pair: Pair
    replica: Replica
    other_address: str

    @property
    def other_up_now(self) -> bool: ...
    def follows_on(self, stream: int) -> bool: ...
    def tell(self, event: ms.Event) -> None: ...
    def say(self, message: Said) -> None: ...
    def save_pair(self, pair: Pair) -> None: ...
    def end_stream(self) -> None: ...


class FollowerJournal:
    """`run` it. `reopen` opens the journal anew after a seed took its place."""

    def __init__(
        self,
        of: ReplicaHost,
        paths: DataDir,
        fetcher: SeedFetcher,
        reopen: Callable[[], Store],
        most_bytes: int = WAITING_BYTES,
    ) -> None:
        self.stored: Callable[[Batch | None], None] = lambda batch: None
        """Told what was added; None: it is another journal as a whole."""
        self.fetching: Callable[[list[str]], None] = lambda wanted: None
        """Told which uploads are about to be needed."""
        self._of = of
        self._paths = paths
        self._fetcher = fetcher
        self._reopen = reopen
        self._most_bytes = most_bytes
        self._waiting: deque[ms.Append] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        self._one_seed = asyncio.Lock()

    # --- transactions ----------------------------------------------------------------------------------

    def keep(self, entry: ms.Append) -> None:
        self._waiting.append(entry)
        self._waiting_bytes += len(entry.payload)
        self._came.set()

    def dropped(self) -> int | None:
        """Drop all that waits if the disk does not keep up; returns the seq before it. None: the disk keeps up."""
        if self._waiting_bytes <= self._most_bytes:
            return None
        after = self._waiting[0].after
        _log.warning("this disk does not keep up with the leader: %d transactions are dropped", len(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = 0
        return after

    async def run(self) -> None:
        """Enter transactions until cancelled; raises StoreFailed."""
        thread = self._of.thread
        async with Compaction(thread, self._of.site) as compacted:
            while True:
                while not self._waiting:
                    self._came.clear()
                    await self._came.wait()
                entry = self._waiting.popleft()
                self._waiting_bytes -= len(entry.payload)
                batch = unpacked(entry.payload, entry.of_term)
                await self._bring_blobs(batch)
                seq = await thread.call(thread.store.commit, batch)
                if seq != entry.seq:
                    raise StoreFailed(f"{self._paths.journal}: record {seq}, the leader has {entry.seq}; see the log")
                self._of.tell(ms.Fsynced(seq))
                self.stored(batch)
                await compacted.grown(batch)

    # --- uploads ---------------------------------------------------------------------------------------

    async def _bring_blobs(self, batch: Batch) -> None:
        """Fetch the uploads that the batch's groups read: they must be here before the group counts as kept here."""
        wanted, until_s = blobs_of(batch), now_s() + BLOBS_S
        if wanted:
            self.fetching(wanted)
        while wanted and self._of.other_address:
            try:
                await _while(self._led, self._fetcher.blobs(self._of.other_address, wanted))
                return
            except Unreachable as error:
                _log.info("%s", error)
                if not self._led() or now_s() > until_s:
                    # The entry must not hold up a takeover, nor count for the leader without them.
                    lacks = sorted({*self._of.pair.lacks, *wanted})
                    self._of.save_pair(msgspec.structs.replace(self._of.pair, lacks=tuple(lacks)))
                    self._of.end_stream()
                    return
                await asyncio.sleep(AGAIN_S)

    def _led(self) -> bool:
        """True if the leader may be waited for: linked, and the lease it was granted may stand."""
        return self._of.other_up_now and now_s() < self._of.replica.grant_until_s

    async def make_whole(self, stream: int) -> None:
        """Fetch what is lacking, for as long as the stream stands and this machine follows."""

        def stands() -> bool:
            return self._of.follows_on(stream)

        while stands() and (lacks := self._of.pair.lacks):
            try:
                await _while(stands, self._fetcher.blobs(self._of.other_address, lacks))
                self._of.save_pair(msgspec.structs.replace(self._of.pair, lacks=()))
            except Unreachable as error:
                _log.info("%s", error)
                await asyncio.sleep(AGAIN_S)

    # --- the whole -------------------------------------------------------------------------------------

    async def seed(self, ready: SeedReady, stream: int) -> None:
        """Fetch the leader's journal and put it in the place of this one, if it is still wanted then."""
        async with self._one_seed:
            try:
                if self._wanted(ready):
                    await self._fetch(ready, lambda: self._of.follows_on(stream))
            except Unreachable as error:
                _log.info("%s", error)
            finally:
                self._of.say(SeedOver(ready.to))

    def _wanted(self, ready: SeedReady) -> bool:
        replica = self._of.replica
        return replica.may_seed(ready.term) and ready.to == replica.me.replica_uuid

    async def _fetch(self, ready: SeedReady, stands: Callable[[], bool]) -> None:
        of, thread = self._of, self._of.thread
        kept = {**NOT_TAKEN, **{key: thread.store.meta(key) for key in OWN_META}}
        seeding = Seeding(self._paths, ready.term, kept)
        try:
            await _while(stands, self._fetcher.seed(of.other_address, seeding.path))
            await _while(stands, self._bring_all())
            replica_uuid = await asyncio.to_thread(seeding.prepare)
            # From here to the end nothing else may happen to the machine.
            if self._wanted(ready):
                thread.watch(False)
                thread.store.close()
                seeding.install()
                thread.store = self._reopen()
                thread.watch(True)
                _log.info("the journal is a copy of %s's now", of.pair.other)
                of.tell(ms.Seeded(replica_uuid, log_of(thread.store)))
                self.stored(None)
        finally:
            seeding.path.unlink(missing_ok=True)

    async def _bring_all(self) -> None:
        address = self._of.other_address
        names = list(await self._fetcher.names(address))
        self.fetching(names)
        await self._fetcher.blobs(address, names)


async def _while(stands: Callable[[], bool], doing: Awaitable[None]) -> None:
    """Await `doing`; Unreachable once nothing stands any more that it is done for."""
    task = asyncio.ensure_future(doing)
    try:
        while not task.done():
            if not stands():
                raise Unreachable("the other machine is gone: what was being fetched from it is given up")
            await asyncio.wait((task,), timeout=AGAIN_S)
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
