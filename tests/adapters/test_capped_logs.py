"""Logs that keep their head and their tail, on file systems with holes and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diana.adapters.lrm.spawner import capped
from diana.model.kept_log import MARK_BYTES, marked

BEFORE = b"of the job before\n"


def _text(count: int) -> bytes:
    return b"".join(b"%09d\n" % at for at in range(count // 10 + 1))[:count]


def _log(folder: Path) -> tuple[Path, int]:
    path = folder / "log"
    path.write_bytes(BEFORE)
    return path, os.open(path, os.O_WRONLY | os.O_APPEND)


@pytest.fixture(params=["holes", "no holes"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "no holes":
        monkeypatch.setattr(capped, "_fallocate", lambda *_: -1)
    return str(request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(limit=st.integers(0, 4000), writes=st.lists(st.integers(1, 4000), max_size=12))
def test_head_and_tail_are_kept_however_it_was_written(
    disk: str, tmp_path_factory: pytest.TempPathFactory, limit: int, writes: list[int]
) -> None:
    path, fd = _log(tmp_path_factory.mktemp("log"))
    whole, at = _text(sum(writes)), 0
    for count in writes:
        os.write(fd, whole[at : at + count])
        at += count
        capped.hold(fd, len(BEFORE), limit)
    length, cut = capped.close_up(fd, len(BEFORE), limit)
    os.close(fd)
    data = path.read_bytes()
    assert data.startswith(BEFORE) and len(data) == len(BEFORE) + length
    log, head = data[len(BEFORE) :], limit // 2
    if not cut:
        assert log == whole and len(log) <= limit + MARK_BYTES
        return
    left_out, line = marked(log[head:])
    rest = log[head + line :]
    assert log[:head] == whole[:head] and whole.endswith(rest)
    assert left_out == len(whole) - head - len(rest) > 0
    assert len(rest) == limit - head or disk == "no holes"
    assert length <= limit + 2 * MARK_BYTES


def test_a_log_that_is_copied_is_kept_as_one_that_is_closed_up(disk: str, tmp_path: Path) -> None:
    source, target = tmp_path / "out", tmp_path / "segment"
    source.write_bytes(_text(5000))
    capped.hold_file(source, 1000)
    with source.open("ab") as writing:
        writing.write(b"the last words")
    target.write_bytes(BEFORE)
    into, out = os.open(target, os.O_WRONLY | os.O_APPEND), os.open(source, os.O_RDONLY)
    length, cut = capped.append_kept(out, into, 1000)
    data = target.read_bytes()[len(BEFORE) :]
    assert cut and len(data) == length and data.startswith(_text(500)) and data.endswith(b"the last words")
    assert b"\0" not in data and marked(data[500:])[0] > 0
    os.close(into)
    os.close(out)


def test_room_is_given_back_though_the_file_looks_as_long_as_it_was(tmp_path: Path) -> None:
    path, fd = _log(tmp_path)
    os.write(fd, _text(4 << 20))
    capped.hold(fd, len(BEFORE), 1 << 16)
    os.close(fd)
    assert path.stat().st_size > 4 << 20 and path.stat().st_blocks * 512 < 1 << 18


def test_the_last_words_of_a_log_that_is_written_are_those_behind_what_is_left_out(tmp_path: Path) -> None:
    limit = 4000
    path = tmp_path / "log"
    path.write_bytes(text := _text(30_000))
    capped.hold_file(path, limit)
    size = len(text)
    at, last = capped.read_held(path, 0, size, limit, -(1 << 18), 1 << 18)
    assert at + len(last) == size and last and text.endswith(last)
    # Fewer than are kept begin where they are asked for.
    assert capped.read_held(path, 0, size, limit, -10, 1 << 18) == (size - 10, text[-10:])
