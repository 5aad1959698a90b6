"""Nothing leaves a leader after its lease ran out, however long the way there took (PROMISES section 2, Standby)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.model.facts import FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from diana.model.trust.register import Copy, Register
from diana.node.loop.callers import Callers
from diana.node.loop.release import Adapters, Release
from diana.node.loop.store_thread import StoreThread
from diana.node.pair import replication as module
from diana.ports import Transport
from diana.replica import messages as ms
from diana.replica.machine import Replica
from diana.replica.settings import ReplicaSettings
from tests.node.pair.test_replication import following

BETA = SiteId("beta")
GROUP = GroupId("beta-1")
KEY = FactsKey(GROUP, SubgroupId("beta-1/0"), 1, 0)


class Wire:
    """A transport that notes what was sent while the lease stood, and what was not."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.sent: list[bool] = []

    def send(self, to: SiteId, message: object) -> None:
        self.sent.append(self.lease.stands)


class Lease:
    def __init__(self) -> None:
        self.stands = True
        self.granted = asyncio.Event()

    async def passage(self) -> None:
        while not self.stands:
            self.granted.clear()
            await self.granted.wait()

    def grant(self) -> None:
        self.stands = True
        self.granted.set()


class SlowStore(SqliteStore):
    """A disk that is so slow that the lease runs out while it reads."""

    lease: Lease

    def facts_chunk(self, key: FactsKey) -> Any:
        self.lease.stands = False
        return super().facts_chunk(key)


def adapters(wire: Wire) -> Adapters:
    unused = cast("Any", None)
    transport = cast("Transport", wire)
    names = ("trust", "start_anew", "distrusted", "distrusted_machine", "hand_over", "reach")
    told = dict.fromkeys(names, unused)
    return Adapters(transport=transport, lrm=unused, stager=unused, heed=unused, **told)


@pytest.mark.parametrize("tail", [0, 3])
async def test_a_lease_that_ends_while_results_are_read_holds_up_them_and_all_behind_them(
    tmp_path: Path, tail: int
) -> None:
    store = SlowStore(tmp_path / "journal.db")
    thread = StoreThread(store)
    lease = store.lease = Lease()
    wire = Wire(lease)
    release = Release(SiteId("alpha"), DataDir(tmp_path), thread, Callers(), adapters(wire))
    result = fx.SendResult(BETA, KEY, IndexSet())
    effects: list[fx.Effect] = [
        fx.Persist(records.GroupExpired(group=GROUP)),
        result,
        *([fx.Send(BETA, cast("Any", None))] * tail),
    ]
    leaving = asyncio.create_task(release.all(effects, lease.passage))
    await asyncio.sleep(0.05)
    assert not wire.sent and not leaving.done()
    lease.grant()
    await leaving
    assert wire.sent == [True] * (1 + tail)
    thread.close()
    store.close()


async def test_who_waits_for_a_lease_that_ran_out_unnoticed_is_told_when_it_is_granted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine says only what is new; nothing but the one who asks had noticed the end of this lease."""
    now = [1000.0]
    monkeypatch.setattr(module, "now_s", lambda: now[0])
    async with following(tmp_path, cast("Any", None)) as one:
        one.witness = cast("Any", SilentWitness())
        await asyncio.sleep(0)
        assert one._timer is not None
        one._timer.cancel()
        one.replica = leader(now[0])
        assert one.replica.may_act(now[0], 0)
        now[0] += 6.5
        waiting = asyncio.create_task(one.open(0))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.tell(ms.Received(ack(now[0] - 0.1)))
        async with asyncio.timeout(60):
            await waiting


class SilentWitness:
    async def touch(self, *_: object) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None: ...


MAIN, SPARE = Copy("main", "disk-1"), Copy("spare", "disk-2")


def ack(granted_s: float) -> ms.Ack:
    return ms.Ack(term=1, copy=SPARE, log=ms.Log(), fsynced=0, granted_s=granted_s, beat_last=0)


def leader(now: float) -> Replica:
    """A leader of term 1, in step with its standby, under a lease."""
    register = Register(1, "main", (MAIN, SPARE))
    saved = ms.Saved(term=1, register=register)
    made = Replica(ReplicaSettings(), MAIN, "spare", saved, ms.Log(), now, witness=True, won=register)
    made.handle(ms.LinkUp(), now)
    made.handle(ms.Received(ack(now)), now)
    return made
