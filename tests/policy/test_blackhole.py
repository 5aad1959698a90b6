"""SPEC U10, PROMISES section 3: a site that fails whatever it gets, and fast, takes little of a group and is tried
again."""

from __future__ import annotations

import pytest
from hypothesis import given as given_cases
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.policy.breaker import (
    STEPS,
    Breaker,
    BreakerSettings,
    EndCounts,
    Fault,
    Stand,
    allowed,
    at_fault,
    begin,
    credited,
    ended,
    given,
    next_s,
    started,
    tally,
)

B = SiteId("b")
SET = BreakerSettings()


def fresh(jobs: int = 1000, expected_s: float = 1.0, first: int = 0, credit: int = 0) -> Breaker:
    return begin(B, jobs, expected_s, SET, first=first, credit=credit)


def let(b: Breaker, jobs: int, now: float) -> Breaker:
    return started(given(b, jobs), jobs, now)


def failing(b: Breaker, until_s: float = 1e7) -> tuple[Breaker, int]:
    """A black hole gets all it may, whenever it may, and fails it at once: (breaker in the end, jobs it took)."""
    now, took = 0.0, 0
    while now < until_s:
        some = allowed(b, now, SET)
        assert some is not None
        if some:
            b, took = ended(let(b, some, now), EndCounts(fast=some), now + 0.01, SET), took + some
        elif (at := next_s(b, now)) is not None:
            now = at
        else:
            break
    return b, took


@pytest.mark.parametrize(("jobs", "bound"), [(1, 10), (300, 10), (500, 10), (1000, 20), (100_000, 2000)])
@pytest.mark.parametrize("first", [0, 10**9])
def test_a_failing_site_takes_at_most_two_percent_of_a_group_or_ten_jobs(jobs: int, bound: int, first: int) -> None:
    b, took = failing(fresh(jobs, first=first))
    assert took <= bound
    assert b.lost == took and (b.stand is Stand.BARRED) == (took == bound)


def test_a_failing_site_is_on_probation_after_a_few_jobs() -> None:
    b, now = fresh(100_000), 0.0
    for _ in range(3):
        assert (b.stand, allowed(b, now, SET)) == (Stand.TRYING, 1)
        b = ended(let(b, 1, now), EndCounts(fast=1), now, SET)
    assert b.stand is Stand.PROBATION and allowed(b, now, SET) == 0
    assert b.reason == "of the last 3 jobs 3 failed within 1.0 s: b is on probation, one job is tried in 1m00s"
    assert next_s(b, now) == 60.0


def test_the_ramp_doubles_each_round_until_the_site_is_trusted() -> None:
    b, rounds = fresh(), []
    while (some := allowed(b, 0.0, SET)) is not None:
        rounds.append(some)
        b = ended(let(b, some, 0.0), EndCounts(good=some), 0.0, SET)
    assert rounds == [1, 2, 4, 8, 16, 32, 64] and b.stand is Stand.TRUSTED


def test_a_site_nothing_speaks_against_begins_with_as_many_as_it_may_fail() -> None:
    assert [allowed(fresh(jobs, first=10**9), 0.0, SET) for jobs in (10, 1000, 10**6)] == [10, 20, 20_000]
    b = let(fresh(first=10**9), 20, 0.0)
    assert allowed(b, 0.0, SET) == 0
    assert allowed(ended(b, EndCounts(good=5), 0.1, SET), 0.1, SET) == 10


def test_where_the_like_did_well_before_all_slots_are_filled_until_one_fails() -> None:
    b = let(fresh(first=10**9, credit=64), 60, 0.0)
    assert allowed(b, 0.0, SET) == 4
    b = ended(b, EndCounts(fast=1), 0.1, SET)
    assert allowed(b, 0.1, SET) == 0 and b.stand is Stand.TRYING


def test_what_is_learned_of_its_like_later_counts_until_one_fails() -> None:
    b = credited(let(fresh(first=10**9), 20, 0.0), 64)
    assert allowed(b, 0.0, SET) == 44
    assert allowed(ended(b, EndCounts(fast=1), 0.1, SET), 0.1, SET) == 0


