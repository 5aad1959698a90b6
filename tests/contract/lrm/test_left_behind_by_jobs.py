"""Processes that a job leaves behind end with it, whatever they did to environment, session and parent, and where no
control group tells whose they are. Other jobs run on beside it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.lrm.cgroups.per_job import NOTE, noted
from diana.adapters.lrm.spawner.protocol import MOST_PROCESSES
from diana.model.facts import Outcome, was_out_of_memory
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import RealSite, alive, shell

MIB = 1 << 20
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        os.execve("/bin/sh", ["sh", "-c", sys.argv[1]], dict())
    os._exit(0)
os.wait()
"""
"""daemon(3) with an empty environment."""
POOL = """
import multiprocessing, os, sys
def works(told):
    os.setsid()
    os.execve("/bin/sh", ["sh", "-c", sys.argv[1]], dict())
process = multiprocessing.get_context("fork").Process(target=works, args=(0,))
process.start()
os._exit(0)
"""
TREE = """
import os, sys
for level in range(6):
    if os.fork() == 0:
        os.setsid()
os.execve("/bin/sh", ["sh", "-c", sys.argv[1]], dict())
"""
LEAVES = {
    "setsid": 'env -i setsid sh -c "$0" &',
    "setsid -f": 'env -i setsid -f sh -c "$0"',
    "nohup": 'env -i nohup sh -c "$0" >/dev/null 2>&1 &',
    "twice": '(env -i setsid sh -c "$0" & exec env -i setsid sh -c "$0") &',
    "daemon": f'{sys.executable} -Sc "$1" "$0"',
    "pool": f'{sys.executable} -c "$2" "$0"',
    "tree": f'{sys.executable} -Sc "$3" "$0" &',
}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file for each process that was left, of its number."""
    folder = tmp_path / "told"
    folder.mkdir()
    yield folder
    for pid in pids(folder):
        if alive(pid) and str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def pids(told: Path) -> list[int]:
    return [int(path.name) for path in told.glob("*")]


def all_gone(told: Path) -> bool:
    return not any(map(alive, pids(told)))


async def site_without_groups(root: Path, max_processes: int = MOST_PROCESSES) -> RealSite:
    made = RealSite(root)
    made.max_processes = max_processes
    made.lrm = made._new()
    # Without a note of where they are no groups are made.
    (made.data.spawner / f"{NOTE}.new").mkdir()
    await made.up()
    standing = noted(made.data.spawner)
    assert standing is None or not standing.base
    return made


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    made = await site_without_groups(tmp_path / "data")
    yield made
    await made.down()


def leaves(how: str, told: Path, count: int = 1, then: str = "", **resources: object) -> GroupSpec:
    """A job that leaves so many processes in this way, waits until all are there, and then does as it is told."""
    left = f": > {told}/$$; while :; do sleep 300; done"
    waits = f"until [ $(ls {told} | wc -l) -ge {count} ]; do sleep 0.02; done; {then}"
    argv = ("/bin/sh", "-c", f"{LEAVES[how]}\n{waits}", left, DAEMON, POOL, TREE)
    return GroupSpec(argv=argv, resources=Resources(**resources))


def wants(how: str) -> int:
    return {"twice": 2, "tree": 64}.get(how, 1)


@pytest.mark.parametrize("how", LEAVES)
async def test_what_a_job_left_ends_with_it_though_another_runs_on(site: RealSite, told: Path, how: str) -> None:
    site.start(shell("exec sleep 600"), 1)
    site.start(leaves(how, told, wants(how)), 0)
    (end,) = await site.ended(1)
    assert (end.run.index, end.outcome) == (0, Outcome.DONE)
    assert len(pids(told)) == wants(how) and all_gone(told)


@pytest.mark.parametrize("how", ["daemon", "tree"])
async def test_what_a_job_left_lives_as_long_as_the_job(site: RealSite, told: Path, how: str) -> None:
    site.start(leaves(how, told, wants(how), "exec sleep 600"), 0)
    await site.until(lambda: len(pids(told)) == wants(how))
    site.start(shell("true"), *range(1, 10))
    await site.ended(9)
    assert all(map(alive, pids(told)))
    site.kill(0)
    await site.ended(10)
    assert all_gone(told)


async def test_the_next_spawner_ends_what_a_job_left_under_the_one_before_it(site: RealSite, told: Path) -> None:
    site.start(shell("exec sleep 600"), 1)
    site.start(leaves("daemon", told, 1, "exec sleep 600"), 0)
    await site.until(lambda: len(pids(told)) == 1)
    await site.lose_lrm()
    assert not all_gone(told)
    site.kill(0)
    await site.ended(1)
    assert all_gone(told)


async def test_what_is_left_of_a_job_that_died_with_its_spawner_is_ended_by_the_next(
    site: RealSite, told: Path, tmp_path: Path
) -> None:
    leader = tmp_path / "leader"
    site.start(leaves("daemon", told, 1, f"echo $$ > {leader}.new; mv {leader}.new {leader}; exec sleep 600"), 0)
    await site.until(leader.exists)
    os.kill(site.spawner_pid(), signal.SIGSTOP)
    os.kill(int(leader.read_text()), signal.SIGKILL)
    await site.lose_lrm()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.UNKNOWN
    await site.until(lambda: all_gone(told))


async def test_what_a_job_left_counts_for_its_memory(site: RealSite, told: Path) -> None:
    takes = f"{sys.executable} -c 'b = bytes([1]) * (300 << 20); import time; time.sleep(600)'"
    spec = leaves("daemon", told, 1, "exec sleep 600", memory_bytes=200 * MIB)
    site.start(GroupSpec(argv=(*spec.argv[:3], f": > {told}/$$; {takes}", *spec.argv[4:]), resources=spec.resources), 0)
    (end,) = await site.ended(1)
    assert was_out_of_memory(end.outcome, end.error), end
    assert all_gone(told)


FORKS = """
import os, sys, time
sys.argv[1:] and open("/".join((sys.argv[1], str(os.getpid()))), "w")
os.environ.clear()
by_s = time.monotonic() + 60
while time.monotonic() < by_s:
    if len(os.listdir("/proc")) < 600 and os.fork() == 0:
        os.setsid()
    else:
        time.sleep(0.0005)
