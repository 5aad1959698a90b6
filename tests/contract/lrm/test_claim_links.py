"""The links between the records of a claim log, and the mark beside it: a log that lacks something says so."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.spawner.claims import claimlog, logmark, records
from diana.adapters.lrm.spawner.claims.links import RecordChain
from diana.adapters.lrm.spawner.claims.records import Claimed, Dropped, LogOpened, Record, Term
from diana.adapters.lrm.spawner.identity import MachineIdentity

OPENED = LogOpened(records.VERSION, 1, 0, MachineIdentity("boot", 1, 2), 0.0, 0.0, "log-1")
CLAIM = Claimed(1, "alpha-1/0", 1, "alpha-1", 1, 0.0, 1 << 20, False, [0, 1], [1, 1], [])
LATER: list[Record] = [Term(1), CLAIM, Dropped([(1, [0])]), Term(2)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of five records, its writer killed."""
    path = tmp_path / "claims.log"
    log = claimlog.ClaimLog(path, [OPENED])
    for record in LATER:
        log.add(record)
        log.write()
    return path


def ends(path: Path) -> list[int]:
    return [after for _, after in claimlog.frames(path.read_bytes())]


def test_a_log_that_was_only_left_behind_is_whole(path: Path) -> None:
    found = claimlog.find(path)
    assert (found.records, found.log, found.count, found.lost) == ([OPENED, *LATER], "log-1", 5, "")
    assert found.goes_on_as == "log-1"


def test_a_log_without_its_last_record_is_known_to_lack_it(path: Path) -> None:
    os.truncate(path, ends(path)[-2])
    found = claimlog.find(path)
    assert found.records == [OPENED, *LATER[:-1]]
    assert "ends after 4 of 5 records" in found.lost
    assert found.goes_on_as != "log-1"


def test_after_a_power_cut_only_what_was_synced_must_be_there(path: Path) -> None:
    mark = logmark.read_mark(path)
    assert mark is not None and (mark.written, mark.synced) == (5, 1)
    logmark.beside(path).write_bytes(msgspec.json.encode(msgspec.structs.replace(mark, boot="another boot")))
    os.truncate(path, ends(path)[0])
    assert claimlog.find(path).lost == ""


def marked_before(path: Path, **changes: object) -> None:
    """The mark is that of an earlier boot."""
    mark = logmark.read_mark(path)
    assert mark is not None
    old = msgspec.structs.replace(mark, boot="another boot", **changes)
    logmark.beside(path).write_bytes(msgspec.json.encode(old))


def with_a_hole(path: Path) -> None:
    """The page is gone on which its third record stood."""
    data, after = path.read_bytes(), ends(path)
    path.write_bytes(data[: after[1]] + bytes(after[2] - after[1]) + data[after[2] :])


def test_a_power_cut_may_take_records_in_the_middle_that_were_not_synced_and_the_log_then_lacks_its_end(
    path: Path,
) -> None:
    with_a_hole(path)
    marked_before(path)
    found = claimlog.find(path)
    assert found.records == [OPENED, *LATER[:1]]
    assert "whole records follow, as where power was cut" in found.lost
    assert found.goes_on_as != "log-1"


def test_zeros_behind_the_first_bytes_of_a_record_are_a_torn_end(path: Path) -> None:
    data, after = path.read_bytes(), ends(path)
    path.write_bytes(data[: after[3] + 2] + bytes(len(data) - after[3] - 2))
    marked_before(path)
    found = claimlog.find(path)
    assert (found.records, found.lost) == ([OPENED, *LATER[:-1]], "")


def test_a_hole_in_what_was_synced_or_without_a_power_cut_is_damage(path: Path) -> None:
    with_a_hole(path)
    with pytest.raises(claimlog.LogDamaged, match="whole records follow; see what ran here"):
        claimlog.find(path)
    mark = logmark.read_mark(path)
    assert mark is not None
    # Killed between the log and its mark, with a harm behind all that the mark knows.
    logmark.beside(path).write_bytes(msgspec.json.encode(msgspec.structs.replace(mark, written=2)))
    with pytest.raises(claimlog.LogDamaged, match="whole records follow; see what ran here"):
        claimlog.find(path)
    marked_before(path, synced=3)
    with pytest.raises(claimlog.LogDamaged, match="whole records follow; see what ran here"):
        claimlog.find(path)


def test_a_new_log_is_on_the_disk_with_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that a power cut leaves empty would make a whole log one that lost something."""
    path, synced, real = tmp_path / "claims.log", list[bytes](), os.fsync

    def fsync(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".mark"):
            synced.append(logmark.beside(path).read_bytes())
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    claimlog.ClaimLog(path, [OPENED])
    assert msgspec.json.decode(synced[-1], type=logmark.LogMark).synced == 1


def test_a_log_that_was_deleted_or_emptied_or_has_no_mark_is_no_whole_one(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert "is empty" in claimlog.find(path).lost
    path.unlink()
    assert "is gone; it held 5 records" in claimlog.find(path).lost
    logmark.beside(path).unlink()
    path.write_bytes(whole)
    assert "the mark beside it is gone" in claimlog.find(path).lost


def test_a_record_that_was_cut_out_of_the_middle_is_damage(path: Path) -> None:
    data, after = path.read_bytes(), ends(path)
    path.write_bytes(data[: after[1]] + data[after[2] :])
    with pytest.raises(claimlog.LogDamaged, match="it is record 4, not 3 of this log"):
        claimlog.find(path)


def test_the_count_goes_on_when_the_log_is_rewritten(path: Path) -> None:
    log = claimlog.ClaimLog(path, [msgspec.structs.replace(OPENED, before=5)])
    assert log.count == 6
    log.rewrite([msgspec.structs.replace(OPENED, before=log.count), CLAIM])
    assert claimlog.find(path).count == 8
    assert claimlog.find(path).lost == ""


def test_a_release_that_knows_no_links_reads_the_records(path: Path) -> None:
    data, at, seen = path.read_bytes(), 0, []
    for after in ends(path):
        seen.append(records.decode(data[at + 10 : after], records.VERSION))
        at = after
    assert [type(record) for record in seen] == [type(record) for record in [OPENED, *LATER]]
    assert seen[1:] == LATER


def test_a_log_of_an_earlier_release_has_no_identity_and_lacks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "claims.log"
    claimlog.ClaimLog(path, [msgspec.structs.replace(OPENED, log=""), CLAIM]).close()
    found = claimlog.find(path)
    assert (found.records[1:], found.log, found.lost) == ([CLAIM], "", "")


def test_a_log_that_lives_for_years_goes_on_after_four_billion_records() -> None:
    chain = RecordChain("log-1", (1 << 32) - 2)
    reading = RecordChain("log-1", (1 << 32) - 2)
    payload = msgspec.msgpack.encode([1, "a"])
    for _ in range(4):
        assert reading.unlinked(chain.linked(payload)) == payload
    assert chain.count == reading.count == (1 << 32) + 2
