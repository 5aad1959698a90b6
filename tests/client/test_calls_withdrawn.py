"""Calls that are taken back, from where they wait and from the node, also when that goes away in the middle of it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from diana.client import GridExecutor
from diana.client.calls import executor, gathering, packing
from diana.client.calls.driving import Driver
from diana.client.calls.gathering import CallGroup, GridFuture, WaitingCalls
from diana.client.calls.withdrawing import Withdrawals
from diana.errors import DianaError, Unreachable, UsageError
from diana.model.indexset import IndexSet
from diana.wire.client.control import CancelHeldResponse
from tests.client.nodelike import InThread

CALL = packing.Call(b"function", b"calls")


class Site:
    """Holds and cancels as a node does: what has `started` runs on. Any thread may call it."""

    def __init__(self, started: set[int] | None = None, *, slow_s: float = 0.0) -> None:
        self.started = started or set()
        self.slow_s = slow_s
        self.held: set[int] = set()
        self.calls: list[tuple[str, str]] = []
        self.away: DianaError | None = None
        """Raised by releases, as long as it is set."""

    def hold(self, target: str) -> None:
        self.calls.append(("hold", target))
        self.held |= self._meant(target)

    def cancel_held(self, target: str, *, release: bool = False) -> CancelHeldResponse:
        self.calls.append(("release" if release else "cancel", target))
        time.sleep(self.slow_s)
        if release and self.away is not None:
            raise self.away
        gone = self.held & self._meant(target) - self.started
        self.held -= self._meant(target) if release else gone
        return CancelHeldResponse(str(IndexSet.of(gone)) if gone else "", 0)

    def _meant(self, target: str) -> set[int]:
        _, _, part = target.partition(".")
        return set(IndexSet.parse(part.strip("[]"))) if part else set(range(100))


def sent(jobs: int, withdraw: Any = lambda future: False) -> tuple[CallGroup, list[GridFuture[Any]]]:
    """A group the node has."""
    group = CallGroup("pow", whole=False)
    futures = [GridFuture[Any](withdraw) for _ in range(jobs)]
    for future in futures:
        group.add(future, CALL)
    group.drop_files()
    group.name = "alpha-1"
    group.sent.set()
    return group, futures


def driver(site: Site, patience_s: float = 5.0) -> Driver:
    return Driver(site, (None, None, None), options={}, python=["python3"], inputs=[], linger_s=60.0,
                  patience_s=patience_s)  # type: ignore[arg-type]  # fmt: skip


def test_room_a_withdrawn_call_took_is_there_for_the_next_and_who_waits_for_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "MOST_BYTES", 100)
    drives = driver(Site())
    # Nothing is ever sent: only the withdrawal makes room.
    monkeypatch.setattr(drives, "_stir", lambda **_: None)
    large = GridFuture[Any](drives.withdraw)
    drives.add(large, packing.Call(b"", b"x" * 200), "pow")
    late = threading.Thread(target=drives.add, args=(GridFuture[Any](drives.withdraw), CALL, "pow"), daemon=True)
    late.start()
    late.join(0.05)
    assert late.is_alive(), "it waits for room"
    assert large.cancel()
    late.join(60)
    assert not late.is_alive()


def test_calls_that_were_withdrawn_leave_no_bytes_behind() -> None:
    waiting = WaitingCalls()
    futures = [GridFuture[Any](waiting.remove) for _ in range(2)]
    waiting.add(futures[0], packing.Call(b"", b"x" * (33 << 20)), "pow", 0.0)
    assert waiting.full and waiting.remove(futures[0]) and not waiting.full and not waiting
    assert not waiting.remove(futures[1])


def test_calls_cancelled_by_many_threads_go_together_and_each_learns_its_own() -> None:
    group, futures = sent(40)

    class Slow(Site):
        """Answers the first call when all others wait for the second."""

        def cancel_held(self, target: str, *, release: bool = False) -> CancelHeldResponse:
            end_s = time.monotonic() + 60
            while not self.calls and len(self._meant(target)) + self._waiting() < 40 and time.monotonic() < end_s:
                time.sleep(0.01)
            return super().cancel_held(target, release=release)

        def _waiting(self) -> int:
            waiting = withdrawals._next.get(group)
            return len(waiting.indices) if waiting else 0

    site = Slow({3, 4})
    withdrawals = Withdrawals(site, 600.0)  # type: ignore[arg-type]
    with ThreadPoolExecutor(40) as threads:
        found = list(threads.map(lambda index: withdrawals.one(group, index), range(len(futures))))
    assert [index for index, gone in enumerate(found) if not gone] == [3, 4]
    assert len([call for call, _ in site.calls if call == "hold"]) <= 2 and not site.held


def test_callbacks_in_the_drivers_own_thread_never_wait_and_their_calls_end_when_the_site_has_said_so() -> None:
    site = Site({3})

    async def go() -> None:
        drives = driver(site, patience_s=600.0)
        drives._thread, drives._tasks = threading.current_thread(), set()
        group, futures = sent(50, drives.withdraw)
        group.sent.clear()
        drives._groups.add(group)
        # It is this thread that would send them: to wait for that is to wait for ever.
        assert not any(future.cancel() for future in futures[:20])
        drives.close(cancel=True)
        assert not site.calls
        group.sent.set()
        async with asyncio.timeout(60):
            while drives._tasks:
                await asyncio.sleep(0.01)
        assert [index for index, future in enumerate(futures) if not future.cancelled()] == [3]
        assert len(site.calls) <= 7

    asyncio.run(go())


def test_a_release_that_did_not_arrive_is_told_again() -> None:
    site = Site({0})
    site.away = Unreachable("the node went away")
    group, futures = sent(1)
    threading.Timer(0.4, lambda: setattr(site, "away", None)).start()
    assert not Withdrawals(site, 5.0).one(group, 0)  # type: ignore[arg-type]
    assert not site.held and not futures[0].done()


def test_a_release_that_never_arrives_fails_the_calls_that_may_be_held_with_the_mend() -> None:
    site = Site({0})
    site.away = Unreachable("the node went away")
    group, futures = sent(3)
    withdrawals = Withdrawals(site, 0.3)  # type: ignore[arg-type]
    assert not withdrawals.one(group, 0)
    with pytest.raises(DianaError, match=r"pow as alpha-1\.0 .*\(the node went away\).*: diana release alpha-1$"):
        futures[0].result(0)
    assert not futures[1].done() and not futures[2].done(), "of these nobody asked anything"


def test_a_node_that_does_not_know_the_call_is_asked_to_hold_nothing() -> None:
    class Older(Site):
        def cancel_held(self, target: str, *, release: bool = False) -> CancelHeldResponse:
            raise UsageError("call 'CancelHeld': this node does not know it; its release may be older than yours")

    site = Older()
    group, futures = sent(2)
    assert not Withdrawals(site, 5.0).one(group, 0)  # type: ignore[arg-type]
    assert not site.calls and not futures[0].done()


def test_the_last_result_that_does_not_come_in_time_has_its_call_withdrawn() -> None:
    abandoned: list[CallGroup] = []

    class Drives:
        def abandon(self, group: CallGroup) -> None:
            abandoned.append(group)

    group, futures = sent(1)
    with pytest.raises(TimeoutError):
        next(executor._results(Drives(), [group], futures, None, time.monotonic()))  # type: ignore[arg-type]
    assert abandoned == [group]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


class OnFullDisk(packing.Payload):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file.close()
        self._file = open("/dev/full", "wb")  # noqa: SIM115


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_folder_behind_whenever_it_is_met(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(packing, "open", full, raising=False)
        with pytest.raises(OSError, match="No space left"):
            CallGroup("pow", whole=True)
    assert not list(folder.iterdir())
    monkeypatch.setattr(gathering, "Payload", OnFullDisk)
    waiting = WaitingCalls()
    future = GridFuture[Any](waiting.remove)
    waiting.add(future, CALL, "pow", 0.0)
    with pytest.raises(OSError, match="No space left"):
        waiting.group()
    assert not list(folder.iterdir()) and waiting, "its futures are told by whoever asked for the group"


def test_a_map_on_a_full_disk_is_refused_with_the_mend(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "Payload", OnFullDisk)
    with InThread(tmp_path / "alpha"), GridExecutor(tmp_path / "alpha") as executes:
        with pytest.raises(UsageError, match=f"{folder}: No space left on device; make room, or set TMPDIR"):
            executes.map(pow, [2], [3])
        with pytest.raises(UsageError, match="make room, or set TMPDIR"):
            executes.submit(pow, 2, 3).result(60)
    assert not list(folder.iterdir())