"""
"""Each forks as fast as it can, into sessions of their own; bounded, so that a failure harms nobody."""


async def test_what_forks_without_end_into_sessions_of_its_own_ends_with_its_job(site: RealSite, told: Path) -> None:
    site.start(shell("exec sleep 600"), 1)
    there = len(os.listdir("/proc"))
    script = f"env -i setsid {sys.executable} -Sc '{FORKS}' {told} & until [ $(ls /proc | wc -l) -ge 450 ]; do :; done"
    site.start(shell(script), 0)
    (end,) = await site.ended(1)
    assert (end.run.index, end.outcome) == (0, Outcome.DONE)
    assert len(os.listdir("/proc")) < there + 100


async def test_a_job_with_more_processes_than_it_may_have_is_ended_and_told_so(tmp_path: Path, told: Path) -> None:
    at = await site_without_groups(tmp_path / "few", max_processes=100)
    try:
        at.start(shell("exec sleep 600"), 1)
        # Some of it is of its session, and some is not.
        at.start(
            shell(
                f"env -i setsid {sys.executable} -Sc '{FORKS}' {told} & for n in $(seq 30); do sleep 600 & done; wait"
            ),
            0,
        )
        (end,) = await at.ended(1)
        assert (end.run.index, end.outcome, end.exit_code) == (0, Outcome.FAILED, 137)
        assert "too many processes: it had " in end.error and "a job may have 100 here" in end.error
        await at.until(lambda: len(os.listdir("/proc")) < 450)
    finally:
        await at.down()


async def test_a_pool_within_the_bound_runs(tmp_path: Path) -> None:
    at = await site_without_groups(tmp_path / "few", max_processes=100)
    try:
        at.start(shell("for n in $(seq 60); do sleep 3 & done; wait"), 0)
        (end,) = await at.ended(1)
        assert end.outcome is Outcome.DONE, end
    finally:
        await at.down()
