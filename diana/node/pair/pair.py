"""A machine's own record of its pair (`replica.json`, beside its journal), and its words to the other one."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

import msgspec

from diana.adapters.replica_link.saved import DurableFile
from diana.bounds import decoded
from diana.node.loop.store_thread import StoreThread
from diana.node.old_copies import NO_GROUP_GONE, keep_lost
from diana.ports import Store, call_restored
from diana.replica import messages as ms

REPLICATED = "replicated"
"""Meta of a journal that two machines keep: "1"; where one machine keeps it alone: empty."""


_LOST_ITS_END = "lost its end; until it has the other machine's copy it leads by diana site promote --force only"
_log = logging.getLogger("diana.standby")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """`replica.json`."""

    other: str
    """Name of the other machine."""
    saved: ms.Saved
    witness: str = ""
    """SITE@HOST:PORT; empty: none, and roles change by an operator's command only."""
    address: str = ""
    """host:port of the other machine, as it told last."""
    lacks: tuple[str, ...] = ()
    """Uploads that groups in this journal read and that did not come with them: until they are here this copy counts
    for nothing."""


class SeedReady(msgspec.Struct, frozen=True, tag=True):
    """Leader to follower: fetch a copy of the whole journal."""

    term: int
    to: str


class SeedOver(msgspec.Struct, frozen=True, tag=True):
    """Follower to leader: that has ended, well or not."""

    to: str


Said = ms.Beat | ms.Append | ms.Ack | ms.Refused | ms.HandedOver | SeedReady | SeedOver
encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Said] = msgspec.msgpack.Decoder(Said).decode


def decode(data: bytes) -> Said:
    """ValueError for what is none."""
    return decoded(_decode, data)


def now_s() -> float:
    """A clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def log_of(store: Store) -> ms.Log:
    end = store.log_end()
    starts = tuple(ms.TermStart(start.first_seq, start.term) for start in end.starts)
    return ms.Log(end.seq, starts[-ms.MOST_STARTS :], len(starts) > ms.MOST_STARTS, store.meta("db_uuid"))


def make_consistent(pair: Pair, file: DurableFile[Pair], thread: StoreThread) -> Pair:
    """Write what brings journal and `replica.json` together; the latter as it is then. StoreFailed. A journal that was
    replicated beside a `replica.json` that does not know, or the other way round, is another disk than the one the
    register counts on: it begins anew. So is one that lost its end: what it lacks was told, and the other machine may
    have it."""
    store, saved = thread.store, pair.saved
    fresh = saved.founder and saved.term == 0 and saved.register is None
    forgot = saved == ms.Saved()
    shorter = store.standing() == "older"
    if shorter and fresh:
        # No other machine has anything yet: as for a journal that one machine keeps.
        call_restored(store, uuid.uuid4().hex)
        keep_lost(store, 0, NO_GROUP_GONE)
    elif shorter:
        _log.warning("the journal lost its end; this machine leads by an operator's word only, see docs/standby.md")
        keep_lost(store, 0, _LOST_ITS_END)
    if forgot or shorter or not store.meta(REPLICATED):
        if not fresh:
            store.set_meta("replica_uuid", uuid.uuid4().hex)
            if saved.founder:
                pair = msgspec.structs.replace(pair, saved=msgspec.structs.replace(saved, founder=False))
                file.write(pair)
        store.set_meta(REPLICATED, "1")
    return pair
