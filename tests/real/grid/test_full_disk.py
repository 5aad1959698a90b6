"""On a disk without room nothing can be written that says so: the node does (PROMISES section 3, full disk)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from diana.adapters.lrm import launch
from diana.errors import DianaError
from diana.model.layout import DataDir
from tests.e2e.grid import timely, until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "diana", str(tmp_path)], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def filled(disk: Path) -> Path:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return disk / "filler"


def test_a_spawner_that_finds_no_room_is_told_as_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_START_WAIT_S", 1.0)
    data = DataDir(disk)
    data.spawner.mkdir()
    (data.spawner / "spawner.log").write_text("spawner: what it said last week\n")
    filled(disk)
    with pytest.raises(DianaError, match=r"the spawner does not come up: the disk is full; free space there$"):
        launch.ensure(data)


def test_another_spawner_is_started_where_the_first_was_killed_before_it_could_serve(disk: Path) -> None:
    data = DataDir(disk)
    for folder in (data.spawner, data.logs_root, data.root / "slots", data.root / "jobs"):
        folder.mkdir()
    lock = data.spawner / "lock"

    def kill() -> None:
        until(lambda: lock.exists() and lock.read_text().strip(), "it has its lock", 10.0, 0.001)
        os.kill(int(lock.read_text()), signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    with launch.ensure(data):
        killing.join()
    os.kill(int(lock.read_text()), signal.SIGKILL)


def test_a_spawner_comes_up_as_soon_as_there_is_room_again(disk: Path) -> None:
    data = DataDir(disk)
    for folder in (data.spawner, data.logs_root, data.root / "slots", data.root / "jobs"):
        folder.mkdir()
    filler = filled(disk)
    freeing = threading.Timer(2.0, filler.unlink)
    freeing.start()
    begun_s = time.monotonic()
    with launch.ensure(data):
        took_s = time.monotonic() - begun_s
    assert took_s >= 2.0
    timely(took_s, 8.0, "its start")
    os.kill(int((data.spawner / "lock").read_text()), signal.SIGKILL)
