"""Small files that must survive a crash whole: the new content or the old one (PROMISES section 3, persist first)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from diana.adapters.durable import replace_durably


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
