"""A run that is told not to have begun never begins: its gate stays shut, whatever fails where."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from diana.adapters.batch.array.folder import GIVEN_UP
from diana.adapters.batch.book import Book
from diana.adapters.batch.portions import Limit
from diana.adapters.batch.systems.system import BatchRefused, Stage
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from tests.batch.test_book_searched import PART, Rough, opened, order

JOBS = [3, 4, 9]
UNBEGUN = dict.fromkeys(JOBS, Outcome.UNBEGUN)


@pytest.fixture
def system() -> Rough:
    return Rough(random.Random(1), {})


def given(root: Path, system: Rough, processors: int = 1) -> Book:
    book, jobs = opened(DataDir(root), system), order(JOBS, [1, 1, 1])
    jobs.processors = processors
    book.give(jobs)
    return book


def outcomes(book: Book) -> dict[int, Outcome]:
    rows = [facts for _, _, facts in book.told()]
    return {i: Outcome(how) for facts in rows for i, how in zip(facts.indices, facts.outcomes, strict=True)}


def test_gates_are_on_the_disk_before_it_is_written_down_that_their_tasks_never_began(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, on_disk, at_writing = given(tmp_path, system), set[str](), list[set[str]]()
    fsync, ended = os.fsync, book.ledger.ended

    def seen_fsync(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.name == "run":
            on_disk.update(os.listdir(path))
        fsync(fd)

    def seen_ended(*told: Any) -> int:
        at_writing.append(set(on_disk))
        return ended(*told)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(book.ledger, "ended", seen_ended)
    list(book.submit())
    book.recall(PART, 1, IndexSet.of(JOBS))
    assert at_writing == [{"0", "1", "2"}]
    assert outcomes(book) == UNBEGUN
    book.close()


@pytest.mark.parametrize("newer", [False, True])
def test_a_task_that_starts_while_its_folder_is_being_removed_finds_no_open_gate(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    """The node is killed at it; the batch system shows nothing of what it still has, as after a restart of its own.
    The name of a row's newest array stays."""
    book = given(tmp_path, system)
    list(book.submit())
    book.recall(PART, 1, IndexSet.of(JOBS))
    row, names = book.rows.row(), {"1"}
    if newer:
        book.give(order([20]))
        names = {"2"}
    waiting = dict(system.tasks)
    system.tasks.clear()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda root, **_: [gate.unlink() for gate in Path(root).rglob("[0-9]*")])
        book.forget({run for run in book.known() if run.index in JOBS})
        book.ask()
    system.tasks.update(waiting)
    book.close()
    book = opened(DataDir(tmp_path), system)
    assert all(stage is Stage.WAITING for *_, stage in waiting.values()) and len(waiting) == len(JOBS)
    for _ in range(20):
        system.step()
    assert not system.executed
    assert {path.name for path in row.iterdir() if path.is_dir()} == names, "what was left is swept"
    assert not (row / "1" / "run").exists()
    book.close()


def test_of_an_array_submitted_in_part_only_the_rest_is_taken_back(tmp_path: Path, system: Rough) -> None:
    book = given(tmp_path, system)
    list(book.submit(Limit(1)))
    book.take_back()
    assert outcomes(book) == {4: Outcome.UNBEGUN, 9: Outcome.UNBEGUN}
    book.recall(PART, 1, IndexSet.of([3]))
    assert outcomes(book) == UNBEGUN and not book.held()
    book.close()


def test_jobs_wider_than_all_that_may_be_ours_by_now_go_back_and_bar_nobody(tmp_path: Path, system: Rough) -> None:
    book = given(tmp_path, system, processors=4)
    book.give(order([20], [1]))
    list(book.submit(Limit(2)))
    assert outcomes(book) == UNBEGUN
    assert len(system.tasks) == 1
    book.close()


def test_what_was_recalled_when_the_node_died_ends_so_though_nobody_recalls_it_again(
    tmp_path: Path, system: Rough, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the gates and the ledger: the user let it go on meanwhile."""
    book = given(tmp_path, system)
    list(book.submit())
    monkeypatch.setattr(book, "_end", lambda *_: None)
    book.recall(PART, 1, IndexSet.of(JOBS))
    book.close()
    book = opened(DataDir(tmp_path), system)
    for _ in range(20):
        system.step()
        book.look()
        book.ask()
    assert outcomes(book) == UNBEGUN and not system.executed
    book.close()


def test_what_was_given_up_for_another_reason_is_not_told_to_wait_again(tmp_path: Path, system: Rough) -> None:
    book = given(tmp_path, system)
    list(book.submit())
    (array,) = book._arrays.values()
    book._folder(array).close_gate(0, GIVEN_UP)
    book.recall(PART, 1, IndexSet.of(JOBS))
    assert outcomes(book) == {**UNBEGUN, 3: Outcome.NOT_STARTED}
    book.close()


@pytest.mark.parametrize("what", ["recalled, then restarted", "killed before it was seen to wait"])
def test_what_waits_in_the_batch_system_for_nothing_is_called_off_there(
    tmp_path: Path, system: Rough, what: str
) -> None:
    book = given(tmp_path, system)
    list(book.submit())
    if what.startswith("recalled"):
        book.recall(PART, 1, IndexSet.of(JOBS))
    book.close()
    if what.startswith("killed"):
        # As who takes over finds it.
        for path in (tmp_path / "clusters" / "c").glob("ledger.db*"):
            path.unlink()
    book = opened(DataDir(tmp_path), system)
    if what.startswith("killed"):
        book.kill(PART, 1, IndexSet.of(JOBS))
    assert len(system.tasks) == len(JOBS)
    for _ in range(3):
        with suppress(BatchRefused):
            book.ask()
    assert not system.tasks
    book.close()
