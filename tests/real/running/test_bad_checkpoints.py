"""Checkpoints and reports that are not what they should be, with real nodes (SPEC G5, G6): a command that does not read
its checkpoint, a file that was changed, a disk without room, and reports without end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, timely, until
from tests.e2e.test_hold_retry import diana
from tests.real.faults.test_full_disk_freed import DISK_BYTES, OnSmallDisk, full
from tests.real.running.test_checkpoints import pair

pytestmark = pytest.mark.e2e

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from diana import report
log, steps, kind, megabytes = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
step = 0
if os.environ.get("DIANA_CHECKPOINT") and kind != "ignores":
    step = int(open("state", "rb").readline())
while step < steps:
    end = time.monotonic() + 0.2
    told = step
    while True:
        told += 1e-6 if kind == "floods" else 0
        report(told, steps)
        left = end - time.monotonic()
        if left <= 0:
            break
        if kind != "floods":
            time.sleep(left)
    step += 1
    with open(log, "a") as out:
        print(step, os.environ["DIANA_SITE"], os.environ["DIANA_ATTEMPT"], file=out, flush=True)
    while kind == "waits" and step == steps // 2 and os.environ["DIANA_ATTEMPT"] == "1" and not asked:
        time.sleep(0.1)
    if asked and kind == "waits":
        open(log + ".asked", "w").close()
        while not os.path.exists(log + ".save"):
            time.sleep(0.1)
    if asked:
        with open("state", "wb") as out:
            out.write(b"%d\\n" % step + os.urandom(megabytes << 20))
        open(log + ".stopped", "w").close()
        sys.exit(85)
open("answer", "w").write(str(step))
"""


def job(folder: Path, steps: int, kind: str = "", megabytes: int = 0, **group: object) -> dict[str, object]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    root = str(Path(__file__).resolve().parents[3])
    words = [sys.executable, str(program), root, str(folder / "log"), str(steps), kind or "plain", str(megabytes)]
    return {
        "group": {"command": words, "bind": "early", **group},
        "resources": {"work": 0.2 * steps},
        "outputs": {"collect": ["answer"]},
        "checkpoint": {"paths": ["state"]},
        "contract": {"window": 3, "move": False},
    }


def ran(folder: Path) -> list[tuple[int, str, int]]:
    log = folder / "log"
    rows = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
    return [(int(step), site, int(attempt)) for step, site, attempt in rows]


