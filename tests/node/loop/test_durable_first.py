"""Nothing leaves a node before the records that it rests on are durable: the order that lets a gang go among it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.records import GangGo
from diana.engine.messages.messages import Commit
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.node.loop.runner import Runner
from diana.node.loop.store_thread import StoreThread
from diana.ports import Batch

GO = GangGo(group=GroupId("alpha-1"), parts=(), environment=())
COMMIT = Commit(subgroup=SubgroupId("alpha-1/0"), epoch=1, db_uuid="db-beta")


class Engine:
    def deadline(self) -> None:
        return None

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return [fx.Send(SiteId("beta"), COMMIT), fx.Persist(GO)]


class Disk:
    """Its one commit ends when it is told to."""

    def __init__(self, story: list[str]) -> None:
        self.story, self.begun, self.may_end = story, asyncio.Event(), threading.Event()
        self._loop = asyncio.get_running_loop()

    def log_end(self) -> Any:
        return SimpleNamespace(seq=0)

    def commit(self, batch: Batch) -> int:
        self._loop.call_soon_threadsafe(self.begun.set)
        self.may_end.wait()
        self.story.append("durable")
        return len(batch.records)


class Leaving:
    def __init__(self, story: list[str]) -> None:
        self.story, self.over = story, asyncio.Event()

    async def all(self, effects: list[fx.Effect], passage: object = None) -> None:
        if effects:
            self.story.append("sent")
            self.over.set()


async def test_the_order_that_lets_a_gang_go_leaves_after_its_record_is_durable() -> None:
    story: list[str] = []
    disk, leaving = Disk(story), Leaving(story)
    thread = StoreThread(cast("Any", disk))
    runner = Runner(cast("Any", Engine()), thread, cast("Any", SimpleNamespace(now_s=lambda: 1.0)))
    runner._release = cast("Any", leaving)
    running = asyncio.create_task(runner.run())
    try:
        runner.emit_own(ev.Tick())
        await disk.begun.wait()
        assert story == []
        disk.may_end.set()
        await leaving.over.wait()
        assert story == ["durable", "sent"]
    finally:
        disk.may_end.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        thread.close()
