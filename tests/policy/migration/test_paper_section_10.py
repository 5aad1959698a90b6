"""DIANA section X, queue management, sentence by sentence (SPEC D4: `the paper's algorithm to the digit`)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.queueing import priority as pr
from tests.engine.queueing import Waiting, entry

QUOTAS = {"A": 1900.0, "B": 1700.0}
COUNTS = st.integers(1, 10**6)
QUOTA = st.integers(1, 10**4)
PROCESSORS = st.integers(1, 512)

FIGURE_6 = [
    # after, of these the job, N, Pr, level
    ("A t=1", "A1", 1.0, 0.0, "Q2"),
    ("A t=5", "A1", 6.0, 0.666667, "Q1"),
    ("A t=5", "A5", 1.2, -0.4, "Q3"),
    ("B t=1", "A1", 3.694444, 0.458647, "Q2"),
    ("B t=1", "A5", 0.738889, -0.630556, "Q4"),
    ("B t=1", "B1", 3.305556, 0.697479, "Q1"),
]
ARRIVALS = {"A t=1": ("A1", 1), "A t=5": ("A5", 5), "B t=1": ("B1", 1)}


def figure_6(after: str) -> Waiting:
    waiting = Waiting(quotas=QUOTAS)
    for at, (name, (job, processors)) in enumerate(ARRIVALS.items()):
        waiting.arrive(entry(job, processors=processors, submitted_s=float(at)))
        if name == after:
            break
    return waiting


@pytest.mark.parametrize(("after", "job", "allowance", "value", "level"), FIGURE_6)
def test_every_number_of_figure_6(after: str, job: str, allowance: float, value: float, level: str) -> None:
    """SPEC D4's table. `Let us consider an example scenario where a new job is submitted by user A ...`"""
    at = figure_6(after).at(job)
    assert (round(at.allowance, 6), round(at.priority, 6), at.level.name) == (allowance, value, level)


def test_jobs_start_in_the_order_of_figure_6() -> None:
    """`the job with the highest priority will be placed first in the queue`"""
    assert figure_6("B t=1").start(3) == ["B1", "A1", "A5"]


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (np.nextafter(1.0, 0), "Q1"),
        (0.5, "Q1"),
        (np.nextafter(0.5, 0), "Q2"),
        (0.0, "Q2"),
        (-0.0, "Q2"),
        (np.nextafter(0.0, -1), "Q3"),
        (-0.5, "Q3"),
        (np.nextafter(-0.5, -1), "Q4"),
        (-1.0, "Q4"),
    ],
)
def test_the_borders_of_the_levels_belong_to_the_better_one(value: float, level: str) -> None:
    """`Q1: 0.5 <= priority < 1; Q2: 0 <= priority < 0.5; Q3: -0.5 <= priority < 0; Q4: -1 <= priority < -0.5`"""
    assert pr.level(value).name == level


def pr_of(n: float, t: float, q: float, total: float, total_quota: float) -> float:
    return float(pr.priority(pr.burden(*(np.array([float(x)]) for x in (n, t, q)), total, total_quota))[0])  # type: ignore[call-arg]


@given(n=COUNTS, t=PROCESSORS, q=QUOTA, others=COUNTS, other_quotas=st.integers(0, 10**6))
def test_the_formula_is_the_papers(n: int, t: int, q: int, others: int, other_quotas: int) -> None:
    """`If (n <= N) Pr(n) = (N - n)/N Else Pr(n) = (N - n)/n`, in exact arithmetic."""
    total, total_quota = n * t + others, q + other_quotas
    allowed = Fraction(q * total, total_quota * t)
    wanted = (allowed - n) / allowed if n <= allowed else (allowed - n) / n
    assert pr_of(n, t, q, total, total_quota) == pytest.approx(float(wanted), rel=1e-12, abs=1e-12)
    assert pr.allowance(t, q, total, total_quota) == pytest.approx(float(allowed))