def test_a_command_that_ignores_its_checkpoint_is_named_by_its_first_reports(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    with alpha.client() as client:
        group = client.submit(job(tmp_path, 50, "ignores")).group
        until(lambda: bool((rows := client.explain(group).contracts) and rows[0].done >= 20), grid.story, 30, 0.2)
        site = ran(tmp_path)[-1][1]
        client.move(group, "beta" if site == "alpha" else "alpha")
        until(lambda: "began anew" in client.status([group])[0].note, lambda: f"{client.status([group])}", 20, 0.2)
        note = client.status([group])[0].note
        assert note.startswith(f"{group}.0 was given its checkpoint at ") and "DIANA_CHECKPOINT" in note, note
        (row,) = client.explain(group).contracts
        assert row.attempt == 2 and row.state in ("kept", "slow") and row.mean_ratio > 0
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"


def test_reports_without_end_leave_the_node_responsive(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        groups = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            groups.append(client.submit(job(folder, 40, "floods")).group)
        until(lambda: all(client.explain(group).contracts for group in groups), grid.story, 20, 0.2)
        slowest_s = 0.0
        for _ in range(40):
            began_s = time.monotonic()
            client.status(groups)
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            time.sleep(0.05)
        journal = sum(path.stat().st_size for path in alpha.data.rglob("*.db*"))
        print(f"slowest answer {slowest_s:.3f} s, database {journal} bytes")
        timely(slowest_s, 3.0, "an answer")
        assert journal < 30 << 20
        for group in groups:
            status = client.wait(group, timeout_s=60)
            assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"


def saved_and_waiting(grid: Grid, folder: Path) -> tuple[Site, Site, str, Path]:
    """A job that stopped at a checkpoint at beta, which is drained, and has nowhere to go; its file at alpha."""
    alpha, beta = grid.add("alpha", 0), grid.add("beta", 1)
    grid.join()
    grid.start()
    with alpha.client() as client:
        group = client.submit(job(folder, 30)).group
        until(lambda: len(ran(folder)) > 10, grid.story, 20)
        diana(beta, "site", "drain", "--reason", "a new kernel")
        until(lambda: not client.status([group])[0].running, grid.story, 20)

        (blob,) = until(lambda: files_below(alpha), lambda: str(client.status([group])), 20)
    return alpha, beta, group, blob


def files_below(site: Site) -> set[Path]:
    """The files of checkpoints that are home."""
    return {path for path in (site.data / "blobs").rglob("*") if path.is_file()}


def change(blob: Path) -> None:
    """Have it say that twenty steps more were done."""
    done = int(blob.read_bytes().split()[0])
    blob.chmod(0o644)
    blob.write_bytes(b"%d\n" % (done + 20))


def test_a_checkpoint_that_was_changed_is_not_restored_and_its_job_begins_anew(grid: Grid, tmp_path: Path) -> None:
    alpha, beta, group, blob = saved_and_waiting(grid, tmp_path)
    stopped_at = len(ran(tmp_path))
    change(blob)
    diana(beta, "site", "undrain")
    with alpha.client() as client:
        until(lambda: client.status([group])[0].final, lambda: f"{client.status([group])}\n{grid.story()}", 120, 0.3)
        (status,) = client.status([group])
        assert (status.state, status.done) == ("done", 1), status
        why = f"checkpoint {group}.0@1 is not used: "
        assert status.note.startswith(why) and "checksum differs from the one promised" in status.note, status.note
        assert status.note.endswith("; it begins anew")
        assert why in str(client.explain(group).decisions[-1]), "the placement says it, too"
    assert [step for step, _, _ in ran(tmp_path)[stopped_at:]] == list(range(1, 31))


def test_one_that_is_changed_where_home_runs_the_job_gives_way_to_the_one_before(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    known: set[Path] = set()
    with alpha.client() as client:
        group = client.submit(job(tmp_path, 25)).group

        def save() -> tuple[Path, int]:
            """Have it stop at a checkpoint, and wait; return its file and its last step."""
            steps = len(ran(tmp_path))
            until(lambda: len(ran(tmp_path)) > steps + 3, grid.story, 40)
            diana(alpha, "site", "drain", "--reason", "a new kernel")
            until(lambda: not client.status([group])[0].running, grid.story, 30)
            fresh = until(lambda: files_below(alpha) - known, lambda: str(client.status([group])), 30)
            known.update(fresh)
            (blob,) = fresh
            return blob, ran(tmp_path)[-1][0]

        def goes_on_from(step: int) -> None:
            count = len(ran(tmp_path))
            diana(alpha, "site", "undrain")
            until(lambda: len(ran(tmp_path)) > count, lambda: f"{client.status([group])}\n{grid.story()}", 60)
            assert ran(tmp_path)[count][0] == step + 1

        _, first = save()
        goes_on_from(first)
        blob, second = save()
        assert second > first
        change(blob)
        goes_on_from(first)
        assert "its checkpoint's state was changed since it was saved" in client.status([group])[0].note
        assert f"it goes on from {group}.0@1" in client.status([group])[0].note
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"


@pytest.fixture
def tight() -> Iterator[tuple[Grid, Path]]:
    """Two sites, the first of which has a disk of its own with little room."""
    if os.getuid():
        pytest.skip("mounting takes root")
    grid = Grid()
    disk = grid.root / "alpha"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "diana", str(disk)], check=True)
    try:
        yield grid, disk
    finally:
        try:
            for site in grid.sites.values():
                site.__class__ = OnSmallDisk
            grid.close()
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
            shutil.rmtree(grid.root, ignore_errors=True)


STEPS = 60


def test_a_checkpoint_that_comes_home_to_a_full_disk_waits_for_room(tight: tuple[Grid, Path], tmp_path: Path) -> None:
    grid, disk = tight
    alpha, beta = grid.add("alpha", 0), grid.add("beta", 1)
    grid.join()
    grid.start()

    with alpha.client() as client:
        group = client.submit(job(tmp_path, STEPS, "waits", megabytes=8)).group
        until(lambda: len(ran(tmp_path)) > 8, grid.story, 20)
        diana(beta, "site", "drain", "--reason", "a new kernel")
        until((tmp_path / "log.asked").exists, "it is asked", 40)
        with full(disk):
            until(lambda: os.statvfs(disk).f_bavail == 0, "it is full", 20)
            (tmp_path / "log.save").touch()
            until((tmp_path / "log.stopped").exists, "it stopped", 30)
            time.sleep(3.0)
            print("while full:", client.status([group]))
        diana(beta, "site", "undrain")
        until(lambda: ran(tmp_path)[-1][2] > 1, lambda: f"{client.status([group])}\n{grid.story()}", 40)
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    assert [step for step, _, _ in ran(tmp_path)] == list(range(1, STEPS + 1)), "it went on from that checkpoint"
