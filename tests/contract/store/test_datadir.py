"""The data directory on a real disk: one holder, tight modes, room for results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from diana.adapters import datadir
from diana.adapters.datadir import OpenDataDir, file_system_of
from diana.adapters.filling import Filling, largest, told
from diana.errors import StoreBusy, UsageError

_ROOT = Path(__file__).parents[3]
_HOLD = (
    "import sys, time; from pathlib import Path; from diana.adapters.datadir import OpenDataDir\n"
    "held = OpenDataDir(Path(sys.argv[1]), ballast_bytes=4096)\n"
    "print('held', flush=True)\n"
    "time.sleep(60)\n"
)


def _hold(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )


def test_two_processes_refuse_to_share_and_the_second_names_the_first(tmp_path: Path) -> None:
    first = _hold(tmp_path / "d")
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    try:
        with pytest.raises(StoreBusy) as caught:
            OpenDataDir(tmp_path / "d")
        assert str(caught.value) == (
            f"{tmp_path / 'd'}: in use by node process {first.pid}; stop it (kill {first.pid}) "
            "or name another data directory"
        )
        second = _hold(tmp_path / "d")
        _, err = second.communicate(timeout=60)
        assert f"in use by node process {first.pid}" in err
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    OpenDataDir(tmp_path / "d").close()


def test_a_second_node_by_mistake_takes_no_ballast_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _hold(tmp_path / "d")
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    try:
        assert (tmp_path / "d" / "ballast").exists()
        monkeypatch.setattr(OpenDataDir, "free_bytes", lambda self: 0)
        with pytest.raises(StoreBusy):
            OpenDataDir(tmp_path / "d", ballast_bytes=4096)
        assert (tmp_path / "d" / "ballast").exists()
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()


def test_a_child_that_was_spawned_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = OpenDataDir(tmp_path / "d", ballast_bytes=4096)
    child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        held.close()
        OpenDataDir(tmp_path / "d", ballast_bytes=4096).close()
    finally:
        child.kill()
        child.wait()


def test_the_tree_is_closed_to_others_and_mended_where_it_was_open(tmp_path: Path) -> None:
    root = tmp_path / "d"
    (root / "keys").mkdir(parents=True)
    (root / "keys").chmod(0o755)
    OpenDataDir(root, ballast_bytes=4096).close()
    modes = {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*")}
    assert modes.pop("control") == 0o750
    assert modes.pop("lock") == modes.pop("ballast") == 0o600
    assert set(modes.values()) == {0o700}
    assert {"keys", "spawner", "logs", "jobs", "slots", "cache", "blobs"} <= set(modes)
    assert root.stat().st_mode & 0o777 == 0o700


def test_new_work_is_refused_below_either_bound_and_the_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others write on this disk while the test looks.
    room = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    free_mib = room.f_bavail * room.f_frsize >> 20
    held = OpenDataDir(tmp_path / "d", least_free_fraction=0.0, least_free_bytes=1, ballast_bytes=4096)
    assert held.low_space() == ""
    held.close()
    for bounds in ({"least_free_fraction": 1.0}, {"least_free_bytes": 1 << 60}):
        held = OpenDataDir(tmp_path / "d", ballast_bytes=4096, **bounds)  # type: ignore[arg-type]
        assert held.low_space().startswith(f"{tmp_path / 'd'}: {free_mib} MiB free, new work takes")
        held.close()


def _filled(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)


def test_the_largest_files_are_named_with_the_jobs_they_belong_to(tmp_path: Path) -> None:
    root = tmp_path / "d"
    held = OpenDataDir(root, least_free_bytes=1 << 60, ballast_bytes=4096)
    assert held.low_space().endswith(" MiB; free space there, or end what fills it: diana cancel")
    held.close()
    for size, path, name, owner in (
        (2 << 20, "logs/alpha-2/0-1", "log", "group alpha-2"),
        (3 << 20, "collected/alpha-2_0/e1/a/b.dat", "a/b.dat", "group alpha-2"),
        (4 << 20, "groups/alpha-4/outputs/b", "b", "group alpha-4"),
        (5 << 20, "filler\n", "filler?", ""),
        (6 << 20, f"jobs/alpha-3_0/e1/17/{'o' * 90}", f"{'o' * 77}...", "job alpha-3.17"),
        (7 << 20, "slots/0/o", "slots/0/o", "a job"),
    ):
        _filled(root / path, size)
        found = largest(root)
        assert found[0] == (size, name, owner)
        # Whose jobs they are is for all who are refused; how these name their files is not.
        most, shown = f"; the largest: {size >> 20} MiB", f" of {owner}" if owner else f" {name}"
        assert told(found).startswith(most + shown) and told(found, names=True).startswith(f"{most} {name}")
    assert told(largest(root)).count(",") == 2
    # A sparse file takes nothing, and a link is none of its own.
    os.truncate(root / "slots" / "0" / "o", 1 << 40)
    (root / "cache" / "o").hardlink_to(root / "slots" / "0" / "o")
    assert told(largest(root)).count("7 MiB") == 1
    # What a running job writes into its scratch directory is its own.
    job = subprocess.Popen(["sleep", "60"], cwd=root / "slots" / "0", env={"DIANA_JOB": "alpha-5.1"})
    try:
        assert told(largest(root)).startswith("; the largest: 7 MiB of job alpha-5.1, 6 MiB of job")
        assert told(largest(root), names=True).startswith("; the largest: 7 MiB o of job alpha-5.1, 6 MiB o")
    finally:
        job.kill()
        job.wait()


def test_a_million_names_are_not_looked_at_for_the_largest(tmp_path: Path) -> None:
    for number in range(300):
        _filled(tmp_path / "jobs" / "alpha-1_0" / "e1" / str(number) / "o", 1)
    _filled(tmp_path / "logs" / "alpha-1" / "0-1", 2 << 20)
    # Behind all its neighbours: of the folders of one, that which was read first is looked at last.
    index = os.listdir(tmp_path / "jobs" / "alpha-1_0" / "e1")[0]
    folder = tmp_path / "jobs" / "alpha-1_0" / "e1" / index
    _filled(folder / "big", 3 << 20)
    # Each part of the directory has its share, and the folder of a running job goes before all.
    assert [one.owner for one in largest(tmp_path, 150)] == ["group alpha-1"]
    assert largest(tmp_path, 0) == []
    job = subprocess.Popen(["sleep", "60"], cwd=folder)
    try:
        assert [one.owner for one in largest(tmp_path, 150)] == [f"job alpha-1.{index}", "group alpha-1"]
    finally:
        job.kill()
        job.wait()


@pytest.mark.parametrize(
    "said",
    ["x\n2026 CRITICAL a line of its own", "alpha-1." + "1" * 10_000, "alpha-1.", "alpha-1.²", "alpha-01.3", "al.3"],
)
def test_a_process_that_calls_its_job_as_it_likes_is_not_told_of_to_others(tmp_path: Path, said: str) -> None:
    folder = tmp_path / "slots" / "1"
    folder.mkdir(parents=True)
    _filled(folder / "big", 2 << 20)
    job = subprocess.Popen(["sleep", "60"], cwd=folder, env={"DIANA_JOB": said})
    try:
        assert told(largest(tmp_path)) == "; the largest: 2 MiB of a job"
    finally:
        job.kill()
        job.wait()


def test_a_folder_that_stands_for_a_group_is_told_of_on_one_short_line(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / ("x\n" + "y" * 200)
    folder.mkdir(parents=True)
    _filled(folder / "big", 2 << 20)
    line = told(largest(tmp_path))
    assert line.isprintable() and len(line) < 120


def test_who_is_refused_often_makes_nobody_look_again(tmp_path: Path) -> None:
    now = [0.0]
    filling = Filling(tmp_path, lambda: now[0])
    assert filling.said() == ""
    _filled(tmp_path / "f", 2 << 20)
    assert filling.said() == ""
    now[0] = 60.0
    assert filling.said() == "; the largest: 2 MiB f"


def test_the_ballast_is_real_blocks_given_up_once_and_laid_in_again(tmp_path: Path) -> None:
    held = OpenDataDir(tmp_path / "d", least_free_fraction=0.0, least_free_bytes=1)
    assert held.ballast.stat().st_blocks * 512 >= 16 << 20
    assert held.release_ballast() == 16 << 20
    assert held.release_ballast() == 0
    assert held.restore_ballast()
    assert held.ballast.stat().st_size == 16 << 20
    held.close()


def test_the_ballast_goes_when_hardly_more_is_left_and_comes_back_with_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = OpenDataDir(tmp_path / "d", least_free_fraction=0.0, least_free_bytes=1 << 20, ballast_bytes=8192)
    for free, stays in ((1 << 19, True), (8191, False), (1 << 19, False), (1 << 21, True)):
        low = "low" if free < 1 << 20 else ""
        monkeypatch.setattr(held, "free_bytes", lambda free=free: free)
        monkeypatch.setattr(held, "low_space", lambda low=low: low)
        assert held.keep_room() == low
        assert held.ballast.exists() == stays, free
    held.close()


def test_no_ballast_is_laid_in_where_space_is_low(tmp_path: Path) -> None:
    held = OpenDataDir(tmp_path / "d", least_free_bytes=1 << 60)
    assert not held.restore_ballast()
    assert not held.ballast.exists()
    held.close()


def test_a_file_in_the_way_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("")
    with pytest.raises(UsageError, match=r"d: File exists; name a data directory this account can write"):
        OpenDataDir(tmp_path / "d")


_MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / /home rw,relatime shared:9 - nfs4 server:/home rw
41 40 0:36 / /home/local rw - xfs /dev/vdb rw
42 22 0:37 / /with\\040space rw - cifs //server/share rw
43 22 0:38 / /over rw - ext4 /dev/vdc rw
44 43 0:39 / /over rw - fuse.sshfs host: rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/diana", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/diana", "nfs4"),
        ("/homes/ann", "ext4"),
        ("/home/local/diana", "xfs"),
        ("/with space/d", "cifs"),
        ("/over/d", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(Path(path), _MOUNTS) == kind


def test_a_machine_that_does_not_say_is_believed() -> None:
    assert file_system_of(Path("/x"), "") == ""


def test_a_directory_that_cannot_be_seen_for_a_while_takes_no_new_work_and_one_that_was_moved_ends_its_node(
    tmp_path: Path,
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    held = OpenDataDir(home / "d", least_free_fraction=0.0, least_free_bytes=1, ballast_bytes=4096)
    assert held.keep_room() == ""
    home.rename(away)
    home.symlink_to(home)
    assert held.keep_room().startswith(f"{home / 'd'}: Too many levels of symbolic links; new work is taken when")
    home.unlink()
    back = threading.Timer(0.3, away.rename, (home,))
    back.start()
    assert held.keep_room() == ""
    back.join()
    home.rename(away)
    with pytest.raises(UsageError, match="moved or deleted while its node ran"):
        held.keep_room()
    assert not home.exists()
    held.close()


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
def test_a_journal_that_is_watched_must_stay_the_file_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(datadir, "_LOOK_EVERY_S", 0.01)
    path, away = tmp_path / "d" / name, tmp_path / "away"
    for fate, go, mend in (
        ("moved away", lambda: path.rename(away), "put it back"),
        ("moved away, and another file lies in its place", lambda: (path.rename(away), path.touch()), "put it back"),
        ("deleted", lambda: path.unlink(), "move the directory aside, and `diana restore`"),
        ("deleted, and another file lies in its place", lambda: (away.touch(), away.replace(path)), "move the dir"),
    ):
        held = OpenDataDir(tmp_path / "d", ballast_bytes=4096)
        for there in ("journal.db", "journal.db-wal"):
            (tmp_path / "d" / there).touch()
        held.watch_journal()
        held.check_place()
        go()
        for _ in range(2):
            with pytest.raises(UsageError) as caught:
                held.check_place()
            assert str(caught.value).startswith(f"{path}: the journal was {fate} while its node ran; {mend}")
        held.close()
        held = OpenDataDir(tmp_path / "d", ballast_bytes=4096)
        held.watch_journal()
        held.watch_journal(False)
        path.unlink(missing_ok=True)
        held.check_place()
        held.close()


def test_a_node_begins_only_where_there_is_room_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = OpenDataDir(tmp_path / "d", ballast_bytes=4096)
    _filled(tmp_path / "d" / "f", 2 << 20)
    for free, lacks in ((4 << 20, ""), ((4 << 20) - 1, "4095"), (0, "0")):
        monkeypatch.setattr(held, "free_bytes", lambda free=free: free)
        said = f"{held.paths.root}: the disk is full ({lacks} KiB free there, a node begins with 4 MiB); "
        assert held.lacks_room_to_begin() == (lacks and f"{said}the largest: 2 MiB f; free space there")
    held.close()


@pytest.mark.parametrize("deleted", [True, False])
def test_a_file_that_a_job_has_open_and_deleted_or_elsewhere_on_the_disk_is_named(
    tmp_path: Path, deleted: bool
) -> None:
    root = tmp_path / "site"
    (root / "spawner").mkdir(parents=True)
    spawner = os.stat(root / "spawner")
    path = (root if deleted else tmp_path) / "big"
    path.write_bytes(bytes(5 << 20))
    environment = {"DIANA_RUN": f"{spawner.st_dev}-{spawner.st_ino}:alpha-3/0:1:17:1", "DIANA_JOB": "alpha-3.17"}
    with path.open("rb") as file:
        reader = subprocess.Popen(["/bin/cat", "/dev/stdin", "-"], stdin=file, stdout=subprocess.PIPE, env=environment)
    try:
        # It waits for its pipe to be read.
        assert reader.stdout is not None and reader.stdout.read(1)
        if deleted:
            path.unlink()
        assert told(largest(root)) == "; the largest: 5 MiB of job alpha-3.17"
        assert told(largest(root), names=True) == f"; the largest: 5 MiB {shown(path, deleted)} of job alpha-3.17"
    finally:
        reader.kill()
        reader.communicate()


def shown(path: Path, deleted: bool) -> str:
    name = f"{path} (deleted)" if deleted else str(path)
    return name if len(name) <= 80 else f"{name[:77]}..."
