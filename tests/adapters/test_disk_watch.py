"""The walk that holds jobs to their scratch (`spawner/behind/disk.py`), a few files at a time."""

from __future__ import annotations

import time
from pathlib import Path

from diana.adapters.lrm.spawner.behind.disk import LOOK_S, DiskWatch
from diana.adapters.lrm.spawner.claims.records import Claimed
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Claim, Job

MIB = 1 << 20


class Room:
    """A job that asked for 10 MiB, with a scratch directory and one of its own."""

    def __init__(self, root: Path, look_s: float = LOOK_S) -> None:
        self.scratch, self.own = root / "scratch", root / "own"
        self.scratch.mkdir()
        self.own.mkdir()
        self.ahead_s = 0.0
        self.watch = DiskWatch(
            lambda job: (str(self.scratch), str(self.own)), lambda: time.time() + self.ahead_s, look_s
        )
        record = Claimed(
            number=1, subgroup="alpha-1/0", epoch=1, group="alpha-1", processors=1, time_limit_s=0.0,
            log_limit_bytes=1, own_directory=True, indices=[0], attempts=[1], collects=[], scratch_bytes=10 * MIB,
        )  # fmt: skip
        self.job = Job(Claim(record, None, {}), 0, 1)

    def begin(self) -> None:
        self.job.started_s = boot_s()

    def is_over(self) -> bool:
        return self.watch.over([self.job]) == [self.job]

    def fill(self, folder: Path, files: int) -> None:
        folder.mkdir(exist_ok=True)
        for number in range(files):
            (folder / f"{number}").touch()


def test_inputs_and_what_was_left_there_are_no_part_of_it_though_the_clock_is_set_back_while_the_job_runs(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path)
    (room.own / "input").write_bytes(bytes(20 * MIB))
    (room.scratch / "of another account").write_bytes(bytes(20 * MIB))
    room.begin()
    assert not room.is_over()
    room.ahead_s = -3600.0
    assert not room.is_over() and not room.is_over()
    (room.own / "written").write_bytes(bytes(20 * MIB))
    assert room.is_over() and room.job.over_disk_bytes == 20 * MIB


def test_a_file_that_makes_room_for_another_while_a_walk_is_under_way_does_not_count_beside_it(tmp_path: Path) -> None:
    room = Room(tmp_path, look_s=0.0)
    room.begin()
    (room.own / "first").write_bytes(bytes(6 * MIB))
    room.fill(room.own / "small", 60)
    assert not room.is_over(), "the walk stands among the small files"
    (room.own / "first").unlink()
    (room.scratch / "second").write_bytes(bytes(6 * MIB))
    assert not any(room.is_over() for _ in range(10))
    (room.own / "first").write_bytes(bytes(6 * MIB))
    assert any(room.is_over() for _ in range(10)) and room.job.over_disk_bytes == 12 * MIB


def test_a_job_that_was_found_over_is_told_of_once_and_one_that_ended_is_forgotten(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.begin()
    (room.scratch / "big").write_bytes(bytes(11 * MIB))
    assert room.is_over() and not room.is_over()
    assert room.watch.over([]) == [] and not room.watch._began_s and not room.watch._walks
