"""A node whose disk fills up goes on: it answers from what it stored, refuses what it could not store, loses no end of
a job, and takes new work again once there is room, without anybody's help; so does one that is started on a full disk
(PROMISES section 3, full disk)."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from diana.adapters.datadir import LEAST_FREE_BYTES
from diana.adapters.sqlite_store.store import SqliteStore
from diana.client import Client
from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, Starts, free_port, outcomes, until
from tests.real.pairs import add_standby, in_sync

pytestmark = pytest.mark.e2e

DISK_BYTES = LEAST_FREE_BYTES + (96 << 20)


class OnSmallDisk(Site):
    """A site with a disk of its own, which may complain that it is full."""

    def complaints(self) -> list[str]:
        return [
            line
            for line in super().complaints()
            if not re.search(r"the disk is full|new work takes|there is room", line)
        ]


@pytest.fixture
def small() -> Iterator[tuple[Grid, OnSmallDisk]]:
    if os.getuid():
        pytest.skip("mounting takes root")
    grid = Grid()
    disk = grid.root / "alpha"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "diana", str(disk)], check=True)
    try:
        site = grid.add("alpha", slots=2)
        site.__class__ = OnSmallDisk
        assert isinstance(site, OnSmallDisk)
        yield grid, site
    finally:
        try:
            grid.close()
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
            shutil.rmtree(grid.root, ignore_errors=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Somebody takes every byte of the disk, also those that are given up meanwhile."""
    filler, over = disk / "filler", threading.Event()

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            while not over.is_set():
                free = os.statvfs(disk)
                for size in (free.f_bavail * free.f_frsize, 1 << 16, 1 << 12):
                    with suppress(OSError):
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, max(1, size))
                time.sleep(0.01)

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        yield
    finally:
        over.set()
        filling.join()
        filler.unlink()


def test_work_of_a_restored_site_that_was_released_is_not_told_as_held_on_a_full_disk(
    small: tuple[Grid, OnSmallDisk],
) -> None:
    """The engine that answers then is made as at a start, but the store was put back before, and once."""
    grid, alpha = small
    starts = Starts(grid)
    alpha.start()
    with alpha.client() as client:
        client.submit(starts.job(2, then=["sleep", "600"]))
        starts.wait_for(2)
        waits = client.submit(starts.job(4, then=["sleep", "600"])).group
    alpha.kill()
    alpha.kill_spawner()
    store = SqliteStore(alpha.paths.journal)
    store.set_meta("restored_from", store.meta("db_uuid"))
    store.close()
    alpha.start()
    with alpha.client() as client:
        assert client.status([waits])[0].unreachable == 4
        client.release(waits)
        until(lambda: client.status([waits])[0].unreachable == 0, "its work is released", 20.0)
    with full(alpha.data):
        until(lambda: not os.statvfs(alpha.data).f_bavail, "it is full", 20.0)
        for order in itertools.cycle(("hold", "release")):
            if grid.run(alpha, order, waits, "--data", str(alpha.data)).returncode:
                break
        with alpha.client() as client:
            assert client.status([waits])[0].unreachable == 0
    with alpha.client() as client:
        until(lambda: _cancelled(client, waits), "orders are taken again", 20.0)


def _cancelled(client: Client, group: str) -> bool:
    with suppress(DianaError):
        client.cancel(group)
    return client.status([group])[0].state == "cancelled"


