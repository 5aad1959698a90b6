"""The uploads on a machine that follows: each goes once no group in the journal reads it any more.

At a leader the stager's catalogue knows the users of each upload; a follower has no catalogue of its leader's groups,
only the journal, so it asks that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from diana.adapters.tasks import end, keep_up
from diana.engine.journal import codec, records
from diana.engine.journal.state import SiteState, decode_state
from diana.model.ids import GroupId
from diana.model.job.spec import decode_spec
from diana.model.layout import DataDir
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.uploads import blobs_in, submitted_in
from diana.ports import Batch, Journal

UNUSED_S = 86_400.0
"""Seconds an upload stays after it was last asked for, as at a leader: a client may be about to submit a group that
reads it."""
LOOK_EVERY_S = 3600.0
_EXPIRED = records.GroupExpired.__name__.encode()

_log = logging.getLogger("diana.standby")


class FollowerUploads:
    """`start` it, tell it by `heard` what the journal got, and `stop` it before this machine leads."""

    def __init__(
        self, paths: DataDir, thread: StoreThread, unused_s: float = UNUSED_S, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._paths = paths
        self._thread = thread
        self._unused_s = unused_s
        self._wall_s = wall_s
        self._held: dict[GroupId, list[str]] = {}
        self._uses: Counter[str] = Counter()
        self._since: list[Batch] | None = []
        """Heard while the journal is read; None: it was read."""
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the journal, then look around from time to time."""
        if self._looking is not None:
            self._looking.cancel()
        self._looking = keep_up(self._look, "tidying up uploads")

    async def stop(self) -> None:
        """A last look around goes on behind it: what this machine's clients ask for from now on is young."""
        await end(self._looking)
        if self._since is None:
            asyncio.get_running_loop().run_in_executor(None, self._tidy, frozenset(self._uses))

    def heard(self, batch: Batch | None) -> None:
        """None: the journal is another one as a whole."""
        if batch is None:
            self.start()
        elif self._since is not None:
            self._since.append(batch)
        elif gone := self._took(batch):
            asyncio.get_running_loop().run_in_executor(None, self._drop, gone)

    def needed(self, names: Iterable[str]) -> None:
        """Some group is about to be heard of that reads these: those that are here already stay."""
        for name in names:
            with suppress(FileNotFoundError):
                os.utime(self._paths.blob(name))

    # --- who reads what ----------------------------------------------------------------------------------

    async def _look(self) -> None:
        self._since = []
        journal = await self._thread.call(self._thread.store.load)
        held = await asyncio.to_thread(read_by, journal)
        since, self._since = self._since or [], None
        self._held, self._uses = held, Counter(name for names in held.values() for name in names)
        for batch in since:
            self._took(batch)
        while True:
            await asyncio.to_thread(self._tidy, frozenset(self._uses))
            await asyncio.sleep(LOOK_EVERY_S)

    def _took(self, batch: Batch) -> list[str]:
        """Count the batch's uses of uploads. Returns the uploads that nobody reads any more after it."""
        for group, names in submitted_in(batch.records).items():
            if group not in self._held:
                self._held[group] = names
                self._uses.update(names)
        ended = [name for group in expired_in(batch.records) for name in self._held.pop(group, ())]
        self._uses.subtract(ended)
        self._uses = +self._uses
        return sorted(set(ended) - self._uses.keys())

    # --- what goes ---------------------------------------------------------------------------------------

    def _drop(self, names: Iterable[str]) -> None:
        """Blocks."""
        self._remove(self._paths.blob(name) for name in names)

    def _tidy(self, wanted: frozenset[str]) -> None:
        """Remove uploads that are not wanted, half fetched ones too. Blocks."""
        self._remove(path for path in (self._paths.root / "blobs").glob("??/*") if path.name not in wanted)

    def _remove(self, found: Iterable[Path]) -> None:
        for path in found:
            try:
                if self._wall_s() - path.stat().st_mtime >= self._unused_s:
                    path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s: %s; it stays", path, error.strerror)


def read_by(journal: Journal) -> dict[GroupId, list[str]]:
    """The groups that read uploads, and which."""
    state = decode_state(journal.snapshot) if journal.snapshot is not None else SiteState()
    held = {
        name: blobs_in(decode_spec(group.spec_bytes), [ref for ref, _ in group.refs])
        for name, group in state.groups.items()
    }
    held |= submitted_in(journal.records)
    for group in expired_in(journal.records):
        held.pop(group, None)
    return {group: names for group, names in held.items() if names}


def expired_in(stored: Iterable[bytes]) -> list[GroupId]:
    """The groups that are over and forgotten, by these encoded records."""
    found = (codec.decode(one) for one in stored if _EXPIRED in one)
    return [record.group for record in found if isinstance(record, records.GroupExpired)]
