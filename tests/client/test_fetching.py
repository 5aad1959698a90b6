"""Fetched files appear under their names whole, whatever else this process fetches meanwhile."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from diana.client.fetching import FolderWriter
from diana.wire.client.messages import FetchChunk

LONG = "output-of-the-simulation-of-november-2026-"


def chunk(name: str, data: bytes, whole: bytes) -> FetchChunk:
    """The last one if `whole` ends with it."""
    return FetchChunk(name=name, data=data, sha256=hashlib.sha256(whole).hexdigest(), last=whole.endswith(data))


@pytest.mark.parametrize("names", [(f"{LONG}1", f"{LONG}2"), ("same", "same")])
def test_two_fetches_into_one_folder_at_the_same_time_do_not_mix_their_files(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    first, second = FolderWriter(tmp_path), FolderWriter(tmp_path)
    first.feed(chunk(names[0], b"one", b"one and two"))
    second.feed(chunk(names[1], b"three", b"three and four"))
    first.feed(chunk(names[0], b" and two", b"one and two"))
    assert (tmp_path / names[0]).read_bytes() == b"one and two"
    second.feed(chunk(names[1], b" and four", b"three and four"))
    assert (tmp_path / names[1]).read_bytes() == b"three and four"
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_a_name_as_long_as_a_disk_takes_can_be_fetched(tmp_path: Path) -> None:
    name = "ä" * 127
    FolderWriter(tmp_path).feed(chunk(name, b"all", b"all"))
    assert (tmp_path / name).read_bytes() == b"all"
