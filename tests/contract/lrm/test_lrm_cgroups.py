"""A control group for each running job: who is in it is the job's, whatever it forked and whoever looks after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.lrm.cgroups.found import UNIFIED, place
from diana.adapters.lrm.cgroups.per_job import JobCgroups, noted
from diana.engine.journal.events import JobsEnded
from diana.model.facts import Outcome, was_out_of_memory
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import RealSite, alive

MIB = 1 << 20
WIPED = """
import os, sys, time
script = "import os, time; open({0!r} + '.new', 'w').write(str(os.getpid())); os.rename({0!r} + '.new', {0!r}); " \\
    "b = bytes(range(256)) * (%d << 12); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", script], dict())
    os._exit(0)
os.wait()
while not os.path.exists({0!r}):
    time.sleep(0.02)
"""
"""A child that left its session and its parent, and wiped its environment: nothing but the group leads to it."""


@pytest.fixture(autouse=True)
def groups_may_be_made(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    standing = JobCgroups(tmp_path / "trial").standing
    if not standing.base:
        pytest.skip(f"no control group may be made here: {standing.why}")


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    made = RealSite(tmp_path / "data", slots=2)
    await made.up()
    yield made
    await made.down()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "child"
    yield path
    if path.exists() and alive(int(path.read_text())):
        os.kill(int(path.read_text()), signal.SIGKILL)


def wiped(child: Path, mib: int, then: str, **resources: object) -> GroupSpec:
    code = WIPED.format(str(child)) % mib + then
    return GroupSpec(argv=(sys.executable, "-c", code), resources=Resources(**resources))


def groups(site: RealSite) -> list[str]:
    status = os.stat(site.data.spawner)
    own = place(UNIFIED)
    assert own is not None
    bases = {own.folder, own.folder.parent if own.folder != own.top else own.folder}
    prefix = f"diana-{status.st_dev}-{status.st_ino}."
    return sorted(name for base in bases for name in os.listdir(base) if name.startswith(prefix))


def is_gone(child: Path) -> bool:
    return child.exists() and not alive(int(child.read_text()))


async def test_a_job_is_in_its_group_from_its_first_instruction_and_the_group_goes_with_it(site: RealSite) -> None:
    site.start(GroupSpec(argv=("/bin/cat", "/proc/self/cgroup")), 3)
    (end,) = await site.ended(1)
    (line,) = [line for line in site.log(end).splitlines() if line.startswith("0::")]
    assert line.endswith(".alpha-1_0.1.3.1"), line
    assert groups(site) == []


async def test_the_spawner_itself_stays_where_it_was(site: RealSite) -> None:
    site.start(GroupSpec(argv=("/bin/true",)), *range(20))
    await site.ended(20)
    assert Path(f"/proc/{site.spawner_pid()}/cgroup").read_text() == Path("/proc/self/cgroup").read_text()


async def test_a_child_that_nothing_else_leads_to_counts_for_its_job(site: RealSite, child: Path) -> None:
    site.start(wiped(child, 300, "time.sleep(600)", memory_bytes=200 * MIB), 0)
    (end,) = await site.ended(1)
    assert was_out_of_memory(end.outcome, end.error), end
    assert is_gone(child)


async def test_such_a_child_ends_with_its_job_also_while_others_run(site: RealSite, child: Path) -> None:
    site.start(GroupSpec(argv=("/bin/sleep", "600")), 1)
    site.start(wiped(child, 1, ""), 0)
    (end,) = await site.ended(1)
    assert (end.run.index, end.outcome) == (0, Outcome.DONE)
    assert is_gone(child)


async def test_such_a_child_ends_with_a_job_that_is_cancelled(site: RealSite, child: Path) -> None:
    site.start(GroupSpec(argv=("/bin/sleep", "600")), 1)
    site.start(wiped(child, 1, "time.sleep(600)"), 0)
    await site.until(child.exists)
    site.kill(0)
    await site.ended(1)
    assert is_gone(child)


async def test_the_next_spawner_finds_the_group_of_a_job_that_ran_on(site: RealSite, child: Path) -> None:
    site.start(wiped(child, 300, "time.sleep(600)", memory_bytes=1 << 30), 0)
    await site.until(child.exists)
    await site.lose_lrm()
    assert alive(int(child.read_text()))
    site.kill(0)
    await site.ended(1)
    assert is_gone(child)
    await site.until(lambda: groups(site) == [])


async def test_the_limit_holds_for_such_a_child_under_the_next_spawner(site: RealSite, child: Path) -> None:
    go = child.with_name("go")
    grows = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\nb = bytes(256) * (100 << 12)\ntime.sleep(600)"
    site.start(wiped(child, 150, grows, memory_bytes=200 * MIB), 0)
    await site.until(child.exists)
    await site.lose_lrm()
    go.touch()
    (end,) = await site.ended(1)
    assert was_out_of_memory(end.outcome, end.error), end
    assert is_gone(child)


async def test_what_a_job_left_that_died_with_its_spawner_is_ended_by_the_next(site: RealSite, child: Path) -> None:
    leader = child.with_name("leader")
    code = f"open({str(leader)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    site.start(wiped(child, 1, code), 0)
    await site.until(lambda: leader.exists() and bool(leader.read_text()))
    os.kill(site.spawner_pid(), signal.SIGSTOP)
    os.kill(int(leader.read_text()), signal.SIGKILL)
    await site.lose_lrm()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.UNKNOWN
    await site.until(lambda: is_gone(child) and groups(site) == [])


async def test_groups_that_are_empty_or_hold_what_no_claim_names_are_swept_at_the_start(site: RealSite) -> None:
    site.start(GroupSpec(argv=("/bin/sleep", "600")), 0)
    await site.until(lambda: len(groups(site)) == 1)
    base = noted(site.data.spawner)
    assert base is not None
    (running,) = groups(site)
    prefix = running.partition(".")[0]
    empty, full = (Path(base.base, f"{prefix}.alpha-9_0.1.{index}.1") for index in range(2))
    strange = Path(base.base, f"{prefix}0.alpha-1_0.1.0.1")
    sleepers = []
    try:
        for folder in (empty, full, strange):
            folder.mkdir()
        for folder in (full, strange):
            sleepers.append(subprocess.Popen(["/bin/sleep", "600"]))
            (folder / "cgroup.procs").write_text(str(sleepers[-1].pid))
        await site.lose_lrm()
        await site.until(lambda: groups(site) == [running])
        assert sleepers[0].wait(60) == -signal.SIGKILL
        # Another directory's, whose name begins alike.
        assert sleepers[1].poll() is None and strange.is_dir()
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        for folder in (empty, full, strange):
            if folder.is_dir():
                folder.rmdir()


@pytest.mark.parametrize("of_a_job", [True, False])
async def test_a_spawner_that_found_no_way_back_from_a_group_costs_no_job_its_life(
    site: RealSite, tmp_path: Path, of_a_job: bool
) -> None:
    told, ends = tmp_path / "told", tmp_path / "ends"
    told.mkdir()
    script = f"echo $$ > {told}/$DIANA_INDEX.new; mv {told}/$DIANA_INDEX.new {told}/$DIANA_INDEX; "
    script += f"while [ ! -e {ends}.$DIANA_INDEX ]; do sleep 0.05; done"
    site.start(GroupSpec(argv=("/bin/sh", "-c", script)), 0, 1)
    await site.until(lambda: len(groups(site)) == 2 and len(list(told.glob("[01]"))) == 2)
    base = noted(site.data.spawner)
    assert base is not None
    # As when job 1 was born in the group of job 0, or in that of a job that is over.
    shared = Path(base.base, groups(site)[0])
    if not of_a_job:
        shared = shared.with_name(f"{shared.name.partition('.')[0]}.alpha-9_0.1.0.1")
        shared.mkdir()
    pid = int((told / "1").read_text())
    (shared / "cgroup.procs").write_text(str(pid))
    await site.lose_lrm()
    ends.with_suffix(".0").touch()
    (end,) = await site.ended(1)
    assert end.run.index == 0 and alive(pid)
    ends.with_suffix(".1").touch()
    await site.ended(2)
    await site.lose_lrm()
    await site.until(lambda: groups(site) == [])


NESTS = """
at=$(find /sys/fs/cgroup -type d -path "*$(sed -n s/^0:://p /proc/self/cgroup)" | head -n 1)
mkdir "$at/inner" || exit 3
sleep 600 &
echo $! > "$at/inner/cgroup.procs"
"""


async def test_groups_that_a_job_made_in_its_own_go_with_it(site: RealSite) -> None:
    site.start(GroupSpec(argv=("/bin/sh", "-c", NESTS)), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE, end
    await site.until(lambda: groups(site) == [])


DEEP = """
import os
own = next(line[3:] for line in open("/proc/self/cgroup").read().splitlines() if line.startswith("0::"))
os.chdir(next(at for at, _, _ in os.walk("/sys/fs/cgroup") if at.endswith(own)))
for _ in range(1200):
    os.mkdir("deeper")
    os.chdir("deeper")
