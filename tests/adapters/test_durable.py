"""Small files that must survive a crash whole: the new content or the old one (PROMISES section 3, persist first)."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from diana.adapters.durable import fold_log, replace_durably


def test_the_new_content_stands_with_its_mode_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "replica.json"
    path.write_bytes(b"old, and longer than the new")
    replace_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["replica.json"]


def test_a_disk_that_refuses_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "replica.json"
    path.write_bytes(b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["replica.json"]


def test_nobody_appends_to_a_log_while_it_is_written_a_second_time_and_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, other = (sqlite3.connect(tmp_path / "db", isolation_level=None, timeout=0.0) for _ in range(2))
    db.execute("PRAGMA journal_mode=WAL").fetchone()
    db.execute("CREATE TABLE rows (value)")
    before, write, sync, refused = (tmp_path / "db-wal").read_bytes(), os.pwrite, os.fsync, []
    synced: list[tuple[int, str]] = []

    def meanwhile(fd: int, piece: bytes, at: int) -> int:
        with pytest.raises(sqlite3.OperationalError, match="locked") as refusal:
            other.execute("INSERT INTO rows VALUES (1)")
        refused.append(str(refusal.value))
        # Less than it is given, as a disk may.
        return write(fd, piece[:1000], at)

    def note(fd: int) -> None:
        synced.append((len(refused), os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    monkeypatch.setattr(os, "pwrite", meanwhile)
    monkeypatch.setattr(os, "fsync", note)
    fold_log(db)
    assert len(refused) == -(-len(before) // 1000)
    assert synced == [(len(refused), str(tmp_path / "db-wal"))]
    other.execute("INSERT INTO rows VALUES (2)")
    assert db.execute("SELECT value FROM rows").fetchall() == [(2,)]
    db.close()
    other.close()


@pytest.mark.parametrize(("number", "told"), [(28, False), (122, False), (5, True)])
def test_a_log_that_finds_no_room_stays_as_it_is_and_any_other_fault_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    db = sqlite3.connect(tmp_path / "db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL").fetchone()
    db.execute("CREATE TABLE rows (value)")

    def faulty(fd: int, piece: bytes, at: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", faulty)
    if told:
        with pytest.raises(OSError, match="Input/output error"):
            fold_log(db)
    else:
        fold_log(db)
    db.execute("INSERT INTO rows VALUES (1)")
    db.close()