def test_a_full_disk_costs_nothing_that_was_promised_and_ends_by_itself(small: tuple[Grid, OnSmallDisk]) -> None:
    grid, alpha = small
    starts = Starts(grid)
    go = grid.root / "go"
    job_file = grid.root / "job.toml"
    job_file.write_text('[group]\ncommand = ["true"]\n')
    alpha.start()

    def diana(*words: str) -> subprocess.CompletedProcess[str]:
        return grid.run(alpha, *words, "--data", str(alpha.data), within_s=20.0)

    with alpha.client() as client:
        done = client.submit(starts.job(3)).group
        client.wait(done, timeout_s=30)
        runs = client.submit(starts.job(2, then=["sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done"])).group
        waits = client.submit(starts.job(2)).group
        starts.wait_for(5)
    with full(alpha.data):
        refused = until(lambda: (r := diana("submit", str(job_file))).returncode and r, "work is refused", 30.0)
        assert refused.returncode == 4 and len(refused.stderr.splitlines()) == 1, refused.stderr
        assert "MiB free" in refused.stderr
        until(lambda: not (alpha.data / "ballast").exists() and not os.statvfs(alpha.data).f_bavail, "it is full", 20.0)
        go.touch()
        until(lambda: not alpha.jobs_alive(), "the jobs that ran have ended", 20.0)
        for order in itertools.cycle(("hold", "release")):
            refused = diana(order, waits)
            if refused.returncode:
                break
        assert refused.returncode == 4 and "the disk is full" in refused.stderr, refused.stderr
        assert len(refused.stderr.splitlines()) == 1, refused.stderr
        for words in (("status", done), ("status",), ("explain", done), ("results", done), ("status", runs)):
            said = diana(*words)
            assert said.returncode == 0, f"{words}: {said.stderr}"
        assert "done" in diana("status", done).stdout
        assert "done" not in diana("status", runs).stdout, "an end is told that is not stored"
        refused = diana("submit", str(job_file))
        assert refused.returncode == 4 and "0 MiB free" in refused.stderr, refused.stderr
        alpha.assert_runs()
        assert not (alpha.data / "ballast").exists()
    until(lambda: diana("release", waits).returncode != 4, "orders are taken again", 10.0)
    with alpha.client() as client:
        for group, jobs in ((runs, 2), (waits, 2)):
            client.wait(group, timeout_s=30)
            assert set(outcomes(client, group).values()) == {"done"} and len(outcomes(client, group)) == jobs
        until((alpha.data / "ballast").exists, "the ballast lies there again", 10.0)
        until(lambda: not diana("submit", str(job_file)).returncode, "work is taken again", 10.0)
    assert starts.count() == 7
    alpha.kill()
    alpha.start()
    with alpha.client() as client:
        assert {view.group: view.state for view in client.status([done, runs, waits])} == dict.fromkeys(
            (done, runs, waits), "done"
        )


def test_a_standby_whose_disk_fills_up_follows_again_when_it_is_freed() -> None:
    if os.getuid():
        pytest.skip("mounting takes root")
    grid = Grid()
    disk = grid.root / "spare"
    alpha = grid.add("alpha", slots=2)
    spare = OnSmallDisk("spare", disk, free_port(), grid.mark)
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "diana", str(disk)], check=True)
    add_standby(grid, alpha, "", made=spare)
    starts = Starts(grid)
    try:
        alpha.start()
        spare.launch()
        in_sync(alpha, other=spare)
        with full(disk):
            until(lambda: not os.statvfs(disk).f_bavail, "it is full", 20.0)
            with alpha.client() as client:
                client.wait(client.submit(starts.job(4)).group, timeout_s=30)
            until(lambda: "the node begins anew" in spare.output.read_text(), "it waits", 60.0)
            time.sleep(3.0)
            spare.assert_runs()
        in_sync(alpha, other=spare)
        spare.assert_runs()
        assert starts.count() == 4
    finally:
        try:
            grid.close()
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


JOBS = 40
FILLS = 'until [ -e "$0" ]; do cat /dev/zero; sleep 0.02; done 2>/dev/null; : > o'


def forty(alpha: OnSmallDisk, starts: Starts, jobs: int = JOBS) -> str:
    """The group of the jobs, some of which have begun."""
    with alpha.client() as client:
        group = client.submit(starts.job(jobs, then=["sleep", "0.2"])).group
    starts.wait_for(4)
    return group


def each_once(grid: Grid, alpha: OnSmallDisk, starts: Starts, *groups: str) -> None:
    with alpha.client() as client:
        ended: list[str] = []
        for group in groups:
            client.wait(group, timeout_s=60)
            ended += outcomes(client, group).values()
        assert ended == ["done"] * JOBS and starts.count() == JOBS, alpha.story()
        until((alpha.data / "ballast").exists, "the ballast lies there again", 10.0)


