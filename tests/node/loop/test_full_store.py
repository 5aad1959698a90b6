"""The store's thread on a disk without room: it asks for room, waits for it, and says nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from diana.engine.journal import events as ev
from diana.errors import StoreFailed, StoreFull, UsageError
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.node.loop import store_thread
from diana.node.loop.intake import Intake, size_of
from diana.node.loop.store_thread import StoreThread
from diana.sim.twins.store import MemoryStore


class Disk:
    """Takes something once `room` is there."""

    def __init__(self) -> None:
        self.room = self.tries = 0

    def write(self) -> int:
        self.tries += 1
        if not self.room:
            raise StoreFull("the disk is full")
        return self.tries


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> StoreThread:
    monkeypatch.setattr(store_thread, "AGAIN_S", 0.01)
    return StoreThread(MemoryStore(db_uuid="one"))


async def test_what_does_not_fit_is_stored_once_there_is_room(thread: StoreThread) -> None:
    disk, told = Disk(), list[str]()
    thread.on_full = told.append
    storing = asyncio.create_task(thread.once_there_is_room(disk.write))
    async with asyncio.timeout(60):
        while disk.tries < 3:
            await asyncio.sleep(0.01)
    assert told == ["the disk is full"] == [thread.full] and not storing.done()
    disk.room = 1
    assert await storing == disk.tries and told == ["the disk is full", ""] and not thread.full
    thread.close()


async def test_room_that_was_kept_is_given_up_before_anybody_waits(thread: StoreThread) -> None:
    disk, told = Disk(), list[str]()
    thread.on_full = told.append

    def make_room() -> int:
        disk.room = 1
        return 16

    thread.make_room = make_room
    assert await thread.once_there_is_room(disk.write) == 2 and told == []
    thread.close()


async def test_another_fault_of_the_disk_is_never_tried_again(thread: StoreThread) -> None:
    tries = []

    def write() -> None:
        tries.append(1)
        raise StoreFailed("an fsync failed")

    with pytest.raises(StoreFailed):
        await thread.once_there_is_room(write)
    assert len(tries) == 1
    thread.close()


def test_orders_whose_callers_are_told_to_come_again_are_taken_back() -> None:
    intake = Intake()
    users = [Principal(name, Role.USER) for name in ("ann", "bob")]
    for number in range(1, 7):
        intake.push(ev.Ask(request=number, principal=users[number % 2], what="groups"))
        intake.push(ev.Tick())
    intake.push(ev.PeerDown(SiteId("beta")))
    intake.withdraw(lambda event: getattr(event, "request", 0) > 2)
    assert len(intake) == 2 + 6 + 1
    assert intake._bytes == sum(intake._held_bytes.values()) == 2 * size_of(ev.Tick()) + 7 * 500
    kept = intake.take(100)
    assert sorted(getattr(event, "request", 0) for event in kept) == [0] * 7 + [1, 2]
    assert not intake._held_bytes and not intake._bytes and not len(intake)


async def test_nothing_is_told_as_stored_in_files_that_are_not_in_their_place(thread: StoreThread) -> None:
    disk, place = Disk(), list[Exception]()
    disk.room = 1

    def check() -> None:
        if place:
            raise place[0]

    thread.check_place = check
    assert await thread.once_there_is_room(disk.write) == 1
    # What cannot be looked at need not be elsewhere.
    place.append(OSError("just now"))
    assert await thread.once_there_is_room(disk.write) == 2
    place[:] = [UsageError("the journal was moved")]
    with pytest.raises(UsageError):
        await thread.once_there_is_room(disk.write)
    thread.close()
