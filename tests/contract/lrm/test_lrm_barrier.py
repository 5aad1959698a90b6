"""Jobs that hold their slots until they are let go (SPEC K5), at the real LRM and the simulator's. Clusters and members
import these; what concerns processes is in `test_lrm_processes.py`."""

from __future__ import annotations

from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm.test_lrm_conformance import TRUE, Site, outcomes, site
from tests.contract.lrm_builders import LrmSite

__all__ = ["site"]


def soon(at: LrmSite, seconds: float = 600.0) -> float:
    return at.now_s() + seconds


async def reached(at: LrmSite, *indices: int) -> None:
    await at.until(lambda: at.at_barrier() == set(indices))


async def test_jobs_hold_their_slots_and_begin_when_they_are_let_go(site: Site) -> None:
    at = await site()
    at.start(at.work(), 4, 5, barrier_s=soon(at))
    await reached(at, 4, 5)
    at.start(TRUE, 9)
    await at.pass_time(0.3)
    assert not at.begun() and not at.ends(), "both slots are held"
    gone_s = at.now_s()
    at.go(4, 5, size=3)
    await at.ended(3)
    assert outcomes(at) == {4: Outcome.DONE, 5: Outcome.DONE, 9: Outcome.DONE}
    assert min(end.started_s for end in at.ends()) > gone_s - 0.2, "they did not run while they waited"
    assert sorted(at.begun()) == [(4, 1), (5, 1)]


async def test_one_of_a_gang_that_is_let_go_leaves_the_other_where_it_is(site: Site) -> None:
    at = await site()
    at.start(at.work(), 0, 1, barrier_s=soon(at))
    await reached(at, 0, 1)
    at.go(0)
    await at.ended(1)
    await at.pass_time(at.brief_s)
    assert outcomes(at) == {0: Outcome.DONE} and at.begun() == [(0, 1)]
    at.go(1)
    await at.ended(2)
    assert outcomes(at)[1] is Outcome.DONE


async def test_a_job_that_nobody_lets_go_leaves_the_barrier_by_itself_and_is_never_begun(site: Site) -> None:
    at = await site()
    at.start(at.work(), 0, barrier_s=soon(at, at.brief_s))
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.UNBEGUN
    at.go(0)
    at.start(TRUE, 1, 2)
    await at.ended(3)
    assert not at.begun()


async def test_it_leaves_while_the_node_is_away(site: Site) -> None:
    at = await site()
    at.start(at.work(), 0, barrier_s=soon(at, at.brief_s))
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    await at.node_down()
    await at.pass_time(at.brief_s + 0.2)
    await at.node_up()
    at.go(0)
    # A busy machine may have told it before the node went; what nobody acknowledged is told again.
    assert {(end.run.index, end.outcome) for end in await at.ended(1)} == {(0, Outcome.UNBEGUN)}
    assert not at.begun()


async def test_what_stands_at_the_barrier_is_told_again_to_a_node_that_is_back(site: Site) -> None:
    at = await site()
    at.start(at.work(), 0, barrier_s=soon(at))
    await reached(at, 0)
    at.events.clear()
    await at.restart_node()
    await reached(at, 0)
    assert {run.index for run in at.ready().known} == {0}
    at.go(0)
    at.go(0)
    assert [end.outcome for end in await at.ended(1)] == [Outcome.DONE]
    assert at.begun() == [(0, 1)]


async def test_held_jobs_are_killed_and_given_back_unbegun(site: Site) -> None:
    at = await site()
    at.start(TRUE, 0, 1, barrier_s=soon(at))
    await reached(at, 0, 1)
    at.kill(0)
    at.recall(1)
    at.go(0, 1)
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.CANCELLED, 1: Outcome.UNBEGUN}
    at.start(GroupSpec(argv=("/bin/true",), resources=Resources(processors=2)), 7)
    await at.ended(3)


async def test_a_spawner_that_is_lost_takes_what_it_held_with_it(site: Site) -> None:
    at = await site()
    at.start(at.work(), 0, barrier_s=soon(at))
    await reached(at, 0)
    await at.lose_lrm()
    assert at.ready().known == ()
    at.go(0)
    at.start(TRUE, 1)
    await at.ended(1)
    await at.pass_time(at.quiet_s)
    assert not at.begun()
