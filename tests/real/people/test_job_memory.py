"""Memory of jobs at a real site: what a user types and is told, with control groups and where none can be made."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.lrm.cgroups.found import UNIFIED, place
from tests.contract.lrm_builders import remove_groups
from tests.e2e.grid import Grid, Site, is_alive, until

pytestmark = pytest.mark.e2e

FOUR = """
import subprocess, sys
code = "b = bytes(range(256)) * (120 << 12); import time; time.sleep(600)"
children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
children[0].wait()
"""
THREADS = """
import threading
threads = [threading.Thread(target=threading.Event().wait, args=(2,)) for _ in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(threads))
"""
LEAVES = """
import os, sys, time
taken, then, path = sys.argv[1:]
code = f"import os, time; open({path!r}, 'w').write(str(os.getpid())); "
code += f"b = bytes(range(256)) * ({taken} << 12); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", code], {})
    os._exit(0)
os.wait()
while not (os.path.exists(path) and open(path).read()): time.sleep(0.02)
time.sleep(float(then))
"""
"""A daemon that left its session and its parent, and wiped its environment."""


def typed(site: Site, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "diana.cli", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**site.environment(), "DIANA_DATA": str(site.data)},
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done
    return done.stdout


def submitted(site: Site, *words: str, code: int = 0) -> str:
    said = json.loads(typed(site, "submit", "--json", *words, code=code).splitlines()[0])
    return str(said["group"])


def end_of(site: Site, group: str) -> dict[str, object]:
    (row,) = [json.loads(line) for line in typed(site, "results", "--json", group).splitlines()]
    return dict(row)


def groups_row(site: Site) -> str:
    checks = json.loads(typed(site, "doctor", "--json"))["checks"]
    return next(str(check["found"]) for check in checks if check["name"] == "cgroups")


@pytest.fixture
def alpha(grid: Grid) -> Iterator[Site]:
    site = grid.add("alpha", 2)
    yield site
    if site.spawner_pid():
        os.kill(site.spawner_pid(), signal.SIGKILL)
    until(lambda: not site.spawner_pid(), "the spawner is gone")
    remove_groups(site.paths.spawner)


@pytest.fixture
def grouped(alpha: Site) -> Site:
    alpha.start()
    if not re.match("each job has its own", found := groups_row(alpha)):
        pytest.skip(f"no control group may be made here: {found}")
    return alpha


@pytest.fixture
def bare(alpha: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A node that sees the machine's control groups read-only, as in a container."""
    own = place(UNIFIED)
    lock = f"mount -o remount,bind,ro {own.top} && " if own is not None else ""
    command = alpha.command()
    monkeypatch.setattr(alpha, "command", lambda: ["unshare", "-m", "sh", "-c", f'{lock}exec "$@"', "sh", *command])
    if subprocess.run(["unshare", "-m", "sh", "-c", f"{lock}true"], check=False, capture_output=True).returncode:
        pytest.skip("this account may not mount control groups read-only for a node of its own")
    alpha.start()
    assert groups_row(alpha).startswith("jobs have none, memory of jobs is sampled: "), groups_row(alpha)
    return alpha


@pytest.fixture(params=["grouped", "bare"])
def either(request: pytest.FixtureRequest) -> Site:
    site = request.getfixturevalue(request.param)
    assert isinstance(site, Site)
    return site


def test_children_that_together_take_too_much_and_threads_that_take_nothing(either: Site) -> None:
    group = submitted(either, "--wait", "--memory", "200M", "--", sys.executable, "-c", FOUR, code=1)
    row = end_of(either, group)
    assert row["outcome"] == "out_of_memory" and "memory is 200 MiB" in str(row["error"]), row
    group = submitted(either, "--wait", "--memory", "300M", "--", sys.executable, "-c", THREADS)
    assert typed(either, "logs", f"{group}.0") == "64\n"


def left_by(site: Site, folder: Path, taken_mib: int, then_s: int, *words: str, code: int = 0) -> tuple[str, Path]:
    script, path = folder / "leaves.py", folder / "daemon"
    script.write_text(LEAVES)
    command = [sys.executable, str(script), str(taken_mib), str(then_s), str(path)]
    group = submitted(site, *words, "--", *command, code=code)
    until(path.exists, lambda: f"it left something\n{site.story()}")
    return group, path


def is_gone(path: Path) -> bool:
    return not is_alive(int(path.read_text()))


def test_a_daemon_that_a_job_left_counts_for_it(grouped: Site, tmp_path: Path) -> None:
    group, path = left_by(grouped, tmp_path, 300, 600, "--wait", "--memory", "200M", code=1)
    row = end_of(grouped, group)
    assert row["outcome"] == "out_of_memory", row
    assert is_gone(path)


def test_a_daemon_ends_with_its_job(either: Site, tmp_path: Path) -> None:
    _, path = left_by(either, tmp_path, 1, 0, "--wait", "--memory", "200M")
    assert is_gone(path)


def test_a_daemon_ends_with_a_job_that_is_cancelled_beside_others(grouped: Site, tmp_path: Path) -> None:
    other = submitted(grouped, "--", "sleep", "600")
    group, path = left_by(grouped, tmp_path, 1, 600)
    typed(grouped, "cancel", group)
    until(lambda: is_gone(path), "the daemon is gone")
    typed(grouped, "cancel", other)


def test_a_daemon_ends_with_a_job_that_is_cancelled_under_the_next_spawner_and_node(
    grouped: Site, tmp_path: Path
) -> None:
    group, path = left_by(grouped, tmp_path, 1, 600)
    grouped.kill_spawner()
    grouped.kill()
    grouped.start()
    assert not is_gone(path)
    typed(grouped, "cancel", group)
    until(lambda: is_gone(path), "the daemon is gone")