"""


async def test_groups_as_deep_as_no_path_reaches_end_neither_the_spawner_nor_stay(site: RealSite) -> None:
    spawner = site.spawner_pid()
    site.start(GroupSpec(argv=(sys.executable, "-c", DEEP)), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE, site.log(end)
    await site.until(lambda: groups(site) == [])
    assert site.spawner_pid() == spawner


@pytest_asyncio.fixture
async def held(site: RealSite) -> RealSite:
    standing = noted(site.data.spawner)
    assert standing is not None
    if not standing.held:
        pytest.skip(f"no memory controller of cgroup v2 may be handed out here: {standing.why}")
    return site


def peak_bytes(site: RealSite) -> int:
    (peak,) = [event.facts.max_rss_bytes[0] for event in site.events if isinstance(event, JobsEnded)]
    return peak


async def test_a_job_that_takes_all_at_once_is_ended_by_the_kernel(held: RealSite) -> None:
    held.start(
        GroupSpec(argv=(sys.executable, "-c", "b'x' * (2 << 30)"), resources=Resources(memory_bytes=100 * MIB)), 0
    )
    (end,) = await held.ended(1)
    assert was_out_of_memory(end.outcome, end.error) and end.exit_code == 137, end
    # A look beside it would have seen more, or nothing.
    assert peak_bytes(held) == 100 * MIB


async def test_a_child_of_a_shell_that_is_ended_by_the_kernel_takes_the_whole_job_with_it(held: RealSite) -> None:
    script = f"{sys.executable} -c 'bytes([1]) * (2 << 30)'; echo went on; exit 0"
    held.start(GroupSpec(argv=("/bin/sh", "-c", script), resources=Resources(memory_bytes=100 * MIB)), 0)
    (end,) = await held.ended(1)
    assert was_out_of_memory(end.outcome, end.error) and held.log(end) == "", end


async def test_a_peak_between_two_looks_counts_and_the_cache_of_files_does_not(held: RealSite, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(300 * MIB))
    reads = f"file = open({str(tmp_path / 'large')!r}, 'rb')\nwhile file.read(1 << 20): pass\n"
    takes = "b = b'x' * (80 << 20); del b"
    limited = Resources(memory_bytes=200 * MIB)
    held.start(GroupSpec(argv=(sys.executable, "-c", reads + takes), resources=limited), 0)
    (end,) = await held.ended(1)
    assert end.outcome is Outcome.DONE, end
    assert 80 * MIB < peak_bytes(held) < 130 * MIB