def test_jobs_of_hours_are_proven_when_they_have_run_for_a_while() -> None:
    """Nothing has ended yet, but a black hole would have failed them long ago."""
    b, now, rounds = fresh(10**6, expected_s=36_000.0), 0.0, []
    for _ in range(6):
        some = allowed(b, now, SET)
        assert some is not None
        rounds.append(some)
        b = let(b, some, now)
        assert allowed(b, now, SET) == 0
        at = next_s(b, now)
        assert at is not None and at - now <= 80.0
        now = at
    assert rounds == [1, 2, 4, 8, 16, 32]


def test_what_was_given_and_has_not_started_proves_nothing() -> None:
    b = given(fresh(), 1)
    assert allowed(b, 1e6, SET) == 0 and next_s(b, 1e6) is None


def test_probation_tries_one_job_after_pauses_that_grow_and_one_that_does_well_ends_it() -> None:
    b = fresh(1000)
    for _ in range(3):
        b = ended(let(b, 1, 0.0), EndCounts(fast=1), 0.0, SET)
    assert allowed(b, 59.9, SET) == 0 and allowed(b, 60.0, SET) == 1
    b = let(b, 1, 60.0)
    assert allowed(b, 60.0, SET) == 0
    b = ended(b, EndCounts(fast=1), 60.1, SET)
    assert (b.stand, b.until_s) == (Stand.PROBATION, pytest.approx(180.1))
    b = ended(let(b, 1, 181.0), EndCounts(good=1), 182.0, SET)
    assert (b.stand, b.reason) == (Stand.TRYING, "1 job did well on probation: b is tried again, a few at first")
    assert allowed(b, 182.0, SET) == 2
    b = ended(ended(let(b, 3, 183.0), EndCounts(fast=3), 183.0, SET), EndCounts(), 183.0, SET)
    assert (b.stand, b.until_s - 183.0) == (Stand.PROBATION, 240.0)


def test_a_trusted_site_that_turns_bad_is_caught_within_some_scores_of_jobs() -> None:
    b = ended(let(fresh(10**6), 5000, 0.0), EndCounts(good=5000), 9.0, SET)
    assert b.stand is Stand.TRUSTED and b.reason == "5,000 jobs did well lately, 0 failed fast in all"
    took = 0
    while b.stand is Stand.TRUSTED:
        b, took = ended(let(b, 10, 10.0), EndCounts(fast=10), 10.0, SET), took + 10
    assert b.stand is Stand.PROBATION and took <= 70


def test_jobs_that_fail_now_and_then_or_take_their_time_to_fail_trip_nothing() -> None:
    b = fresh(10_000)
    for n in range(200):
        b = ended(let(b, 10, float(n)), EndCounts(good=6, slow=1, fast=2, other=1), float(n), SET)
    assert b.stand is Stand.TRUSTED
    b = fresh(10_000)
    for n in range(50):
        some = allowed(b, float(n), SET)
        assert some
        b = ended(let(b, 1, float(n)), EndCounts(slow=1), float(n), SET)
    assert b.stand is Stand.TRYING


def test_what_was_lost_leaves_less_to_lose_though_other_failures_hide_it() -> None:
    b = ended(let(fresh(10, first=5), 5, 0.0), EndCounts(slow=3, fast=2), 1.0, SET)
    for fast in (2, 2, 2):
        b = ended(let(b, 5, 2.0), EndCounts(slow=3, fast=fast), 3.0, SET)
    assert (b.stand, b.lost, b.window) == (Stand.TRYING, 8, 5)
    assert allowed(b, 4.0, SET) == 2


def test_ends_weigh_the_same_told_one_by_one_or_at_once() -> None:
    one = let(fresh(), 30, 0.0)
    many = one
    for _ in range(30):
        one = ended(one, EndCounts(slow=1), 0.0, SET)
    many = ended(many, EndCounts(slow=30), 0.0, SET)
    assert one.recent_ended == pytest.approx(many.recent_ended)


def test_a_barred_site_whose_long_runners_do_well_is_tried_again() -> None:
    b = let(fresh(10), 40, 0.0)
    b = ended(b, EndCounts(fast=10), 1.0, SET)
    assert b.stand is Stand.BARRED and allowed(b, 1e9, SET) == 0
    assert b.reason.endswith("10 jobs of the group failed fast at b, it gets no more of them")
    b = ended(b, EndCounts(good=10), 3000.0, SET)
    assert b.stand is Stand.TRYING and allowed(b, 3000.0, SET) is not None


