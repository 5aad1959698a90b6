"""Rows of arrays: what is published in order, sealed, and found by who takes over."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.adapters.batch.array.ending import Ending
from diana.adapters.batch.array.live import SubmittedPart
from diana.adapters.batch.array.rows import ArraysElsewhere
from diana.adapters.batch.book import Book
from diana.adapters.batch.cluster import ClusterLrm
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm import collect
from diana.adapters.lrm.collect import OutputCollector
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.subgrid.delivery import LogSegments
from diana.engine.journal.effects import RenewLease
from diana.engine.journal.events import LrmLost, LrmReady, Run
from diana.errors import StoreFailed
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from tests.batch.test_book_searched import ALPHA, PART, Rough, order
from tests.runs import SEED

ENDED = "0 -\n0m0.0s 0m0.0s\n0m0.1s 0m0.0s\n.\n"


@contextmanager
def book(data: Path, folder: Path | str = "", before: str = "") -> Iterator[Book]:
    system = Rough(random.Random(SEED), {})
    at = DataDir(data)
    ending = Ending(
        ALPHA, "c", LogSegments(at.logs_root, "c"), OutputCollector(at, ALPHA, lambda *_: None), time.monotonic
    )
    made = Book(at, ALPHA, "c", ClusterSettings(kind="rough", folder=str(folder)), system, ending, before)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def with_outputs(indices: list[int]) -> Order:
    wanted = [[("out.txt", f"out-{index}.txt", True)] for index in indices]
    return msgspec.structs.replace(order(indices), own_directory=True, collects=wanted)


def runs_and_ends(at: Book, data: Path, index: int, token: str) -> None:
    """As its script does."""
    folder = at.rows.folder(token).root
    (folder / "run" / str(index)).write_text("7 n1\n")
    job = DataDir(data).job(PART, 1, index)
    job.mkdir(parents=True)
    (job / "out.txt").write_text(f"{index}\n")
    (folder / "end" / str(index)).write_text(ENDED)


def told(at: Book) -> dict[int, Facts]:
    return {index: facts for _, _, facts in at.told() for index in facts.indices}


def test_numbers_of_a_row_only_rise_whatever_was_dropped(tmp_path: Path) -> None:
    tokens = []
    for _ in range(3):
        with book(tmp_path) as at:
            at.give(order([len(tokens)]))
            tokens.append(at.ledger.arrays()[-1].token)
            at.take_back()
            at.forget(at.known())
            assert not at.ledger.arrays()
    numbers = [int(token.partition(".")[2]) for token in tokens]
    assert numbers == [1, 2, 3] and len({token.partition(".")[0] for token in tokens}) == 1
    assert [path.name for path in at.rows.row().iterdir() if path.name.isdecimal()] == ["3"]


def test_who_was_sealed_gives_nothing_though_its_ledger_had_refused_an_array_before(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise StoreFailed("no space left on device")

    with book(tmp_path / "main", shared) as old:
        with monkeypatch.context() as patch:
            patch.setattr(old.ledger, "give", full)
            with pytest.raises(StoreFailed):
                old.give(order([0]))
        with book(tmp_path / "spare", shared, old.identity) as new:
            new.give(order([0]))
            with pytest.raises(ArraysElsewhere):
                old.give(order([0]))


def test_what_is_published_is_on_the_disk_with_what_is_particular_to_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made once: who finds it after a power failure takes it as it is."""
    on_disk, fsync = set[str](), os.fsync

    def seen(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.stat().st_size:
            on_disk.add(path.name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", seen)
    with book(tmp_path) as at:
        at.give(msgspec.structs.replace(order([0, 1]), argvs=[["a"], ["b"]]))
        assert {path.name for path in (at.rows.row() / "1").iterdir() if path.is_file()} == {"cases", "order", "script"}
    assert {"cases", "script"} <= on_disk


def test_arrays_whose_ledger_was_lost_are_found_in_the_row(tmp_path: Path) -> None:
    with book(tmp_path) as at:
        at.give(order([4, 5]))
        known = at.known()
    for path in (tmp_path / "clusters" / "c").glob("ledger.db*"):
        path.unlink()
    with book(tmp_path, before=at.identity) as again:
        assert (again.known(), again.rows.taken_over) == (known, 1)


def test_who_was_sealed_gives_nothing_and_begins_another_row_when_it_leads_again(tmp_path: Path, shared: Path) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    with book(main, shared) as old:
        old.give(order([0, 1]))
        with book(spare, shared, old.identity) as new:
            assert {run.index for run in new.known()} == {0, 1}
            with pytest.raises(ArraysElsewhere, match="another machine of the site took it over"):
                old.give(order([2]))
            new.give(order([3]))
    with book(main, shared, new.identity) as again:
        assert {run.index for run in again.known()} == {0, 1, 3}
        assert again.identity not in (old.identity, new.identity)


async def test_a_cluster_that_another_machine_took_over_is_lost_once_and_never_ready_again(
    tmp_path: Path, shared: Path
) -> None:
    told: list[object] = []
    system, settings = Rough(random.Random(SEED), {}), ClusterSettings(kind="rough", folder=str(shared), look_s=0.05)
    data = DataDir(tmp_path / "main")
    lrm = ClusterLrm(data, ALPHA, "c", settings, system, told.append, time.monotonic)  # type: ignore[arg-type]
    await lrm.connect()
    (ready,) = told
    assert isinstance(ready, LrmReady)
    with book(tmp_path / "spare", shared, ready.identity):
        for _ in range(5):
            lrm.lease(RenewLease(origin=SiteId("beta"), until_s=1.0))
            await asyncio.sleep(0.2)
    await lrm.close()
    assert [type(event) for event in told] == [LrmReady, LrmLost]


def test_outputs_that_the_dead_machine_had_collected_and_not_told_are_collected_anew(
    tmp_path: Path, shared: Path
) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    with book(main, shared) as old:
        old.give(with_outputs([0, 1]))
        token = old.ledger.arrays()[0].token
        list(old.submit())
        runs_and_ends(old, main, 0, token)
        old.look()
        assert DataDir(main).collected(PART, 1).joinpath("out-0.txt").exists()
        runs_and_ends(old, main, 1, token)
    with book(spare, shared, old.identity) as new:
        new.look()
        facts = told(new)[1]
        assert sorted(facts.outcomes) == [Outcome.DONE, Outcome.DONE]
        assert [(one.name, one.size_bytes) for one in facts.outputs] == [("out-0.txt", 2), ("out-1.txt", 2)]
        at = DataDir(spare).collected(PART, 1)
        assert [(at / f"out-{index}.txt").read_text() for index in (0, 1)] == ["0\n", "1\n"]


def test_a_leader_that_wakes_while_outputs_are_collected_takes_none_of_them_away(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    wanted, keep = [[("out.txt", "out-0.txt", False), ("more.txt", "more-0.txt", False)]], collect._JobOutputs._keep
    with book(main, shared) as old:
        old.give(msgspec.structs.replace(order([0]), own_directory=True, collects=wanted))
        list(old.submit())
        runs_and_ends(old, main, 0, old.ledger.arrays()[0].token)
        DataDir(main).job(PART, 1, 0).joinpath("more.txt").write_text("more\n")
        with book(spare, shared, old.identity) as new:
            woken = []

            def interrupted(*call: Any) -> None:
                keep(*call)
                if not woken:
                    woken.append(old)
                    with pytest.raises(ArraysElsewhere):
                        old.look()

            monkeypatch.setattr(collect._JobOutputs, "_keep", interrupted)
            new.look()
            assert woken and told(new)[0].outcomes == [Outcome.DONE]
            assert [each.name for each in told(new)[0].outputs] == ["out-0.txt", "more-0.txt"]


def test_what_only_a_leader_that_was_taken_over_from_knows_to_be_over_is_told_all_the_same(
    tmp_path: Path, shared: Path
) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    with book(main, shared) as old:
        old.give(order([0]))
        list(old.submit())
        runs_and_ends(old, main, 0, old.ledger.arrays()[0].token)
        old.look()
        old.lease("beta", 100.0)
        with book(spare, shared, old.identity) as new:
            with pytest.raises(ArraysElsewhere):
                old.forget([Run(PART, 1, 0, 1)])
            with pytest.raises(ArraysElsewhere):
                old.lease("beta", 50.0)
            new.look()
            assert told(new)[0].outcomes == [Outcome.DONE]
            assert (old.rows.row() / "lease.beta").read_text() == "100\n"


def test_what_the_site_knows_to_be_over_is_not_told_again(tmp_path: Path, shared: Path) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    with book(main, shared) as old:
        old.give(with_outputs([0, 1]))
        list(old.submit())
        runs_and_ends(old, main, 0, old.ledger.arrays()[0].token)
        old.look()
        old.forget([Run(PART, 1, 0, 1)])
    with book(spare, shared, old.identity) as new:
        new.look()
        assert {run.index for run in new.known()} == {1} and not new.told()


def test_a_data_directory_out_of_sight_is_told_and_not_called_a_missing_output(tmp_path: Path, shared: Path) -> None:
    main, spare = tmp_path / "main", tmp_path / "spare"
    with book(main, shared) as old:
        old.give(with_outputs([0]))
        list(old.submit())
        runs_and_ends(old, main, 0, old.ledger.arrays()[0].token)
    main.rename(tmp_path / "elsewhere")
    with book(spare, shared, old.identity) as new:
        new.look()
        facts = told(new)[0]
        assert facts.outcomes == [Outcome.STAGING_FAILED]
        assert f"its outputs lie in {main}, which this machine does not see" in facts.errors[0].text


def test_jobs_that_are_not_in_sight_keep_a_machine_from_feeding_the_cluster(tmp_path: Path, shared: Path) -> None:
    with book(tmp_path / "main") as old:
        old.give(order([0]))
    for folder in ("", shared):
        with (
            pytest.raises(ArraysElsewhere, match="remove-machine c"),
            book(tmp_path / "spare", folder, old.identity),
        ):
            pass
    with pytest.raises(ArraysElsewhere, match="leave `folder` as it was"), book(tmp_path / "main", shared):
        pass


def test_a_shared_folder_that_is_not_mounted_is_told(tmp_path: Path, shared: Path) -> None:
    with book(tmp_path / "main", shared) as at:
        at.give(order([0]))
    shared.rename(tmp_path / "unmounted")
    with pytest.raises(ArraysElsewhere, match="is not there"), book(tmp_path / "main", shared):
        pass
    shared.mkdir()
    with pytest.raises(ArraysElsewhere, match="mounted"), book(tmp_path / "main", shared):
        pass


def test_arrays_that_an_older_release_gave_end_where_they_lie(tmp_path: Path) -> None:
    with book(tmp_path) as at:
        token = f"{at.identity}.0a1b2c3d"
        number = at.ledger.give(token, order([0, 1]))
        at.ledger.submitted(number, {"7": SubmittedPart(IndexSet.span(0, 2))})
    old = tmp_path / "clusters" / "c" / token
    for name in ("run", "end", "out"):
        (old / name).mkdir(parents=True)
    (old / "script").touch()
    for task in (0, 1):
        (old / "run" / str(task)).write_text("7 n1\n")
        (old / "end" / str(task)).write_text(ENDED)
    with book(tmp_path) as at:
        at.look()
        assert told(at)[1].outcomes == [Outcome.DONE, Outcome.DONE]
        at.forget([Run(PART, 1, index, 1) for index in (0, 1)])
        assert not at.ledger.arrays() and not old.exists()
