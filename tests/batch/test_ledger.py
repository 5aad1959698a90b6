"""The ledger of a cluster's jobs is read as an older release wrote it, and not written where nobody will look."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from diana.adapters.batch.array.live import SubmittedPart
from diana.adapters.batch.ledger import Ledger
from diana.errors import StoreFailed
from diana.model.indexset import IndexSet
from tests.batch.test_book_searched import order

_V1 = "ALTER TABLE arrays DROP COLUMN parts; PRAGMA user_version = 1;"


def test_arrays_of_the_first_schema_were_submitted_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    number, waiting = (ledger.give(token, order([3, 4, 9], [1, 1, 1])) for token in ("a", "b"))
    ledger.submitted(number, {"17": SubmittedPart(IndexSet.of([0, 1]), 1)})
    ledger.close()
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(_V1)
    db.close()
    ledger = Ledger(path)
    assert [(one.number, one.parts) for one in ledger.arrays()] == [
        (number, {"17": SubmittedPart(IndexSet.span(0, 3))}),
        (waiting, {}),
    ]
    ledger.close()


def test_what_was_submitted_in_portions_is_remembered_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    number = ledger.give("a", order([3, 4, 9], [1, 1, 1]))
    parts = {"17": SubmittedPart(IndexSet.of([0, 1]), 1), "18": SubmittedPart(IndexSet.of([2]))}
    ledger.submitted(number, parts)
    ledger.close()
    ledger = Ledger(tmp_path / "ledger.db")
    assert ledger.arrays()[0].parts == parts
    ledger.close()


@pytest.mark.parametrize("another", [False, True])
def test_nothing_is_given_by_a_ledger_that_went_from_its_place(tmp_path: Path, another: bool) -> None:
    path, away = tmp_path / "ledger.db", tmp_path / "away.db"
    ledger = Ledger(path)
    ledger.give("a", order([3], [1]))
    path.rename(away)
    if another:
        Ledger(path).close()
    with pytest.raises(StoreFailed, match=rf"^{path}: was moved, deleted or replaced while its node ran; stop"):
        ledger.give("b", order([4], [1]))
    ledger.close()


def test_a_ledger_that_went_while_it_wrote_is_asked_no_more_until_the_next_start_which_has_what_it_wrote(
    tmp_path: Path,
) -> None:
    path, away = tmp_path / "ledger.db", tmp_path / "away.db"
    ledger = Ledger(path)
    went = f"^{path}: was moved, deleted or replaced while its node ran; stop"
    ledger._db.set_trace_callback(lambda sql: path.rename(away) if sql == "COMMIT" else None)
    with pytest.raises(StoreFailed, match=went):
        ledger.give("a", order([3], [1]))
    ledger._db.set_trace_callback(None)
    away.rename(path)
    # It would be given by the same token a second time.
    with pytest.raises(StoreFailed, match=went):
        ledger.give("a", order([3], [1]))
    ledger.close()
    ledger = Ledger(path)
    assert [(one.token, one.order.indices) for one in ledger.arrays()] == [("a", [3])]
    ledger.give("b", order([4], [1]))
    ledger.close()
