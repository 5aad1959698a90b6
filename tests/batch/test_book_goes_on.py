"""Work that a process left, a disk refused or another machine took over goes on where it was."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from diana.adapters.batch.array.folder import ArrayFolder
from diana.adapters.batch.array.rows import ArraysElsewhere
from diana.adapters.batch.book import Book
from diana.adapters.batch.cluster import ClusterLrm
from diana.adapters.batch.portions import Limit
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import Seen, Stage
from diana.engine.journal.events import LrmLost, LrmReady, Run
from diana.errors import StoreFailed
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from tests.batch.test_book_searched import ALPHA, PART, Rough, opened, order
from tests.batch.test_gates_kept import JOBS, given, outcomes
from tests.batch.test_rows import ENDED
from tests.batch.test_rows import book as machine

TOO_LONG = "no such queue; ask for one of " + "ä" * 400


@pytest.fixture
def system() -> Rough:
    return Rough(random.Random(1), {})


def refuse(book: Book) -> None:
    (array,) = book._arrays.values()
    book.refuse(array.order, TOO_LONG)


SHUT: dict[str, tuple[Callable[[Book], object], Outcome]] = {
    "taken back": (Book.take_back, Outcome.UNBEGUN),
    "too wide by now": (lambda book: list(book.submit(Limit(1))), Outcome.UNBEGUN),
    "recalled": (lambda book: book.recall(PART, 1, IndexSet.of(JOBS)), Outcome.UNBEGUN),
    "killed": (lambda book: book.kill(PART, 1, IndexSet.of(JOBS)), Outcome.CANCELLED),
    "refused": (refuse, Outcome.NOT_STARTED),
}


@pytest.mark.parametrize("lost", [False, True], ids=["ledger kept", "ledger lost"])
@pytest.mark.parametrize("why", SHUT)
def test_what_was_not_to_begin_any_more_ends_so_and_is_not_submitted_again(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch, why: str, lost: bool
) -> None:
    """The leader died between the gates and its journal; who takes over has no ledger."""
    book = given(tmp_path, system, processors=2)
    shut, outcome = SHUT[why]
    monkeypatch.setattr(book, "_end", lambda *_: None)
    shut(book)
    book.close()
    if lost:
        for path in (tmp_path / "clusters" / "c").glob("ledger.db*"):
            path.unlink()
    book = opened(DataDir(tmp_path), system)
    assert outcomes(book) == dict.fromkeys(JOBS, outcome) and not book.held()
    list(book.submit())
    assert not system.tasks
    errors = [error.text for _, _, facts in book.told() for error in facts.errors]
    assert len(errors) == (len(JOBS) if outcome is Outcome.NOT_STARTED else 0)
    assert all(": no such queue; ask for one of äää" in error and "\ufffd" not in error for error in errors), errors
    book.close()


def test_ends_whose_forgetting_the_disk_refused_are_told_until_it_takes_it(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = given(tmp_path, system)
    list(book.submit())
    (array,) = book._arrays.values()
    folder = book._folder(array)
    for task in range(len(JOBS)):
        (folder.root / "run" / str(task)).write_text("1 n1\n")
        (folder.root / "end" / str(task)).write_text(ENDED)
    book.look()
    runs = book.known()
    told = book.told()

    def full(*_: object) -> None:
        raise StoreFailed("no space left on device")

    for some in ([], [Run(PART, 1, JOBS[0], 1)]):
        # A part of a batch of ends needs no word of the disk.
        book.forget(some)
        with monkeypatch.context() as patch:
            patch.setattr(book.ledger, "forget", full)
            with pytest.raises(StoreFailed):
                book.forget(runs)
        assert (book.told(), book.known()) == (told, runs - set(some)) and book._arrays
    book.forget(runs)
    assert not (book.told() or book.known() or book._arrays or book.ledger.told() or book.ledger.arrays())
    book.close()


def test_a_folder_that_the_disk_did_not_let_go_goes_at_the_next_look(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = given(tmp_path, system)
    book.take_back()
    (script,) = book.rows.row().glob("*/script")

    def busy(*_: object) -> None:
        raise OSError("stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(book.rows, "drop", busy)
        with pytest.raises(OSError, match="stale"):
            book.forget(book.known())
    book.look()
    assert not script.exists() and not book._arrays
    book.close()


async def test_a_cluster_whose_ledger_the_disk_refuses_is_told_to_be_lost_and_comes_when_it_can(tmp_path: Path) -> None:
    told: list[object] = []
    settings = ClusterSettings(kind="rough", look_s=0.05, ask_s=0.2)
    in_the_way = tmp_path / "clusters" / "c" / "ledger.db"
    in_the_way.mkdir(parents=True)
    rough = Rough(random.Random(1), {})
    lrm = ClusterLrm(DataDir(tmp_path), ALPHA, "c", settings, rough, told.append, time.monotonic)  # type: ignore[arg-type]
    await lrm.connect()
    (lost,) = told
    assert isinstance(lost, LrmLost) and f"{in_the_way}: unable to open" in lost.why
    in_the_way.rmdir()
    async with asyncio.timeout(60):
        while len(told) < 2:
            await asyncio.sleep(0.05)
    await lrm.close()
    assert isinstance(told[1], LrmReady)


def test_a_start_asks_nothing_of_the_file_system_for_each_job_that_was_over_before(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared, clear = list[int](), ArrayFolder.clear

    def seen(folder: ArrayFolder, tasks: Iterable[int]) -> None:
        some = list(tasks)
        cleared.extend(some)
        clear(folder, some)

    book = given(tmp_path, system)
    list(book.submit(Limit(1)))
    book.take_back()
    with monkeypatch.context() as patch:
        patch.setattr(ArrayFolder, "clear", lambda *_: None)
        book.forget([Run(PART, 1, JOBS[1], 1), Run(PART, 1, JOBS[2], 1)])
    book.close()
    monkeypatch.setattr(ArrayFolder, "clear", seen)
    opened(DataDir(tmp_path), system).close()
    assert cleared == [1, 2], "the node had died before it came to it"
    book = opened(DataDir(tmp_path), system)
    assert cleared == [1, 2] and {run.index for run in book.known()} == {JOBS[0]}
    book.close()


def lost(book: Book, system: Rough) -> None:
    (array,) = book._arrays.values()
    array.cancelled = set(array.open)
    system.tasks.clear()
    book.ask()


def never(book: Book, system: Rough) -> None:
    (array,) = book._arrays.values()
    there = Seen("1", array.token, IndexSet.span(0, len(JOBS)), Stage.WAITING, why="no such machine", never=True)
    system.listing = lambda: [there]  # type: ignore[method-assign]
    book.ask()


def refused(book: Book, system: Rough) -> None:
    (array,) = book._arrays.values()
    array.to_submit = set(array.open)
    refuse(book)


LATE: dict[str, Callable[[Book, Rough], object]] = {
    "recall": lambda book, _: book.recall(PART, 1, IndexSet.of(JOBS)),
    "kill": lambda book, _: book.kill(PART, 1, IndexSet.of(JOBS)),
    "lost": lost,
    "never": never,
    "refused": refused,
}


@pytest.mark.parametrize("what", LATE)
def test_who_was_taken_over_from_shuts_no_gate(tmp_path: Path, what: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with machine(tmp_path / "main", shared) as old:
        old.give(order(JOBS))
        list(old.submit())
        (array,) = old._arrays.values()
        gates, system = old._folder(array).root / "run", old._system
        assert isinstance(system, Rough)
        with machine(tmp_path / "spare", shared, old.identity) as new:
            with pytest.raises(ArraysElsewhere):
                LATE[what](old, system)
            assert not os.listdir(gates)
            assert new.held() == len(JOBS)
