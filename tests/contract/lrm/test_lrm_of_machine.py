"""Promises of the embedded LRM about the slots of its machine, held to the real one and to the simulator's: leases (the
kill timer beside the job, PROMISES section 2), GPUs, power failure, and what an end tells. Clusters keep some of them
otherwise, and members have suites of their own, so nobody imports these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from diana.model.facts import Outcome
from diana.model.job.grace import GRACE_S
from diana.model.job.spec import Resources
from tests.contract.lrm.test_lrm_conformance import TICK_S, TRUE, outcomes
from tests.contract.lrm_builders import FOREVER, RealSite
from tests.contract.lrm_simulated import SimulatedSite

LEASE_S = 2.0
"""Renewed every tenth of it until the jobs run, however long a busy machine takes for that."""
ORIGIN_WAITS_S = 30.0
"""Seconds after the end of a lease before which its origin surely places nothing anew."""
LATE_S = 2.0
"""A busy machine does things later than it should."""
AnySite = RealSite | SimulatedSite
Site = Callable[..., Awaitable[AnySite]]
KINDS: dict[str, Callable[[Path, int, int], AnySite]] = {"real": RealSite, "simulated": SimulatedSite}


@pytest_asyncio.fixture(params=sorted(KINDS))
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[AnySite] = []

    async def make(slots: int = 2, gpus: int = 0) -> AnySite:
        made.append(KINDS[request.param](tmp_path / str(len(made)), slots, gpus))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


# --- leases --------------------------------------------------------------------------------------------------


async def running_under_lease(at: AnySite, *indices: int, origin: str = "beta") -> float:
    """Renew a lease until these jobs run; the time at which the last lease ends."""
    until_s = 0.0

    def run() -> bool:
        nonlocal until_s
        if at.now_s() > until_s - 0.9 * LEASE_S:
            until_s = at.now_s() + LEASE_S
            at.lease(origin, until_s)
        return set(indices) <= {index for index, _ in at.begun()}

    await at.until(run)
    return until_s


def in_time(at: AnySite, ended_s: float, by_s: float) -> bool:
    """Beyond `ORIGIN_WAITS_S` the origin places the jobs anew, and a copy that runs on would be a second one."""
    return ended_s <= by_s + (LATE_S if at.punctual else ORIGIN_WAITS_S)


async def test_without_a_lease_nothing_is_started(site: Site) -> None:
    at = await site()
    at.lease("gamma", at.now_s() + 600.0)
    at.start(at.work(), 0, 1, lease="beta")
    assert {(end.outcome, end.segment) for end in await at.ended(2)} == {(Outcome.LEASE_OVER, "")}
    at.start(at.work(), 2)
    await at.ended(3)
    assert at.begun() == [(2, 1)]


async def test_what_runs_is_ended_with_its_lease_and_what_waits_is_not_started(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + LEASE_S)
    at.start(at.work(FOREVER), 0, 1, 2, 3, lease="beta")
    at.start(at.work(), 9)
    until_s = await running_under_lease(at, 0, 1)
    await at.ended(5)
    assert outcomes(at) == {**dict.fromkeys(range(4), Outcome.LEASE_OVER), 9: Outcome.DONE}
    assert sorted(at.begun()) == [(0, 1), (1, 1), (9, 1)]
    ends = at.by_index()
    assert min(ends[index].ended_s for index in range(4)) >= until_s - TICK_S
    assert in_time(at, max(ends[index].ended_s for index in (0, 1)), until_s + GRACE_S)
    assert in_time(at, max(ends[index].ended_s for index in (2, 3)), until_s)


async def test_a_lease_that_is_renewed_lets_its_jobs_go_on_and_never_ends_sooner(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + LEASE_S)
    at.start(at.work(FOREVER), 0, lease="beta")
    until_s = await running_under_lease(at, 0)
    at.lease("beta", at.now_s() + 600.0)
    at.lease("beta", at.now_s() + 0.1)
    await at.pass_time(until_s + 0.3 - at.now_s())
    at.finish()
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.DONE


async def test_a_lease_that_comes_after_the_end_of_the_last_one_is_for_what_starts_then(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + LEASE_S)
    at.start(at.work(FOREVER), 0, lease="beta")
    until_s = await running_under_lease(at, 0)
    await at.pass_time(until_s + 0.1 - at.now_s())
    at.lease("beta", at.now_s() + 600.0)
    at.start(at.work(FOREVER), 1, lease="beta")
    await at.ended(1)
    assert outcomes(at) == {0: Outcome.LEASE_OVER}
    at.finish()
    await at.ended(2)
    assert outcomes(at)[1] is Outcome.DONE


async def test_each_origin_has_a_lease_of_its_own(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + 600.0)
    over_s = at.now_s() + 0.3
    at.lease("gamma", over_s)
    at.start(at.work(FOREVER), 0, lease="beta")
    await at.until(lambda: len(at.begun()) == 1)
    await at.pass_time(max(0.0, over_s - at.now_s()) + 0.3)
    at.finish()
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.DONE


async def test_what_a_lost_lrm_left_running_ends_with_its_lease(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + LEASE_S)
    at.start(at.work(FOREVER), 0, lease="beta")
    until_s = await running_under_lease(at, 0)
    await at.lose_lrm()
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.LEASE_OVER
    assert until_s - TICK_S <= end.ended_s and in_time(at, end.ended_s, until_s + GRACE_S)


async def test_what_waits_at_the_barrier_leaves_it_with_its_lease(site: Site) -> None:
    at = await site()
    until_s = at.now_s() + 0.8
    at.lease("beta", until_s)
    at.start(at.work(), 0, lease="beta", barrier_s=at.now_s() + 600.0)
    # On a busy machine it may be over before it is held.
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    (end,) = await at.ended(1)
    at.go(0)
    await at.pass_time(at.quiet_s)
    assert end.outcome is Outcome.LEASE_OVER and until_s - TICK_S <= end.ended_s and in_time(at, end.ended_s, until_s)
    assert not at.begun()


# --- power failure -------------------------------------------------------------------------------------------


async def test_a_power_failure_interrupts_what_ran_and_what_waited_and_reruns_nothing(site: Site) -> None:
    at = await site()
    at.lease("beta", at.now_s() + 600.0)
    at.start(at.work(FOREVER), 0, 1, 2, 3)
    await at.until(lambda: len(at.begun()) == 2)
    at.recall(3)
    await at.ended(1)
    await at.lose_machine()
    assert {run.index for run in at.ready().known} == {0, 1, 2, 3}
    ends = await at.ended(4)
    assert outcomes(at) == {**dict.fromkeys(range(3), Outcome.INTERRUPTED), 3: Outcome.UNBEGUN}
    assert all(end.error for end in ends if end.outcome is Outcome.INTERRUPTED)
    at.start(at.work(resources=Resources(processors=2)), 4)
    await at.ended(5)
    assert outcomes(at)[4] is Outcome.DONE, "all slots are free"
    at.start(at.work(), 5, lease="beta")
    await at.ended(6)
    assert outcomes(at)[5] is Outcome.LEASE_OVER, "a lease is told anew to a machine that was off"
    assert sorted(at.begun()) == [(0, 1), (1, 1), (4, 1)]


# --- GPUs ----------------------------------------------------------------------------------------------------


async def test_jobs_that_want_a_gpu_run_beside_each_other_as_far_as_there_are_some(site: Site) -> None:
    at = await site(slots=8, gpus=2)
    assert (at.ready().gpus, at.ready().all_gpus) == (2, 2)
    at.start(at.work(FOREVER, resources=Resources(gpus=1)), *range(5))
    await at.until(lambda: len(at.begun()) == 2)
    await at.pass_time(at.quiet_s)
    assert len(at.begun()) == 2
    at.finish()
    assert {end.outcome for end in await at.ended(5)} == {Outcome.DONE}


async def test_a_gpu_stays_with_its_job_when_the_lrm_is_lost_and_is_free_when_that_is_over(site: Site) -> None:
    at = await site(slots=8, gpus=2)
    at.start(at.work(FOREVER, resources=Resources(gpus=1)), 0, 1)
    await at.until(lambda: len(at.begun()) == 2)
    await at.lose_lrm()
    at.start(at.work(resources=Resources(gpus=1)), 2)
    await at.pass_time(at.quiet_s)
    assert len(at.begun()) == 2
    at.kill(0)
    await at.ended(2)
    assert outcomes(at) == {0: Outcome.CANCELLED, 2: Outcome.DONE}
    at.finish()
    await at.ended(3)


# --- what an end tells ---------------------------------------------------------------------------------------


async def test_an_end_tells_how_it_came_about(site: Site) -> None:
    at = await site(slots=1, gpus=1)
    at.start(at.work(FOREVER, resources=Resources(time_limit_s=0.3)), 0)
    await at.ended(1)
    at.start(at.work(FOREVER), 1)
    at.start(TRUE, 2, 3)
    await at.until(lambda: (1, 1) in at.begun())
    at.kill(1, 2)
    await at.ended(4)
    at.start(at.work(resources=Resources(processors=2)), 4)
    at.start(at.work(resources=Resources(gpus=2)), 5)
    at.start(at.work(exit_code=7), 6)
    await at.ended(7)
    assert {index: (end.outcome, end.exit_code) for index, end in at.by_index().items()} == {
        0: (Outcome.TIMED_OUT, 143),
        1: (Outcome.CANCELLED, 143),
        2: (Outcome.CANCELLED, 0),
        3: (Outcome.DONE, 0),
        4: (Outcome.NOT_STARTED, 127),
        5: (Outcome.NOT_STARTED, 127),
        6: (Outcome.FAILED, 7),
    }
    ends = at.by_index()
    assert all(ends[index].started_s == ends[index].ended_s for index in (2, 4, 5)), "they took no time"
    assert {index for index, end in ends.items() if end.error} == {4, 5}, "what a job did speaks for itself"
    assert all(ends[index].error.startswith(f"alpha-1.{index}: ") for index in (4, 5))