@given(n=COUNTS, t=PROCESSORS, q=QUOTA, others=st.integers(0, 10**9), other_quotas=st.integers(0, 10**6))
def test_priority_lies_inside_minus_one_and_one(n: int, t: int, q: int, others: int, other_quotas: int) -> None:
    """`the priority will always lie in the interval {-1, 1}`; SPEC D4: neither end is reached."""
    assert -1.0 < pr_of(n, t, q, n * t + others, q + other_quotas) < 1.0


@given(allowed=st.floats(1e-3, 1e9), step=st.floats(1e-12, 1e-6))
def test_priority_is_continuous_where_n_reaches_the_threshold(allowed: float, step: float) -> None:
    """SPEC D4: `Pr is continuous at n = N`, and 0 there; the paper's two branches meet."""
    below, at, above = pr.priority(np.array([1 - step, 1.0, 1 + step]))
    assert at == 0.0 and below > 0 > above
    assert abs(below - step) < 2 * step and abs(above + step) < 2 * step
    assert pr_of(allowed, 1, 1, allowed, 1) == 0.0


@given(jobs=COUNTS, t=PROCESSORS, quota=st.one_of(QUOTA.map(float), st.floats(1e-6, 1e6)))
def test_one_user_with_equal_jobs_has_priority_zero_to_the_last_bit(jobs: int, t: int, quota: float) -> None:
    """SPEC D4: `one user with k equal jobs has Pr = 0`, so that it stands in Q2 and not, by a rounding, in Q3."""
    waiting = Waiting(entry("A", jobs=jobs, processors=t), quotas={"A": quota})
    assert (waiting.at("A").priority, waiting.at("A").level.name) == (0.0, "Q2")


def test_the_number_of_jobs_in_all_queues_never_enters() -> None:
    """`Combining these two inequalities IV and V, we get n <= qT/(Qt)`: L has gone. SPEC D4: `L never enters`.

    Ten more jobs of B and none: with T, n and Q as they are A's priority is the same."""
    few = Waiting(entry("A", jobs=2), entry("B1", jobs=1, processors=10))
    many = Waiting(entry("A", jobs=2), entry("B1", jobs=10, processors=1))
    assert few.at("A").priority == many.at("A").priority


def test_n_counts_the_users_jobs_of_every_size_in_both_queues() -> None:
    """`Suppose 'n' is the total number of jobs of the user in all job queues, including any new job`"""
    waiting = Waiting(entry("A1", jobs=2), entry("A5", jobs=1, processors=5, bound=True), entry("B", jobs=1))
    assert waiting.at("A1").priority == pytest.approx(pr_of(3, 1, 1, 8, 2))
    assert waiting.at("A5").priority == pytest.approx(pr_of(3, 5, 1, 8, 2))


def test_a_users_quota_appears_once_in_the_sum() -> None:
    """`if the new user has already some jobs in the job queues, 'q' will appear just once in the 'Q'`"""
    waiting = Waiting(entry("A1"), entry("A2"), entry("B"), quotas={"A": 2.0, "B": 3.0})
    assert waiting.queues.classes.sizes.last_totals == (3, 5.0)
    waiting.start(3)
    waiting.arrive(entry("C"))
    assert waiting.queues.classes.sizes.last_totals == (1, 1.0)


@given(st.data())
def test_equal_priorities_are_first_come_first_served(data: st.DataObject) -> None:
    """`we determine all those jobs having the same priority, and arrange them on a FCFS basis`: users with equal n/q
    are equal to the last bit whatever their whole quotas, so submission decides."""
    times = data.draw(st.permutations(range(5)))
    ks = data.draw(st.lists(st.integers(1, 2000), min_size=5, max_size=5))
    unit = data.draw(st.integers(1, 9))
    quotas = {user: float(unit * k) for user, k in zip("ABCDE", ks, strict=True)}
    entries = [entry(u, jobs=k, submitted_s=t) for u, k, t in zip("ABCDE", ks, times, strict=True)]
    waiting = Waiting(*entries, quotas=quotas)
    assert waiting.order() == [u for _, u in sorted(zip(times, "ABCDE", strict=True))]


