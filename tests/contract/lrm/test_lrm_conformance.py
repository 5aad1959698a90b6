"""Promises of every LocalResourceManager to the engine (`ports.LocalResourceManager`), held to the real one and to the
simulator's. What only processes, files and logs can show is in `test_lrm_processes.py`; what concerns the slots of one
machine, which clusters and members need not keep alike, in `test_lrm_of_machine.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from diana.model.facts import Outcome
from diana.model.job.spec import ContractSpec, GroupSpec, Resources
from tests.contract.lrm_builders import FOREVER, LrmSite, RealSite
from tests.contract.lrm_simulated import SimulatedSite

TRUE = GroupSpec(argv=("/bin/true",))
SLEEP = ("/bin/sleep", "600")
Site = Callable[..., Awaitable[LrmSite]]
TICK_S = 0.05
"""Clocks of processes are read a little apart."""
KINDS: dict[str, Callable[[Path, int], LrmSite]] = {"real": RealSite, "simulated": SimulatedSite}


@pytest_asyncio.fixture(params=sorted(KINDS))
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[LrmSite] = []

    async def make(slots: int = 2) -> LrmSite:
        made.append(KINDS[request.param](tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


def outcomes(at: LrmSite) -> dict[int, Outcome]:
    return {index: end.outcome for index, end in at.by_index().items()}


async def test_all_jobs_run_and_each_end_is_told_once_when_it_is_forgotten_at_once(site: Site) -> None:
    at = await site()
    at.start(TRUE, *range(50))
    ends = await at.ended(50)
    at.forget(*ends)
    await at.pass_time(at.quiet_s)
    assert Counter(end.run.index for end in at.ends()) == Counter(range(50))
    assert {end.outcome for end in ends} == {Outcome.DONE}


async def test_an_end_is_told_again_after_a_restart_until_it_is_forgotten(site: Site) -> None:
    at = await site()
    at.start(TRUE, 0, 1)
    first = await at.ended(2)
    await at.restart_node()
    await at.until(lambda: len(at.ends()) == 4)
    assert {run.index for run in at.ready().known} == {0, 1}
    at.forget(*first)
    await at.restart_node()
    assert at.ready().known == ()


async def test_the_exit_code_is_told(site: Site) -> None:
    at = await site()
    at.start(at.work(exit_code=3), 0)
    at.start(at.work(exit_code=137), 1)
    await at.ended(2)
    assert (at.by_index()[0].outcome, at.by_index()[0].exit_code) == (Outcome.FAILED, 3)
    assert (at.by_index()[1].outcome, at.by_index()[1].exit_code) == (Outcome.FAILED, 137)


async def test_an_end_is_told_with_the_time_it_took_and_not_before_it_came(site: Site) -> None:
    at = await site(slots=1)
    given_s = at.now_s()
    at.start(at.work(FOREVER), 0, 1)
    await at.until(lambda: len(at.begun()) == 1)
    seen_s = at.now_s()
    await at.pass_time(0.3)
    let_go_s = at.now_s()
    at.finish()
    ends = {end.run.index: end for end in await at.ended(2)}
    assert given_s - TICK_S <= ends[0].started_s <= seen_s + TICK_S
    assert let_go_s - TICK_S <= ends[0].ended_s <= ends[1].started_s + TICK_S
    assert ends[1].started_s <= ends[1].ended_s <= at.now_s() + TICK_S
    assert at.begun() == [(0, 1), (1, 1)]


async def test_a_run_ordered_twice_is_started_once(site: Site) -> None:
    at = await site()
    at.start(at.work(FOREVER), 0, 1)
    at.start(at.work(FOREVER), 0, 1, 2)
    await at.until(lambda: len(at.begun()) == 2)
    at.start(at.work(FOREVER), 0, 1, 2)
    at.finish()
    await at.ended(3)
    at.start(at.work(FOREVER), 0, 1, 2)
    await at.restart_node()
    at.start(at.work(FOREVER), 0, 1, 2)
    at.start(TRUE, 3)
    await at.ended(4)
    assert sorted(at.begun()) == [(0, 1), (1, 1), (2, 1)]


async def test_an_order_of_an_older_session_is_dropped(site: Site) -> None:
    at = await site()
    old = at.ready().session
    await at.lose_lrm()
    assert at.ready().session > old
    at.start(TRUE, 0, session=old)
    at.start(TRUE, 1)
    await at.ended(1)
    await at.pass_time(at.quiet_s)
    assert {end.run.index for end in at.ends()} == {1}


async def test_a_time_limit_ends_a_job(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=SLEEP, resources=Resources(time_limit_s=0.2)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.TIMED_OUT


async def test_cancelled_jobs_say_so_whether_they_ran_or_waited(site: Site) -> None:
    at = await site(slots=1)
    at.start(GroupSpec(argv=SLEEP), 0, 1, 2)
    at.kill(0, 2)
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.CANCELLED, 2: Outcome.CANCELLED}
    at.kill(1)
    await at.ended(3)
    assert outcomes(at)[1] is Outcome.CANCELLED


async def test_a_restarted_node_finds_its_jobs_running(site: Site) -> None:
    at = await site()
    at.start(at.work(FOREVER), *range(3))
    await at.restart_node()
    assert {run.index for run in at.ready().known} == {0, 1, 2}
    at.finish()
    assert {end.outcome for end in await at.ended(3)} == {Outcome.DONE}
    assert at.losses() == 0 and sorted(at.begun()) == [(0, 1), (1, 1), (2, 1)]


async def test_what_ended_without_a_node_is_told_to_the_next_one(site: Site) -> None:
    at = await site()
    at.start(at.work(FOREVER), 0)
    at.start(GroupSpec(argv=SLEEP), 1)
    await at.until(lambda: len(at.begun()) == 1)
    await at.node_down()
    at.finish()
    await at.pass_time(at.brief_s)
    assert not at.ends()
    await at.node_up()
    await at.ended(1)
    assert outcomes(at) == {0: Outcome.DONE} and {run.index for run in at.ready().known} == {0, 1}
    at.kill(1)
    await at.ended(2)
    assert outcomes(at)[1] is Outcome.CANCELLED


async def test_a_lost_lrm_tells_unknown_for_what_ran_and_voids_what_waited_and_reruns_nothing(site: Site) -> None:
    at = await site(slots=2)
    at.start(at.work(FOREVER), *range(4))
    await at.until(lambda: len(at.begun()) == 2)
    await at.lose_lrm()
    assert at.losses() == 1
    assert {run.index for run in at.ready().known} == {0, 1}
    await at.pass_time(at.brief_s)
    assert not at.ends(), "they run on"
    at.finish()
    ends = await at.ended(2)
    assert {(end.run.index, end.outcome) for end in ends} == {(0, Outcome.UNKNOWN), (1, Outcome.UNKNOWN)}
    assert all("spawner" in end.error for end in ends)
    at.start(TRUE, 2, 3)
    await at.ended(4)
    assert sorted(at.begun()) == [(0, 1), (1, 1)]


async def test_what_a_lost_lrm_left_running_can_be_cancelled(site: Site) -> None:
    at = await site()
    at.start(at.work(FOREVER), 0, 1)
    await at.until(lambda: len(at.begun()) == 2)
    await at.lose_lrm()
    at.kill(0)
    (end,) = await at.ended(1)
    assert (end.run.index, end.outcome) == (0, Outcome.CANCELLED)
    at.finish()
    assert {end.run.index: end.outcome for end in await at.ended(2)}[1] is Outcome.UNKNOWN


async def test_a_job_of_several_processors_waits_for_as_many_slots(site: Site) -> None:
    at = await site(slots=2)
    at.start(at.work(FOREVER), 0)
    await at.until(lambda: len(at.begun()) == 1)
    at.start(at.work(resources=Resources(processors=2)), 1)
    at.start(at.work(resources=Resources(processors=3)), 2)
    await at.pass_time(0.3)
    assert at.begun() == [(0, 1)]
    at.finish()
    await at.ended(3)
    assert at.begun() == [(0, 1), (1, 1)]
    assert at.by_index()[1].started_s >= at.by_index()[0].ended_s
    assert outcomes(at) == {0: Outcome.DONE, 1: Outcome.DONE, 2: Outcome.NOT_STARTED}


# --- what has not begun is given back ----------------------------------------------------------------------


async def test_what_has_not_begun_is_given_back_and_what_has_runs_on(site: Site) -> None:
    at = await site(slots=2)
    assert at.ready().recalls
    at.start(at.work(FOREVER), *range(6))
    await at.until(lambda: len(at.begun()) == 2)
    at.recall(0, 1, 3, 4, 5)
    back = await at.ended(3)
    assert {end.run.index for end in back} == {3, 4, 5} and {end.outcome for end in back} == {Outcome.UNBEGUN}
    at.forget(*back)
    at.start(at.work(FOREVER), 5, attempt=2)
    at.finish()
    await at.until(lambda: sum(end.outcome is Outcome.DONE for end in at.ends()) == 4)
    assert sorted(at.begun()) == [(0, 1), (1, 1), (2, 1), (5, 2)]


async def test_what_was_given_back_stays_so_though_the_node_and_the_lrm_were_lost(site: Site) -> None:
    at = await site(slots=1)
    at.start(at.work(FOREVER), 0, 1, 2)
    await at.until(lambda: len(at.begun()) == 1)
    at.recall(1)
    await at.ended(1)
    await at.restart_node()
    await at.until(lambda: len(at.ends()) == 2)
    await at.lose_lrm()
    assert {run.index for run in at.ready().known} == {0, 1}
    at.finish()
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.UNKNOWN, 1: Outcome.UNBEGUN}
    assert at.begun() == [(0, 1)]


async def test_each_run_begins_or_is_given_back_whenever_it_is_asked_for(site: Site) -> None:
    at = await site(slots=4)
    at.start(at.work(), *range(200))
    for first in range(0, 200, 20):
        at.recall(*range(first, 200, 7))
        await at.ended(first // 4)
    await at.ended(200)
    how = {outcome: {i for i, told in outcomes(at).items() if told is outcome} for outcome in Outcome}
    assert how[Outcome.UNBEGUN] and how[Outcome.DONE] | how[Outcome.UNBEGUN] == set(range(200))
    assert Counter(index for index, _ in at.begun()) == Counter(how[Outcome.DONE])


# --- checkpoints and progress ------------------------------------------------------------------------------


async def test_a_run_that_saves_as_it_is_asked_ends_at_a_checkpoint_and_others_run_on(site: Site) -> None:
    at = await site(4)
    at.start(at.work(FOREVER, saves=True), 0, 1)
    await at.until(lambda: len(at.begun()) == 2)
    at.save(0)
    (end,) = await at.ended(1)
    assert (end.run.index, end.outcome, end.exit_code) == (0, Outcome.CHECKPOINTED, 85)
    assert at.saved() == {0: [".checkpoint/0/1/state"]}
    at.finish()
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.CHECKPOINTED, 1: Outcome.DONE}
    assert at.saved() == {0: [".checkpoint/0/1/state"]}


async def test_a_run_that_does_not_heed_the_signal_runs_on_and_its_exit_code_is_its_own(site: Site) -> None:
    at = await site(4)
    at.start(at.work(FOREVER), 0)
    # Not asked, it says of its own accord what means that it saved.
    at.start(at.work(FOREVER, 85, saves=True), 1)
    await at.until(lambda: len(at.begun()) == 2)
    at.save(0, wait_s=1.0)
    await at.pass_time(3.0)
    assert not at.ends()
    at.finish()
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.DONE, 1: Outcome.FAILED}


async def test_a_run_under_a_time_limit_is_asked_and_its_limit_stands(site: Site) -> None:
    at = await site(4)
    at.start(at.work(FOREVER, saves=True, resources=Resources(time_limit_s=600.0)), 0)
    await at.until(lambda: len(at.begun()) == 1)
    at.save(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CHECKPOINTED
    at.start(at.work(FOREVER, saves=True, resources=Resources(time_limit_s=2.0)), 1)
    await at.ended(2)
    assert outcomes(at)[1] is Outcome.TIMED_OUT


async def test_a_run_reports_how_far_it_is(site: Site) -> None:
    at = await site()
    at.start(at.work(reports=True, contract=ContractSpec()), 0)
    await at.ended(1)
    told = at.steps()
    assert told and {(index, total) for index, _, total in told} == {(0, at.total_steps)}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert all(0 < done <= at.total_steps for _, done, _ in told)
    before = len(told)
    await at.pass_time(at.quiet_s)
    assert len(at.steps()) == before, "it is over"


async def test_a_component_that_stops_with_others_before_it_is_asked_is_at_a_checkpoint(site: Site) -> None:
    at = await site()
    at.start(at.work(exit_code=85, saves=True), 0, barrier_s=at.now_s() + 600.0)
    await at.until(lambda: 0 in at.at_barrier())
    at.go(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CHECKPOINTED
    assert at.saved() == {0: [".checkpoint/0/1/state"]}
