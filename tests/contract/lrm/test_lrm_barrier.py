"""Jobs that hold their slots until they are let go (SPEC K5). Whatever holds jobs keeps the first half of these, which
the suites of clusters and members import; the rest concerns the spawner."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from diana.model.facts import Outcome
from diana.model.job.software import BARRIER
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm.test_lrm_conformance import Site, site
from tests.contract.lrm_builders import RealSite, shell

TRUE = GroupSpec(argv=("/bin/true",))


__all__ = ["site"]


def soon(seconds: float = 60.0) -> float:
    return time.monotonic() + seconds


async def reached(at: RealSite, *indices: int) -> None:
    await at.until(lambda: at.at_barrier() == set(indices))


async def test_jobs_hold_their_slots_and_begin_when_they_are_let_go_with_what_they_are_told(
    site: Site, tmp_path: Path
) -> None:
    at = await site()
    assert BARRIER in (at.ready().software or at.lrm.offered())
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_GANG_RANK/$DIANA_GANG_SIZE $MASTER_ADDR >> {marks}"), 4, 5, barrier_s=soon())
    await reached(at, 4, 5)
    at.start(TRUE, 9)
    await asyncio.sleep(0.3)
    assert not marks.exists() and not at.ends(), "both slots are held"
    gone_s = time.monotonic()
    at.go(4, 5, environment=(("MASTER_ADDR", "ten"),), size=3)
    assert {(end.run.index, end.outcome) for end in await at.ended(3)} == {(i, Outcome.DONE) for i in (4, 5, 9)}
    assert min(end.started_s for end in at.ends()) > gone_s - 0.2, "they did not run while they waited"
    assert sorted(marks.read_text().splitlines()) == ["1/3 ten", "2/3 ten"]


async def test_a_job_that_nobody_lets_go_leaves_the_barrier_by_itself_and_is_never_begun(
    site: Site, tmp_path: Path
) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=soon(at.brief_s))
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.UNBEGUN
    at.go(0)
    at.start(TRUE, 1, 2)
    await at.ended(3)
    assert not marks.exists()


async def test_it_leaves_while_the_node_is_away(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=soon(at.brief_s))
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    await at.node_down()
    await asyncio.sleep(at.brief_s + 0.2)
    await at.node_up()
    at.go(0)
    # A busy machine may have told it before the node went; what nobody acknowledged is told again.
    assert {(end.run.index, end.outcome) for end in await at.ended(1)} == {(0, Outcome.UNBEGUN)}
    assert not marks.exists()


async def test_what_stands_at_the_barrier_is_told_again_to_a_node_that_is_back(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=soon())
    await reached(at, 0)
    at.events.clear()
    await at.restart_node()
    await reached(at, 0)
    assert {run.index for run in at.ready().known} == {0}
    at.go(0)
    at.go(0)
    assert [end.outcome for end in await at.ended(1)] == [Outcome.DONE]


async def test_held_jobs_are_killed_and_given_back_unbegun(site: Site) -> None:
    at = await site()
    at.start(TRUE, 0, 1, barrier_s=soon())
    await reached(at, 0, 1)
    at.kill(0)
    at.recall(1)
    at.go(0, 1)
    await at.ended(2)
    assert {i: end.outcome for i, end in at.by_index().items()} == {0: Outcome.CANCELLED, 1: Outcome.UNBEGUN}
    at.start(GroupSpec(argv=("/bin/true",), resources=Resources(processors=2)), 7)
    await at.ended(3)


async def test_a_command_that_is_not_there_is_found_out_before_others_rely_on_it(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=("no-such-program",)), 0, barrier_s=soon())
    at.start(GroupSpec(argv=("/no/such/program",)), 1, barrier_s=soon())
    ends = await at.ended(2)
    assert {end.outcome for end in ends} == {Outcome.NOT_STARTED} and not at.at_barrier()
    assert all("not found" in end.error for end in ends)


async def test_a_spawner_that_was_stopped_beyond_the_barrier_lets_nothing_go(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=soon(0.6))
    # On a busy machine it may be over before it is held.
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    os.kill(at.spawner_pid(), signal.SIGSTOP)
    at.go(0)
    await asyncio.sleep(0.8)
    os.kill(at.spawner_pid(), signal.SIGCONT)
    assert [end.outcome for end in await at.ended(1)] == [Outcome.UNBEGUN]
    assert not marks.exists()


async def test_a_spawner_that_is_lost_takes_what_it_held_with_it(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=soon())
    await reached(at, 0)
    await at.lose_lrm()
    assert at.ready().known == ()
    at.go(0)
    at.start(TRUE, 1)
    await at.ended(1)
    assert not marks.exists()
