"""Promises of every LocalResourceManager to the engine (`ports.LocalResourceManager`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Outputs, Resources
from tests.contract.lrm_builders import RealSite, shell

TRUE = GroupSpec(argv=("/bin/true",))
Site = Callable[..., Awaitable[RealSite]]


@pytest_asyncio.fixture(params=["real"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[RealSite] = []

    async def make(slots: int = 2) -> RealSite:
        made.append(RealSite(tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_all_jobs_run_and_each_end_is_told_once_when_it_is_forgotten_at_once(site: Site) -> None:
    at = await site()
    at.start(TRUE, *range(50))
    ends = await at.ended(50)
    at.forget(*ends)
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
    at.start(shell("exit 3"), 0)
    at.start(shell("kill -9 $$"), 1)
    await at.ended(2)
    assert (at.by_index()[0].outcome, at.by_index()[0].exit_code) == (Outcome.FAILED, 3)
    assert (at.by_index()[1].outcome, at.by_index()[1].exit_code) == (Outcome.FAILED, 137)


async def test_a_run_ordered_twice_is_started_once(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    spec = shell(f"echo $DIANA_INDEX >> {marks}; sleep 0.1")
    at.start(spec, 0, 1)
    at.start(spec, 0, 1, 2)
    await at.ended(3)
    at.start(spec, 0, 1, 2)
    await at.restart_node()
    at.start(spec, 0, 1, 2)
    at.start(TRUE, 3)
    await at.ended(4)
    assert sorted(marks.read_text().split()) == ["0", "1", "2"]


async def test_an_order_of_an_older_session_is_dropped(site: Site) -> None:
    at = await site()
    old = at.ready().session
    await at.lose_lrm()
    at.start(TRUE, 0, session=old)
    at.start(TRUE, 1)
    await at.ended(1)
    assert {end.run.index for end in at.ends()} == {1}


async def test_a_time_limit_ends_a_job(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=("/bin/sleep", "30"), resources=Resources(time_limit_s=0.2)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.TIMED_OUT


async def test_cancelled_jobs_say_so_whether_they_ran_or_waited(site: Site) -> None:
    at = await site(slots=1)
    at.start(GroupSpec(argv=("/bin/sleep", "30")), 0, 1, 2)
    at.kill(0, 2)
    await at.ended(2)
    assert {i: end.outcome for i, end in at.by_index().items()} == {0: Outcome.CANCELLED, 2: Outcome.CANCELLED}
    at.kill(1)
    await at.ended(3)


async def test_a_restarted_node_finds_its_jobs_running(site: Site) -> None:
    at = await site()
    at.start(shell("sleep 0.4"), *range(3))
    await at.restart_node()
    assert {run.index for run in at.ready().known} == {0, 1, 2}
    assert {end.outcome for end in await at.ended(3)} == {Outcome.DONE}
    assert at.losses() == 0


async def test_a_lost_lrm_tells_unknown_for_what_ran_and_voids_what_waited_and_reruns_nothing(
    site: Site, tmp_path: Path
) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}; sleep 0.5"), *range(4))
    await at.until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
    await at.lose_lrm()
    assert at.losses() == 1
    assert {run.index for run in at.ready().known} == {0, 1}
    ends = await at.ended(2)
    assert {(end.run.index, end.outcome) for end in ends} == {(0, Outcome.UNKNOWN), (1, Outcome.UNKNOWN)}
    assert all("spawner" in end.error for end in ends)
    at.start(TRUE, 2, 3)
    await at.ended(4)
    assert sorted(marks.read_text().split()) == ["0", "1"]


async def test_a_job_of_several_processors_waits_for_as_many_slots(site: Site, tmp_path: Path) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    at.start(shell(f"sleep 0.2; echo narrow >> {marks}"), 0)
    at.start(shell(f"echo wide >> {marks}", resources=Resources(processors=2)), 1)
    at.start(shell("true", resources=Resources(processors=3)), 2)
    await at.ended(3)
    assert marks.read_text().split() == ["narrow", "wide"]
    assert at.by_index()[2].outcome is Outcome.NOT_STARTED


# --- what has not begun is given back ----------------------------------------------------------------------


async def test_what_has_not_begun_is_given_back_and_what_has_runs_on(site: Site, tmp_path: Path) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    spec = shell(f"echo $DIANA_INDEX.$DIANA_ATTEMPT >> {marks}; sleep 0.5")
    assert at.ready().recalls
    at.start(spec, *range(6))
    await at.until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
    at.recall(0, 1, 3, 4, 5)
    back = await at.ended(3)
    assert {end.run.index for end in back} == {3, 4, 5} and {end.outcome for end in back} == {Outcome.UNBEGUN}
    at.forget(*back)
    at.start(spec, 5, attempt=2)
    await at.until(lambda: sum(end.outcome is Outcome.DONE for end in at.ends()) == 4)
    assert sorted(marks.read_text().split()) == ["0.1", "1.1", "2.1", "5.2"]


async def test_what_was_given_back_stays_so_though_the_node_and_the_lrm_were_lost(site: Site, tmp_path: Path) -> None:
    at = await site(slots=1)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}; sleep 1"), 0, 1, 2)
    await at.until(marks.exists)
    at.recall(1)
    await at.ended(1)
    await at.restart_node()
    await at.until(lambda: len(at.ends()) == 2)
    await at.lose_lrm()
    await at.ended(2)
    assert {run.index for run in at.ready().known} == {0, 1}
    assert [at.by_index()[index].outcome for index in (0, 1)] == [Outcome.UNKNOWN, Outcome.UNBEGUN]
    assert marks.read_text().split() == ["0"]


async def test_each_run_begins_or_is_given_back_whenever_it_is_asked_for(site: Site, tmp_path: Path) -> None:
    at = await site(slots=4)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}"), *range(200))
    for first in range(0, 200, 20):
        at.recall(*range(first, 200, 7))
        await at.ended(first // 4)
    await at.ended(200)
    how = {outcome: {i for i, end in at.by_index().items() if end.outcome is outcome} for outcome in Outcome}
    assert how[Outcome.UNBEGUN] and how[Outcome.DONE] | how[Outcome.UNBEGUN] == set(range(200))
    assert Counter(map(int, marks.read_text().split())) == Counter(how[Outcome.DONE])


async def test_a_later_attempt_has_its_directory_though_the_first_was_given_back(site: Site) -> None:
    at = await site(slots=1)
    at.start(shell("sleep 0.4; echo ok > out", outputs=Outputs(collect=("out",))), 0, 1)
    at.recall(1)
    await at.until(lambda: 1 in at.by_index())
    at.forget(at.by_index()[1])
    at.start(shell("sleep 0.4; echo ok > out", outputs=Outputs(collect=("out",))), 1, attempt=2)
    await at.until(lambda: sum(end.outcome is Outcome.DONE for end in at.ends()) == 2)
    assert {(end.run.index, end.run.attempt) for end in at.ends() if end.outcome is Outcome.DONE} == {(0, 1), (1, 2)}
