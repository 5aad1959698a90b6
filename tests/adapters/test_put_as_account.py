"""The program that becomes other accounts writes their files whole, whoever writes beside it."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from threading import Thread

import pytest

from diana.adapters.lrm.runas.accounts import _number
from diana.adapters.lrm.runas.run_as import put_file


def test_two_groups_that_put_a_file_of_one_name_have_it_whole_and_the_later_one_stays(tmp_path: Path) -> None:
    first, second = b"1" * 3_000_000, b"2" * 1_000_000
    at = os.open(tmp_path, os.O_RDONLY)
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as given, os.fdopen(writes, "wb") as giving:
        slow = Thread(target=put_file, args=(given, at, "a-1", "out", len(first), hashlib.sha256(first).hexdigest()))
        slow.start()
        giving.write(first[:2_000_000])
        giving.flush()
        (tmp_path / "second").write_bytes(second)
        with (tmp_path / "second").open("rb") as whole:
            put_file(whole, at, "a-2", "out", len(second), hashlib.sha256(second).hexdigest())
        assert (tmp_path / "out").read_bytes() == second
        giving.write(first[2_000_000:])
        giving.flush()
        slow.join(60)
    assert (tmp_path / "out").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "second"]
    os.close(at)


def test_a_file_with_another_content_is_not_put_and_leaves_nothing(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "given").write_bytes(b"other")
    with (tmp_path / "given").open("rb") as given, pytest.raises(OSError, match="another content"):
        put_file(given, at, "a-1", "out", 5, hashlib.sha256(b"right").hexdigest())
    assert [path.name for path in tmp_path.iterdir()] == ["given"]
    os.close(at)


def test_what_the_account_met_is_told_by_its_number_which_an_older_program_does_not_tell() -> None:
    assert _number(["sudo: no tty", "errno 20", "/out: out is a link or a file for account ann"]) == errno.ENOTDIR
    for lines in (["/out: out is a link or a file for account ann"], ["errno 20"], ["errno 123456", "/out"], []):
        assert _number(lines) == errno.EACCES