def is_full(disk: Path) -> bool:
    return not os.statvfs(disk).f_bavail and not (disk / "ballast").exists()


def test_jobs_on_a_disk_that_one_of_them_fills_end_once_when_it_is_freed(small: tuple[Grid, OnSmallDisk]) -> None:
    grid, alpha = small
    starts, go, job_file = Starts(grid), grid.root / "go", grid.root / "job.toml"
    job_file.write_text('[group]\ncommand = ["true"]\n')
    alpha.start()
    with alpha.client() as client:
        fills = client.submit(starts.job(1, then=["sh", "-c", FILLS, str(go)], stdout="o")).group
    group = forty(alpha, starts, JOBS - 1)
    until(lambda: is_full(alpha.data), "the job has filled it", 20.0)
    said = grid.run(alpha, "submit", str(job_file), "--data", str(alpha.data))
    assert said.returncode == 4 and len(said.stderr.splitlines()) == 1, said.stderr
    assert re.search(rf"the largest: [0-9]+ MiB of job {fills}.0[,;]", said.stderr), said.stderr
    assert "diana cancel" not in said.stderr, "an order finds no room"
    row = grid.run(alpha, "doctor", "--data", str(alpha.data)).stdout
    assert f"MiB o of job {fills}.0" in row and "free space there" in row, row
    time.sleep(2.0)
    alpha.assert_runs()
    go.touch()
    each_once(grid, alpha, starts, fills, group)


def test_jobs_on_a_disk_that_a_neighbour_fills_end_once_when_it_is_freed(small: tuple[Grid, OnSmallDisk]) -> None:
    grid, alpha = small
    starts = Starts(grid)
    alpha.start()
    group = forty(alpha, starts)
    with full(alpha.data):
        until(lambda: is_full(alpha.data), "it is full", 20.0)
        time.sleep(3.0)
        alpha.assert_runs()
    each_once(grid, alpha, starts, group)


@pytest.mark.parametrize("spawner", ["lives", "stopped"])
@pytest.mark.parametrize("ballast", [True, False])
def test_jobs_of_a_node_that_is_started_on_a_full_disk_end_once_when_it_is_freed(
    small: tuple[Grid, OnSmallDisk], spawner: str, ballast: bool
) -> None:
    grid, alpha = small
    starts = Starts(grid)
    alpha.start()
    group = forty(alpha, starts)
    if spawner == "lives":
        alpha.kill()
    else:
        alpha.terminate()
        until(lambda: not alpha.spawner_pid(), "the spawner goes when nobody needs it", 30.0)
    if not ballast:
        (alpha.data / "ballast").unlink()
    with full(alpha.data):
        until(lambda: not os.statvfs(alpha.data).f_bavail, "it is full", 20.0)
        alpha.launch()
        until(lambda: is_full(alpha.data), "the ballast is gone too", 20.0)
        time.sleep(4.0)
        alpha.assert_runs()
    alpha.ready()
    each_once(grid, alpha, starts, group)


def test_a_node_without_ballast_says_what_it_waits_for_and_begins_when_there_is_room(
    small: tuple[Grid, OnSmallDisk],
) -> None:
    _, alpha = small
    alpha.start()
    assert alpha.terminate() == 0
    (alpha.data / "ballast").unlink()
    alpha.output.unlink()
    with full(alpha.data):
        until(lambda: not os.statvfs(alpha.data).f_bavail, "it is full", 20.0)
        alpha.launch()
        until(lambda: alpha.output.exists() and alpha.output.read_text().count("\n"), "it says so", 20.0)
        assert re.fullmatch(
            rf"diana: {alpha.data}: the disk is full \([0-9]+ KiB free there, a node begins with 4 MiB\); "
            r"the largest: [0-9]+ MiB filler; free space there; the node begins by itself when there is room\n",
            alpha.output.read_text(),
        ), alpha.output.read_text()
    alpha.ready()
