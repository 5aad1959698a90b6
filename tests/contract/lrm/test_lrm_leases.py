"""The kill timer beside the job: leases as the spawner keeps them in its log and over real processes, and as a member
machine keeps them (PROMISES section 2, "Leases"). What the simulator's LRM keeps too is in `test_lrm_of_machine.py`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest_asyncio

from diana.adapters.lrm.spawner.claims import claimlog
from diana.adapters.lrm.spawner.claims.records import Leased, Record
from diana.adapters.lrm.spawner.processes import group_alive
from diana.engine.journal.effects import RenewLease, Start
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.grace import GRACE_S
from diana.model.job.spec import GroupSpec, Resources
from diana.model.layout import DataDir
from tests.contract.lrm_builders import SUBGROUP, RealSite, alive, shell
from tests.contract.subgrid_builders import SubGridSite
from tests.contract.transport_builders import wait_until
from tests.runs import SOAK

BETA = SiteId("beta")
# Renewed every tenth of it until the jobs run, however long a busy machine takes for that.
LEASE_S = 2.0
# Beyond the lease; then its origin places its jobs anew, and a copy that runs on would be a second one.
ORIGIN_WAITS_S = 30.0


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    site = RealSite(tmp_path / "data")
    await site.up()
    yield site
    await site.down()


@pytest_asyncio.fixture
async def member(tmp_path: Path) -> AsyncIterator[SubGridSite]:
    site = SubGridSite(tmp_path / "data")
    await site.up()
    # A member's clock is read from its first word of its load; before that no lease is told to it.
    await site.until(lambda: all(link.load_sent_s >= 0 for link in site.lrm.inner._links.values()))
    yield site
    await site.down()


def lease(site: RealSite, for_s: float, origin: SiteId = BETA) -> None:
    site.lrm.lease(RenewLease(origin=origin, until_s=time.monotonic() + for_s))


async def running_under_lease(site: RealSite, mark: Path, origin: SiteId = BETA) -> float:
    """Renew a lease until the job whose mark it is runs; the time at which the last lease ends."""
    by_s, until_s = time.monotonic() + 60.0, 0.0
    while not mark.exists():
        now_s = time.monotonic()
        assert now_s < by_s, site.events
        if now_s > until_s - 0.9 * LEASE_S:
            until_s = now_s + LEASE_S
            site.lrm.lease(RenewLease(origin=origin, until_s=until_s))
        await asyncio.sleep(0.005)
    return until_s


async def died_s(site: RealSite, pid: int) -> float:
    """The time at which a process is seen to be gone."""
    await site.until(lambda: not alive(pid))
    return time.monotonic()


def start(site: RealSite, spec: GroupSpec, *indices: int, attempt: int = 1) -> None:
    order = Start(
        session=site.ready().session,
        subgroup=SUBGROUP,
        epoch=1,
        owner="u@vo",
        spec=spec,
        indices=IndexSet.of(indices),
        attempts=tuple((index, attempt) for index in indices) if attempt != 1 else (),
        lease="beta",
    )
    site.lrm.start(order)


def marked(tmp_path: Path, then: str) -> GroupSpec:
    return shell(
        f"echo $$ > {tmp_path}/$DIANA_INDEX.new; mv {tmp_path}/$DIANA_INDEX.new {tmp_path}/$DIANA_INDEX; {then}"
    )


async def pid_of(site: RealSite, tmp_path: Path, index: int = 0) -> int:
    mark = tmp_path / str(index)
    await site.until(mark.exists)
    return int(mark.read_text())


async def test_a_successor_of_the_spawner_ends_what_runs_at_the_same_instant(site: RealSite, tmp_path: Path) -> None:
    lease(site, LEASE_S)
    start(site, marked(tmp_path, "exec sleep 600"), 0)
    until_s = await running_under_lease(site, tmp_path / "0")
    pid = await pid_of(site, tmp_path)
    # Not told again by this node: it is gone.
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    back = asyncio.create_task(site.restart_node())
    at_s = await died_s(site, pid)
    await back
    assert until_s - 0.1 <= at_s and at_s < until_s + (2.0 if SOAK else ORIGIN_WAITS_S)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.LEASE_OVER


async def test_a_job_that_is_in_its_own_longer_grace_when_its_lease_ends_goes_with_that(
    site: RealSite, tmp_path: Path
) -> None:
    """Its origin waits no longer than always before it begins the job elsewhere."""
    lease(site, LEASE_S)
    spec = marked(tmp_path, "trap '' TERM; while :; do sleep 600; done")
    limit = Resources(time_limit_s=0.1)
    start(site, msgspec.structs.replace(spec, grace_s=600.0, resources=limit), 0)
    until_s = await running_under_lease(site, tmp_path / "0")
    pid = await pid_of(site, tmp_path)
    at_s = await died_s(site, pid)
    assert until_s <= at_s and at_s < until_s + (GRACE_S + 2.0 if SOAK else ORIGIN_WAITS_S)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.TIMED_OUT


async def test_what_outlives_its_shell_in_a_longer_grace_goes_with_the_lease(site: RealSite, tmp_path: Path) -> None:
    lease(site, LEASE_S)
    child = "trap '' TERM; exec sleep 600"
    spec = marked(tmp_path, f'/bin/sh -c "{child}"; echo never')
    limit = Resources(time_limit_s=0.5)
    start(site, msgspec.structs.replace(spec, grace_s=300.0, resources=limit), 0)
    await running_under_lease(site, tmp_path / "0")
    shell_pid = await pid_of(site, tmp_path)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.TIMED_OUT and not group_alive(shell_pid)


async def test_a_successor_that_knows_of_no_lease_ends_what_ran_under_one_at_once(
    site: RealSite, tmp_path: Path
) -> None:
    await changed_behind_its_back(site, tmp_path, lambda log: [r for r in log if not isinstance(r, Leased)])


async def test_a_successor_that_comes_after_the_end_of_the_lease_kills_at_once(site: RealSite, tmp_path: Path) -> None:
    def long_ago(log: list[Record]) -> list[Record]:
        return [msgspec.structs.replace(r, until_s=r.until_s - 1000.0) if isinstance(r, Leased) else r for r in log]

    await changed_behind_its_back(site, tmp_path, long_ago)


async def changed_behind_its_back(
    site: RealSite, tmp_path: Path, change: Callable[[list[Record]], list[Record]]
) -> None:
    """The job would take its time at a TERM, less than the grace, which there is no more."""
    lease(site, 600.0)
    late = f"sleep {GRACE_S / 2}; touch {tmp_path}/late"
    start(site, marked(tmp_path, f"trap '{late}' TERM; sleep 600 & wait; wait; sleep 600"), 0)
    pid = await pid_of(site, tmp_path)
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    path = site.data.spawner / "claims.log"
    claimlog.ClaimLog(path, change(claimlog.read(path))).close()
    await site.restart_node()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.LEASE_OVER and not alive(pid)
    assert not (tmp_path / "late").exists()


async def test_the_lease_is_in_the_log_however_often_that_is_rewritten(site: RealSite, tmp_path: Path) -> None:
    lease(site, 600.0)
    start(site, marked(tmp_path, "sleep 600"), 0)
    await pid_of(site, tmp_path)
    for _ in range(2):
        await site.lose_lrm()
    kept = [r for r in claimlog.read(site.data.spawner / "claims.log") if isinstance(r, Leased)]
    assert kept and all(r.name == "beta" for r in kept)


async def test_a_member_machine_ends_with_its_lease_what_it_runs(member: SubGridSite, tmp_path: Path) -> None:
    lease(member, 600.0)
    start(member, marked(tmp_path, "exec sleep 600"), 0)
    pid = await pid_of(member, tmp_path)
    lease(member, LEASE_S, SiteId("delta"))
    order = Start(
        session=member.ready().session,
        subgroup=SUBGROUP,
        epoch=1,
        owner="u@vo",
        spec=marked(tmp_path, "exec sleep 600"),
        indices=IndexSet.of([1]),
        lease="delta",
    )
    member.lrm.start(order)
    until_s = await running_under_lease(member, tmp_path / "1", SiteId("delta"))
    at_s = await died_s(member, await pid_of(member, tmp_path, 1))
    # A member's lease ends sooner by as much as its clock may be wrong.
    assert until_s - 1.5 <= at_s and at_s < until_s + (1.0 if SOAK else ORIGIN_WAITS_S)
    (end,) = await member.ended(1)
    assert (end.run.index, end.outcome) == (1, Outcome.LEASE_OVER) and alive(pid)


_NODE = """
import asyncio, os, sys, time
from pathlib import Path
from diana.engine.journal.effects import RenewLease
from diana.model.ids import SiteId
from tests.contract.lrm_builders import RealSite, shell

