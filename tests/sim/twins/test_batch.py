"""The batch system (diana/sim/twins/batch.py): a case worked by hand, two slow referees, and what FCFS and EASY
promise."""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.sim.twins.batch import BatchMachine, Discipline
from tests.sim.batch_referees import Asked, easy_by_definition, fcfs_by_processors

FCFS, EASY = Discipline.FCFS, Discipline.EASY


class Run(NamedTuple):
    starts_s: list[float]
    order: list[int]
    """Times of starts."""
    promises: list[tuple[float, int, float]]
    """(when, to which job, by when): after every event of which a head was left waiting."""


def run(processors: int, jobs: list[Asked], discipline: Discipline) -> Run:
    """Drives the machine as its contract says, and holds its books against the jobs' at every event."""
    batch = BatchMachine(processors, discipline)
    coming = sorted(range(len(jobs)), key=lambda k: (jobs[k].submit_s, k))
    found = Run([math.nan] * len(jobs), [], [])
    held: dict[int, int] = {}
    waiting: list[int] = []
    while coming or batch.running:
        now_s = min(batch.next_s(), jobs[coming[0]].submit_s if coming else math.inf)
        while coming and jobs[coming[0]].submit_s == now_s:
            job = coming.pop(0)
            batch.submit(job, jobs[job].width, jobs[job].run_s, jobs[job].estimate_s)
            waiting.append(job)
        told = batch.advance(now_s)
        for job in told.ended:
            assert found.starts_s[job] + jobs[job].run_s == now_s
            del held[job]
        for job in told.started:
            assert math.isnan(found.starts_s[job]) and jobs[job].submit_s <= now_s
            found.starts_s[job] = now_s
            found.order.append(job)
            held[job] = jobs[job].width
            waiting.remove(job)
        assert sum(held.values()) == processors - batch.free <= processors
        assert (batch.waiting, batch.running) == (len(waiting), len(held))
        if waiting:
            assert jobs[waiting[0]].width > batch.free, f"job {waiting[0]} could have started at {now_s}"
            if discipline is EASY:
                found.promises.append((now_s, waiting[0], batch.promised_s(now_s)))
    return found


BY_HAND = [
    Asked(0, 6, 10, 12),
    Asked(1, 8, 6, 6),
    Asked(2, 2, 20, 20),
    Asked(3, 2, 10, 10),
    Asked(4, 2, 3, 8),
    Asked(8, 1, 4, 4),
    Asked(11, 7, 1, 1),
]


def test_easy_makes_the_schedule_worked_out_by_hand() -> None:
    """Ten processors, jobs A to G in the order of BY_HAND; one column a second, one row a processor:

        second 0         1         2         3
               0123456789012345678901234567890
               AAAAAAAAAA.GBBBBBBDDDDDDDDDD...
               AAAAAAAAAA.GBBBBBBDDDDDDDDDD...
               AAAAAAAAAA.GBBBBBB.............
               AAAAAAAAAA.GBBBBBB.............
               AAAAAAAAAA.GBBBBBB.............
               AAAAAAAAAA.GBBBBBB.............
               ....EEE....GBBBBBB.............
               ....EEE.FFFFBBBBBB.............
               ..CCCCCCCCCCCCCCCCCCCC.........
               ..CCCCCCCCCCCCCCCCCCCC.........

    1: B (8 wide) is promised 12, when A is expected to end; 2 processors are extra then.
    2: C would run until 22, on the 2 extra ones.   3: D would run until 13 and nothing is extra: it waits.
    4: E is expected to end at 12, not after it; it ends at 7, where D still does not fit.
    8: F ends at 12.   10: A ends early; 7 are free, B needs 8, F's end is awaited: the promise stays 12.
    11: G ends at 12.   12: B, as promised.   18: D."""
    found = run(10, BY_HAND, EASY)
    assert found.starts_s == [0, 12, 2, 18, 4, 8, 11]
    assert {by_s for _, job, by_s in found.promises if job == 1} == {12}


def test_strict_fcfs_makes_another_of_the_same_jobs() -> None:
    """B waits for A; C goes with B; D, E and F when B has ended; G when D has."""
    assert run(10, BY_HAND, FCFS).starts_s == [0, 10, 10, 16, 16, 16, 26]


def test_what_is_submitted_when_others_end_finds_their_processors() -> None:
    jobs = [Asked(0, 4, 5, 5), Asked(5, 4, 5, 5), Asked(10, 4, 5, 5)]
    assert run(4, jobs, FCFS).starts_s == run(4, jobs, EASY).starts_s == [0, 5, 10]


