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
from diana.engine.journal.effects import RenewLease, Start
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.layout import DataDir
from tests.contract.lrm_builders import SUBGROUP, RealSite, alive, shell
from tests.contract.subgrid_builders import SubGridSite

BETA = SiteId("beta")


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
    lease(site, 2.0)
    began_s = time.monotonic()
    start(site, marked(tmp_path, "exec sleep 30"), 0)
    pid = await pid_of(site, tmp_path)
    # Not told again by this node: it is gone.
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    await site.restart_node()
    assert alive(pid)
    (end,) = await site.ended(1)
    assert 1.9 <= time.monotonic() - began_s < 4.0
    assert end.outcome is Outcome.LEASE_OVER and not alive(pid)


async def test_a_successor_that_knows_of_no_lease_ends_what_ran_under_one_at_once(
    site: RealSite, tmp_path: Path
) -> None:
    await changed_behind_its_back(site, tmp_path, lambda log: [r for r in log if not isinstance(r, Leased)])


async def test_a_successor_that_comes_after_the_end_of_the_lease_kills_at_once(site: RealSite, tmp_path: Path) -> None:
    def long_ago(log: list[Record]) -> list[Record]:
        return [msgspec.structs.replace(r, until_s=r.until_s - 100.0) if isinstance(r, Leased) else r for r in log]

    await changed_behind_its_back(site, tmp_path, long_ago)


async def changed_behind_its_back(
    site: RealSite, tmp_path: Path, change: Callable[[list[Record]], list[Record]]
) -> None:
    """The job heeds no TERM, and there is no grace any more."""
    lease(site, 50.0)
    start(site, marked(tmp_path, "trap '' TERM; sleep 30 & wait; wait; sleep 30"), 0)
    pid = await pid_of(site, tmp_path)
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    path = site.data.spawner / "claims.log"
    claimlog.ClaimLog(path, change(claimlog.read(path))).close()
    began_s = time.monotonic()
    await site.restart_node()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.LEASE_OVER and not alive(pid)
    assert time.monotonic() - began_s < 3.0


async def test_the_lease_is_in_the_log_however_often_that_is_rewritten(site: RealSite, tmp_path: Path) -> None:
    lease(site, 50.0)
    start(site, marked(tmp_path, "sleep 30"), 0)
    await pid_of(site, tmp_path)
    for _ in range(2):
        await site.lose_lrm()
    kept = [r for r in claimlog.read(site.data.spawner / "claims.log") if isinstance(r, Leased)]
    assert kept and all(r.name == "beta" for r in kept)


async def test_a_member_machine_ends_with_its_lease_what_it_runs(member: SubGridSite, tmp_path: Path) -> None:
    lease(member, 30.0)
    start(member, marked(tmp_path, "exec sleep 30"), 0)
    pid = await pid_of(member, tmp_path)
    left_s = 2.0
    lease(member, left_s, SiteId("delta"))
    order = Start(
        session=member.ready().session,
        subgroup=SUBGROUP,
        epoch=1,
        owner="u@vo",
        spec=marked(tmp_path, "exec sleep 30"),
        indices=IndexSet.of([1]),
        lease="delta",
    )
    began_s = time.monotonic()
    member.lrm.start(order)
    other = await pid_of(member, tmp_path, 1)
    (end,) = await member.ended(1)
    assert (end.run.index, end.outcome) == (1, Outcome.LEASE_OVER)
    assert 0.5 <= time.monotonic() - began_s <= left_s + 1.0
    assert alive(pid) and not alive(other)


_NODE = """
import asyncio, sys, time
from pathlib import Path
from diana.engine.journal.effects import RenewLease
from tests.contract.lrm_builders import RealSite
from tests.contract.lrm.test_lrm_leases import BETA, marked, start

async def main(root: Path, marks: Path) -> None:
    site = RealSite(root)
    await site.up()
    site.lrm.lease(RenewLease(origin=BETA, until_s=time.monotonic() + 1.5))
    start(site, marked(marks, "sleep 30"), 0)
    while True:
        # It would renew for ever.
        await asyncio.sleep(0.2)
        site.lrm.lease(RenewLease(origin=BETA, until_s=time.monotonic() + 1.5))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_a_node_that_is_stopped_keeps_its_jobs_no_longer_than_their_lease(tmp_path: Path) -> None:
    root = tmp_path / "data"
    arguments = [sys.executable, "-c", textwrap.dedent(_NODE), str(root), str(tmp_path)]
    node = subprocess.Popen(arguments, cwd=Path(__file__).parents[3])
    pid = 0
    try:
        by_s = time.monotonic() + 20.0
        while not (tmp_path / "0").exists():
            assert time.monotonic() < by_s
            await asyncio.sleep(0.01)
        pid = int((tmp_path / "0").read_text())
        await asyncio.sleep(2.0)
        assert alive(pid)
        os.kill(node.pid, signal.SIGSTOP)
        stopped_s = time.monotonic()
        while alive(pid):
            assert time.monotonic() - stopped_s < 3.0
            await asyncio.sleep(0.01)
        assert time.monotonic() - stopped_s > 1.0
    finally:
        node.kill()
        node.wait()
        spawner = int((DataDir(root).spawner / "lock").read_text())
        os.kill(spawner, signal.SIGKILL)
        if pid and alive(pid):
            os.kill(pid, signal.SIGKILL)
