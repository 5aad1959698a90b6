"""A fault of ours never ends in silence: it stands in the log, and what waited for the work is told (SPEC D8)."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from diana.adapters import tasks
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.lrm import SubGridLrm
from diana.engine.journal.effects import KillRuns, RenewLease, Start
from diana.engine.journal.events import Event, JobsEnded, Run
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.layout import DataDir
from tests.contract.lrm_builders import RealSite, shell

ALPHA = SiteId("alpha")
PART = SubgroupId("alpha-1/0")


class Bug(Exception):
    """Nobody foresaw it."""


def critical(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL]


# --- tasks nobody awaits -------------------------------------------------------------------------------------


async def test_work_that_is_to_go_on_begins_anew_after_a_fault_and_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "FIRST_PAUSE_S", 0.01)
    faults: list[BaseException] = [Bug(), asyncio.CancelledError()]
    runs: list[int] = []
    on = asyncio.Event()

    async def work() -> None:
        runs.append(1)
        if faults:
            raise faults.pop()
        on.set()
        await asyncio.Event().wait()

    task = tasks.keep_up(work, "the clock")
    async with asyncio.timeout(60):
        await on.wait()
    assert len(runs) == 3 and len(critical(caplog)) == 2
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and len(critical(caplog)) == 2


async def test_a_task_that_does_not_hear_it_the_first_time_is_told_to_end_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """grpc's calls swallow a cancellation while they are begun."""
    monkeypatch.setattr(tasks, "TOLD_AGAIN_S", 0.01)
    told: list[int] = []

    async def deaf() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append(1)
                if len(told) > 3:
                    raise Bug from None

    async def over() -> None: ...

    some = [asyncio.create_task(work) for work in (deaf(), over(), asyncio.Event().wait())]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await tasks.end(*some, None)
    assert all(task.done() for task in some) and len(told) == 4


async def test_a_fault_of_work_begun_once_stands_in_the_log_though_its_task_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise Bug

    task = tasks.begin(work(), "a look")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert critical(caplog) == ["a look failed on a fault of ours"]


# --- orders to the spawner -----------------------------------------------------------------------------------


async def test_a_fault_at_the_orders_has_the_spawner_greeted_anew_and_later_orders_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = RealSite(tmp_path)
    await site.up()

    def broken(*_: object) -> None:
        raise Bug

    with monkeypatch.context() as patch:
        patch.setattr(site.lrm, "_hand_on", broken)
        site.start(shell("true", stdout="out.txt"), 0)
        await site.until(lambda: site.losses() == 1 and site.readies() == 2)
    assert site.ready().known == () and critical(caplog)
    site.start(shell("true", stdout="out.txt"), 0)
    await site.ended(1)
    await site.down()


async def test_jobs_that_cannot_be_prepared_on_a_fault_end_and_others_behind_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = RealSite(tmp_path)
    await site.up()
    prepare = site.lrm._preparer.prepare

    def sick(order: Start, renderer: Any, indices: list[int]) -> Any:
        if indices == [0]:
            raise Bug("sick")
        return prepare(order, renderer, indices)

    monkeypatch.setattr(site.lrm._preparer, "prepare", sick)
    for index in (0, 1):
        site.start(shell("true", stdout="out.txt"), index)
    await site.ended(2)
    found = site.by_index()
    assert "internal error (Bug('sick')); see the node's log" in found[0].error and found[1].error == ""
    assert site.losses() == 0 and critical(caplog)
    await site.down()


# --- orders to members ---------------------------------------------------------------------------------------


class Own:
    """The LRM of the RootGrid's machine."""

    def __init__(self) -> None:
        self.forgotten: list[Run] = []

    def start(self, order: Start) -> None: ...

    def lease(self, order: RenewLease) -> None: ...

    def kill(self, order: KillRuns) -> None: ...

    def forget(self, runs: tuple[Run, ...]) -> None:
        self.forgotten += runs


def subgrid(folder: Path, events: list[Event]) -> tuple[SubGridLrm, Own, Any]:
    own = Own()
    lrm = SubGridLrm(
        DataDir(folder),
        ALPHA,
        "main",
        own,
        events.append,
        lambda: 0.0,
        term=lambda: 0,
        alive=lambda: [PART],
        needed=lambda *_: True,
    )
    link = lrm.attach(
        protocol.Hello(
            version=protocol.VERSION, machine="m1", identity="x", release="1", term=0, slots=2, memory_bytes=0
        )
    )
    assert not isinstance(link, protocol.Refused)
    return lrm, own, link


def order() -> Start:
    spec = GroupSpec(argv=("/bin/true",))
    return Start(
        worker="m1", session=1, subgroup=PART, epoch=1, owner="u@vo", spec=spec, indices=IndexSet.of([0]), attempts=()
    )


async def said(link: Any) -> list[protocol.FromRoot]:
    await asyncio.sleep(0)
    return [message for one in link._out for message in protocol.from_root(protocol.pack([one]))]


class Book:
    """Tasks that bring inputs."""

    def __init__(self, fault: bool) -> None:
        self.fault = fault

    def has_inputs(self, order: Start) -> bool:
        return True

    def files_of(self, order: Start, indices: list[int]) -> list[Any]:
        if self.fault:
            raise Bug
        return []


async def test_jobs_of_a_member_whose_inputs_meet_a_fault_end_and_others_behind_them_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    lrm, _, link = subgrid(tmp_path, events)
    lrm.on_ready(link, protocol.Ready(1, 2, 0, []), [])
    book = Book(fault=True)
    link._book = cast("Any", book)
    lrm.start(order())
    async with asyncio.timeout(60):
        while not any(isinstance(event, JobsEnded) for event in events):
            await asyncio.sleep(0.005)
    book.fault = False
    lrm.start(order())
    async with asyncio.timeout(60):
        while not any(isinstance(message, protocol.Order) for message in await said(link)):
            await asyncio.sleep(0.005)
    assert critical(caplog) and not link.ended.is_set()
    lrm.close()


async def test_a_fault_at_the_orders_to_a_member_ends_its_stream_so_that_it_attaches_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lrm, _, link = subgrid(tmp_path, [])
    lrm.on_ready(link, protocol.Ready(1, 2, 0, []), [])
    link._book, link._pool = cast("Any", Book(fault=False)), ThreadPoolExecutor(1)

    def broken(*_: object) -> None:
        raise Bug

    monkeypatch.setattr(link, "_send_files", broken)
    lrm.start(order())
    async with asyncio.timeout(60):
        await link.ended.wait()
    assert critical(caplog)
    lrm.close()


# --- strays --------------------------------------------------------------------------------------------------


async def test_a_stray_of_a_member_is_forgotten_at_the_member(tmp_path: Path) -> None:
    """The RootGrid restarted, and nobody told it the end of what it knows nothing of any more."""
    lrm, own, link = subgrid(tmp_path, [])
    stray, ours = Run(PART, 1, 0, 1), Run(PART, 1, 1, 1)
    lrm.on_ready(link, protocol.Ready(1, 2, 0, []), [stray])
    lrm.forget((stray, ours))
    (forget,) = [message for message in await said(link) if isinstance(message, protocol.Forget)]
    assert protocol.runs_of(forget.runs) == [stray] and own.forgotten == [ours]
    lrm.close()