def test_a_job_that_runs_over_its_request_runs_on_and_its_successor_waits() -> None:
    jobs = [Asked(0, 3, 100, 10), Asked(1, 4, 5, 5), Asked(2, 1, 50, 50), Asked(20, 1, 1, 1)]
    found = run(4, jobs, EASY)
    # Job 3 would have to be expected to end at once; job 2 never: nothing but the head's promise moves with the clock.
    assert found.starts_s == easy_by_definition(4, jobs) == [0, 100, 105, 105]
    assert [by_s for at_s, job, by_s in found.promises if job == 1 and at_s >= 20] == [20]


def test_a_job_wider_than_the_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="job 7: 5 processors of 4"):
        BatchMachine(4, FCFS).submit(7, 5, 1.0, 1.0)


@st.composite
def machines(draw: st.DrawFn, honest: bool) -> tuple[int, list[Asked]]:
    """`honest`: estimates are never too low. Few different times, so that much happens at once."""
    processors = draw(st.integers(1, 12))
    times = st.integers(0, 30)
    jobs = []
    for _ in range(draw(st.integers(1, 40))):
        run_s = draw(st.integers(1, 12))
        estimate_s = draw(st.integers(run_s if honest else 1, 15))
        jobs.append(Asked(draw(times), draw(st.integers(1, processors)), run_s, estimate_s))
    return processors, jobs


@given(machines(honest=False))
def test_fcfs_starts_in_order_of_submission_and_as_the_referee_says(case: tuple[int, list[Asked]]) -> None:
    processors, jobs = case
    found = run(processors, jobs, FCFS)
    in_order = sorted(range(len(jobs)), key=lambda k: (jobs[k].submit_s, k))
    assert found.order == in_order
    asked = [jobs[k] for k in in_order]
    expected = fcfs_by_processors(processors, [(job.submit_s, job.width, job.run_s) for job in asked])
    assert [found.starts_s[k] for k in in_order] == expected


@given(machines(honest=False))
def test_easy_starts_every_job_when_its_definition_does(case: tuple[int, list[Asked]]) -> None:
    processors, jobs = case
    assert run(processors, jobs, EASY).starts_s == easy_by_definition(processors, jobs)


@given(machines(honest=True))
def test_easy_never_takes_back_what_it_promised_a_head(case: tuple[int, list[Asked]]) -> None:
    """A promise may only become better, and is kept: backfilling delays no head where estimates are not too low."""
    processors, jobs = case
    found = run(processors, jobs, EASY)
    best_s: dict[int, float] = {}
    for at_s, job, by_s in found.promises:
        assert at_s <= by_s <= best_s.get(job, math.inf)
        best_s[job] = by_s
    for job, by_s in best_s.items():
        assert found.starts_s[job] <= by_s


@given(machines(honest=False), st.sampled_from(Discipline))
def test_all_work_is_done_once_and_the_machine_is_idle_in_the_end(
    case: tuple[int, list[Asked]], discipline: Discipline
) -> None:
    processors, jobs = case
    found = run(processors, jobs, discipline)
    assert sorted(found.order) == list(range(len(jobs)))
    used = sum(job.width * job.run_s for job in jobs)
    ends_s = [start_s + job.run_s for start_s, job in zip(found.starts_s, jobs, strict=True)]
    assert used <= processors * (max(ends_s) - min(job.submit_s for job in jobs))


@given(machines(honest=True))
def test_with_one_width_for_all_easy_is_fcfs(case: tuple[int, list[Asked]]) -> None:
    processors, jobs = case
    alike = [job._replace(width=processors) for job in jobs]
    assert run(processors, alike, EASY).starts_s == run(processors, alike, FCFS).starts_s


def bursts(processors: int, count: int, seed: int) -> list[Asked]:
    """Many at once, so that the queue grows over many blocks, empties and is compacted; estimates often too low."""
    chance = Random(seed)
    jobs = []
    for k in range(count):
        run_s = chance.randint(1, 400)
        width = min(processors, chance.choice((1, 1, 2, 3, 8, 17, 40)))
        jobs.append(Asked(k // (count // 3) * 2000 + chance.randint(0, 300), width, run_s, chance.randint(1, 600)))
    return jobs


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.wide), pytest.param(3, marks=pytest.mark.wide)])
def test_a_queue_of_many_blocks_is_searched_as_one_of_few(seed: int) -> None:
    jobs = bursts(40, 1500, seed)
    assert run(40, jobs, EASY).starts_s == easy_by_definition(40, jobs), f"seed {seed}"