def test_where_all_sites_fail_the_work_is_at_fault() -> None:
    bad, good = failing(fresh(10))[0], ended(let(fresh(10), 1, 0.0), EndCounts(good=1), 1.0, SET)
    a, c = SiteId("a"), SiteId("c")
    assert at_fault({B: good, a: fresh()}, SET) == (Fault.NOBODY, "")
    assert at_fault({B: bad}, SET) == (Fault.UNKNOWN, "fails fast at b, the only site that tried it")
    assert at_fault({c: bad, B: bad}, SET) == (Fault.WORK, "fails fast at b, c and does well nowhere")
    assert at_fault({c: bad, B: bad, a: good}, SET) == (Fault.SITE, "fails fast at b, c and does well at a")


def test_a_failure_is_fast_against_the_expected_run_time() -> None:
    assert [SET.fast_s(expected) for expected in (0.0, 0.1, 100.0, 1e5)] == [10.0, 1.0, 10.0, 60.0]
    ends = [
        (Outcome.DONE, 0.01),
        (Outcome.FAILED, 0.01),
        (Outcome.FAILED, 10.0),
        (Outcome.FAILED, 10.1),
        (Outcome.NOT_STARTED, 0.0),
        (Outcome.STAGING_FAILED, 0.0),
        (Outcome.STAGING_FAILED, 900.0),
        (Outcome.TIMED_OUT, 1.0),
        (Outcome.CANCELLED, 0.0),
        (Outcome.UNKNOWN, 5.0),
        (Outcome.INTERRUPTED, 5.0),
    ]
    assert tally(ends, 10.0) == EndCounts(good=1, slow=3, fast=4, other=3)


words = st.lists(
    st.tuples(st.sampled_from(["give", "start", "fast", "good", "slow", "other", "wait"]), st.integers(1, 30)),
    max_size=60,
)


@example_settings(max_examples=150)
@given_cases(st.integers(1, 3000), st.floats(0, 1000), st.sampled_from([0, 5, 10**9]), words)
def test_a_breaker_never_lets_more_than_the_bound_through(
    jobs: int, expected_s: float, first: int, said: list[tuple[str, int]]
) -> None:
    """Whoever gives what is allowed, in whatever order jobs start and end: fast failures stay within the bound and what
    did well or ran long enough, as long as the site is not trusted. Only jobs that are not proven fail fast."""
    b, now = fresh(jobs, expected_s, first), 0.0
    waiting = proven = 0
    began: list[float] = []
    bound = SET.bound(jobs)
    for word, number in said:
        limit = allowed(b, now, SET)
        if limit is None:
            break
        assert limit >= 0
        if word == "give":
            waiting += min(limit, number)
            b = given(b, min(limit, number))
        elif word == "start":
            some = min(number, waiting)
            b, waiting, began = started(b, some, now), waiting - some, began + [now] * some
        elif word == "wait":
            now += number * b.fast_s / 8
        elif word == "fast":
            hit = [at for at in began if now - at <= b.fast_s][:number]
            for at in hit:
                began.remove(at)
            b = ended(b, EndCounts(fast=len(hit)), now, SET)
        else:
            some = min(number, len(began))
            proven += sum(now - at > b.fast_s for at in began[:some])
            began = began[some:]
            b = ended(b, EndCounts(**{word: some}), now, SET)
        assert b.out == waiting + len(began)
        assert b.lost <= bound + b.good + proven + sum(now - at > b.fast_s for at in began)
        assert len(b.starts) <= STEPS + 2


@example_settings(max_examples=60)
@given_cases(words)
def test_a_breaker_that_is_not_barred_lets_something_through_in_the_end(said: list[tuple[str, int]]) -> None:
    """No state is a dead end: once all that was given has ended, one more is allowed after the pause at the latest."""
    b, now = fresh(200), 0.0
    for word, number in said:
        if word in ("fast", "good", "slow", "other"):
            limit = allowed(b, now, SET)
            some = number if limit is None else min(limit, number)
            b = ended(let(b, some, now), EndCounts(**{word: some}), now, SET)
        else:
            now += number
    if b.stand is not Stand.BARRED:
        later = allowed(b, max(now, b.until_s), SET)
        assert later is None or later >= 1


@pytest.mark.parametrize(
    ("key", "value"), [("most_share", 1.5), ("canaries", 0), ("trip_share", 0.0), ("probation_most_s", 1.0)]
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{key} = "):
        BreakerSettings(**{key: value})  # type: ignore[arg-type]
