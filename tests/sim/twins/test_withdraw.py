"""Jobs that leave a batch system before their end: two cases worked by hand, and what holds whoever leaves when."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.sim.twins.batch import BatchMachine, Discipline
from tests.sim.batch_referees import Asked, easy_by_definition, fcfs_by_definition
from tests.sim.twins.test_batch import BY_HAND, machines

FCFS, EASY = Discipline.FCFS, Discipline.EASY
A, B = 0, 1


def run(
    processors: int, jobs: list[Asked], leaves_s: Mapping[int, float], discipline: Discipline
) -> tuple[list[float], list[tuple[float, int, float]]]:
    """Starts, and (when, to which head, by when) for each promise. Who is named leaves at that time, wherever it is."""
    batch = BatchMachine(processors, discipline)
    coming = sorted(range(len(jobs)), key=lambda k: (jobs[k].submit_s, k))
    times_s = sorted({job.submit_s for job in jobs} | set(leaves_s.values()))
    starts_s, promises = [math.nan] * len(jobs), []
    held: dict[int, int] = {}
    waiting: list[int] = []
    while times_s or batch.running:
        now_s = min([batch.next_s(), *times_s[:1]])
        times_s = [at_s for at_s in times_s if at_s > now_s]
        while coming and jobs[coming[0]].submit_s == now_s:
            job = coming.pop(0)
            batch.submit(job, jobs[job].width, jobs[job].run_s, jobs[job].estimate_s)
            waiting.append(job)
        gone = [job for job, at_s in leaves_s.items() if at_s == now_s]
        went = batch.withdraw(gone)
        assert sorted(went) == sorted(job for job in gone if job in held or job in waiting)
        held = {job: width for job, width in held.items() if job not in went}
        waiting = [job for job in waiting if job not in went]
        told = batch.advance(now_s)
        for job in told.ended:
            del held[job]
        for job in told.started:
            assert discipline is EASY or job == waiting[0], "FCFS: nobody is overtaken"
            starts_s[job] = now_s
            held[job] = jobs[job].width
            waiting.remove(job)
        assert sum(held.values()) == processors - batch.free <= processors
        assert (batch.waiting, batch.running) == (len(waiting), len(held))
        if waiting and discipline is EASY:
            promises.append((now_s, waiting[0], batch.promised_s(now_s)))
    return starts_s, promises


def test_a_killed_job_frees_its_processors_and_the_heads_promise_is_worked_out_anew() -> None:
    """The jobs of BY_HAND, of which A is killed at 5; one column a second, one row a processor:

        second 0         1         2
               012345678901234567890123
               AAAAA..BBBBBBDDDDDDDDDD
               AAAAA..BBBBBBDDDDDDDDDD
               AAAAA..BBBBBBFFFF
               AAAAA..BBBBBB
               AAAAA..BBBBBB
               AAAAA..BBBBBB
               ....EEEBBBBBB
               ....EEEBBBBBB
               ..CCCCCCCCCCCCCCCCCCCC
               ..CCCCCCCCCCCCCCCCCCCC

    5: A is gone, 6 are free. B (8 wide) is promised 12, when E is expected to end; nothing is extra then, so D, which
    would run until 15, waits.   7: E ends, B starts, long before 12.   13: B ends; D and F start; G (7 wide) is
    promised 22, when C ends.   17: F ends.   22: G."""
    starts_s, promises = run(10, BY_HAND, {A: 5}, EASY)
    assert starts_s == [0, 7, 2, 13, 4, 13, 22]
    assert [by_s for at_s, job, by_s in promises if job == B and at_s >= 5] == [12]


def test_a_head_that_is_withdrawn_gives_its_promise_up_and_the_next_one_has_its_own() -> None:
    """The same jobs; B, the head, is withdrawn at 9. D (2 wide) is the head then and is promised 12, when A is expected
    to end. 10: A ends, D starts and runs until 20.   11: G (7 wide) finds 5 free and is promised 20.   12: F ends, 6.
    20: D ends, G starts."""
    starts_s, promises = run(10, BY_HAND, {B: 9}, EASY)
    assert starts_s[:1] + starts_s[2:] == [0, 2, 10, 4, 8, 20] and math.isnan(starts_s[B])
    assert [by_s for _, job, by_s in promises if job == 3] == [12]


def test_who_is_not_there_is_not_withdrawn() -> None:
    batch = BatchMachine(2, EASY)
    assert batch.withdraw([7]) == []
    batch.submit(7, 2, 5.0, 5.0)
    batch.submit(8, 2, 5.0, 5.0)
    batch.advance(0.0)
    assert batch.withdraw([8, 7, 9]) == [8, 7], "those that waited first"
    assert (batch.free, batch.waiting, batch.next_s()) == (2, 0, math.inf)


@st.composite
def left(draw: st.DrawFn, honest: bool = False) -> tuple[int, list[Asked], dict[int, float]]:
    processors, jobs = draw(machines(honest=honest))
    who = draw(st.sets(st.integers(0, len(jobs) - 1)))
    return processors, jobs, {job: jobs[job].submit_s + draw(st.integers(0, 25)) for job in sorted(who)}


@given(left())
def test_fcfs_with_withdrawals_starts_every_job_when_its_definition_does(
    case: tuple[int, list[Asked], dict[int, float]],
) -> None:
    assert run(*case, FCFS)[0] == pytest.approx(fcfs_by_definition(*case), nan_ok=True)


@given(left())
def test_easy_with_withdrawals_starts_every_job_when_its_definition_does(
    case: tuple[int, list[Asked], dict[int, float]],
) -> None:
    assert run(*case, EASY)[0] == pytest.approx(easy_by_definition(*case), nan_ok=True)


@pytest.mark.wide
@given(left(honest=True))
def test_whoever_leaves_easy_keeps_what_it_promised_a_head(case: tuple[int, list[Asked], dict[int, float]]) -> None:
    processors, jobs, leaves_s = case
    starts_s, promises = run(processors, jobs, leaves_s, EASY)
    best_s: dict[int, float] = {}
    for at_s, job, by_s in promises:
        assert at_s <= by_s <= best_s.get(job, math.inf)
        best_s[job] = by_s
    for job, by_s in best_s.items():
        assert starts_s[job] <= by_s or (math.isnan(starts_s[job]) and job in leaves_s)


@pytest.mark.parametrize("discipline", Discipline)
def test_whoever_leaves_a_queue_of_many_blocks_is_found_in_it(discipline: Discipline) -> None:
    """Two thousand wait behind one that holds all; all but every hundredth are withdrawn, in one go and one by one."""
    batch = BatchMachine(4, discipline)
    batch.submit(0, 4, 10.0, 10.0)
    for job in range(1, 2001):
        batch.submit(job, 1 + job % 4, 1.0, 1.0)
    batch.advance(0.0)
    gone = [job for job in range(1, 2001) if job % 100]
    assert batch.withdraw(gone[:1000]) == gone[:1000]
    for job in gone[1000:]:
        assert batch.withdraw([job]) == [job]
    started: list[int] = []
    while batch.running:
        started += batch.advance(batch.next_s()).started
    assert started == [job for job in range(1, 2001) if job % 100 == 0]