def test_the_order_is_total_priority_then_local_then_submission_then_processors() -> None:
    """SPEC D3: `local first on ties`; D4: `effective priority descending, then original submission time`, shortest
    first of what came together; the id decides the rest."""
    waiting = Waiting(
        entry("a-wide", "v", jobs=6, processors=2, submitted_s=9),
        entry("d-bound", "u", jobs=4, submitted_s=9, bound=True),
        entry("b", "u", jobs=4, submitted_s=9),
        entry("z-early", "u", jobs=2, submitted_s=1),
        entry("c", "u", jobs=1, submitted_s=9),
        entry("higher", "u", jobs=1, submitted_s=9, offset=0.5),
    )
    assert waiting.at("a-wide").priority == waiting.at("b").priority
    assert waiting.order() == ["higher", "d-bound", "z-early", "b", "c", "a-wide"]


def test_every_arrival_re_prioritises_what_is_there() -> None:
    """`On the arrival of each new job, all the jobs already present in the queues are re-prioritized`; they move up
    and down levels: A's first job Q2, Q1, Q2; its second Q3, Q4."""
    seen = [{name: some[0].level.name for name, some in figure_6(after).standing().items()} for after in ARRIVALS]
    assert seen == [{"A1": "Q2"}, {"A1": "Q1", "A5": "Q3"}, {"A1": "Q2", "A5": "Q4", "B1": "Q1"}]


def test_a_departure_re_prioritises_nothing() -> None:
    """`when a job is taken out for service the rest of the jobs need not be reprioritized`"""
    waiting = figure_6("B t=1")
    before = waiting.priorities()
    assert waiting.start(1) == ["B1"]
    after = waiting.priorities()
    assert after == {name: before[name] for name in ("A1", "A5")}
    waiting.arrive(entry("B2"))
    assert waiting.priorities()["A1"] == pytest.approx(0.458647, abs=1e-6), "the same numbers again"


@pytest.mark.parametrize("change", ["staged", "held", "bound", "cancelled"])
def test_priorities_stand_still_when_nothing_arrives(change: str) -> None:
    """SPEC D4: `Re-prioritise on every arrival, not on dispatch`: nor when staging ends, a group is held, or work is
    bound to this site."""
    waiting = Waiting(entry("A1", jobs=4, ready=1), entry("A5", processors=5), entry("B", jobs=2))
    before = waiting.priorities()
    match change:
        case "staged":
            waiting.arrive(entry("A1", jobs=4, ready=4))
        case "bound":
            waiting.arrive(entry("A1", jobs=4, ready=1, bound=True))
        case "cancelled":
            waiting.arrive(entry("A1", jobs=1, ready=1))
        case "held":
            waiting.queues.remove(entry("B").key)
            del before["B"]
    assert waiting.priorities() == before


def test_work_that_comes_back_is_an_arrival() -> None:
    """A release, a retry or a lost machine puts jobs into the queue: n, T and Q include them at once."""
    waiting = Waiting(entry("A", jobs=4), entry("B", jobs=2))
    waiting.queues.remove(entry("B").key)
    waiting.arrive(entry("B", jobs=2))
    assert waiting.at("A").priority == pytest.approx(pr_of(4, 1, 1, 6, 2))
    waiting.start(3)
    waiting.arrive(entry("C"))
    waiting.arrive(entry("B", jobs=2))
    assert waiting.at("B").priority == pytest.approx(pr_of(2, 1, 1, waiting.queues.classes.sizes.last_totals[0], 3))


def test_default_mode_is_the_papers_until_something_was_served() -> None:
    """SPEC D4: `Default equals the paper while nothing was served`"""
    entries = [("A1", 3, 1), ("A5", 1, 5), ("B", 2, 2)]
    both = [
        Waiting(*(entry(n, jobs=j, processors=t) for n, j, t in entries), quotas=QUOTAS, priority_mode=mode)
        for mode in ("paper", "default")
    ]
    assert both[0].priorities() == both[1].priorities()
    both[1].start(1)
    assert both[0].priorities() != both[1].priorities()