async def main(root: Path, marks: Path, lease_s: float) -> None:
    site = RealSite(root)
    await site.up()
    first = True
    while True:
        # It would renew for ever.
        until_s = time.monotonic() + lease_s
        site.lrm.lease(RenewLease(origin=SiteId("beta"), until_s=until_s))
        if first:
            site.start(shell(f"echo $$ > {marks}/pid; mv {marks}/pid {marks}/0; exec sleep 600"), 0, lease="beta")
            first = False
        await asyncio.sleep(lease_s / 10)
        # What was told this long ago has arrived.
        (marks / "new").write_text(str(until_s))
        os.replace(marks / "new", marks / "until")

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
"""


async def test_a_node_that_is_stopped_keeps_its_jobs_no_longer_than_their_lease(tmp_path: Path) -> None:
    root = tmp_path / "data"
    arguments = [sys.executable, "-c", textwrap.dedent(_NODE), str(root), str(tmp_path), str(LEASE_S)]
    node = subprocess.Popen(arguments, cwd=Path(__file__).parents[3])
    pid = 0
    try:
        await wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "until").exists())
        pid = int((tmp_path / "0").read_text())
        os.kill(node.pid, signal.SIGSTOP)
        until_s = float((tmp_path / "until").read_text())
        await wait_until(lambda: not alive(pid))
        at_s = time.monotonic()
        assert until_s <= at_s and at_s < until_s + (LEASE_S if SOAK else ORIGIN_WAITS_S)
    finally:
        node.kill()
        node.wait()
        spawner = int((DataDir(root).spawner / "lock").read_text())
        os.kill(spawner, signal.SIGKILL)
        if pid and alive(pid):
            os.kill(pid, signal.SIGKILL)
