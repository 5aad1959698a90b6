"""When waiting work starts, and how wide the range is that past errors ask for."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.queueing import forecast
from diana.policy.queueing.forecast import MANY, Slots, spread
from diana.policy.queueing.priority import AGE_STEP, MOST_STEPS, Level, level
from diana.policy.queueing.rising import demand_of, rise


def test_a_free_slot_starts_at_once_and_what_stands_ahead_fills_the_slots_first() -> None:
    assert Slots(1, []).starts_s(1, 0.0) == 0.0
    assert Slots(2, []).starts_s(1, 30.0) == 15.0
    # One slot busy for 10 s, then three jobs of 5 s ahead of us.
    assert Slots(0, [(10.0, 1)]).starts_s(1, 15.0) == 25.0
    # Slots come free at 1, 2 and 10: 1 s of work ahead is through at 2.
    assert Slots(0, [(2.0, 1), (1.0, 1), (10.0, 1)]).starts_s(1, 1.0) == 2.0


def test_jobs_that_begin_together_end_together() -> None:
    idle = Slots(8, [])
    assert [idle.starts(30.0, 0.0, until_s) for until_s in (0.0, 29.0, 30.0, 61.0)] == [8, 8, 16, 24]
    # One processor comes free after 10 s, another after 40 s.
    assert [Slots(0, [(10.0, 1), (40.0, 1)]).starts(30.0, 0.0, until_s) for until_s in (9.0, 10.0, 40.0)] == [0, 1, 3]
    assert idle.starts(30.0, 20.0, 45.0) == 8
    assert idle.starts(30.0, 20.0, 19.0) == 0


def test_a_wide_job_waits_for_as_many_processors() -> None:
    slots = Slots(1, [(4.0, 1), (9.0, 2)])
    assert slots.starts_s(2, 0.0) == 4.0
    assert slots.starts_s(3, 0.0) == 9.0
    assert slots.starts_s(5, 0.0) == inf
    assert Slots(0, []).starts_s(1, 0.0) == inf


def test_before_there_is_a_history_the_range_is_a_guess_and_says_so() -> None:
    guess = spread([1.0] * 4)
    assert (guess.low, guess.high, guess.samples) == (0.5, 2.0, 0)
    assert guess.around(9.0) == (4.0, 19.0)
    assert guess.around(0.0) == (0.0, 0.0)
    assert guess.around(inf) == (-1.0, -1.0)


def test_the_range_spans_the_quantiles_of_past_errors() -> None:
    known = spread([0.5 + k / 10 for k in range(11)])
    assert (known.low, known.high, known.samples) == (pytest.approx(0.6), pytest.approx(1.4), 11)
    assert known.around(99.0) == (pytest.approx(59.0), pytest.approx(139.0))
    assert spread([0.8] * 20).high == 1.0, "the prediction itself is never excluded"
    assert forecast.error(9.0, 19.0) == 2.0


@given(st.floats(-0.999, 1.0), st.floats(0.01, 1e6))
def test_demand_is_the_inverse_of_the_priority(base: float, allowance: float) -> None:
    n = demand_of(base, allowance)
    again = (allowance - n) / allowance if n <= allowance else (allowance - n) / n
    assert again == pytest.approx(base, abs=1e-6)


def test_by_hand_what_lifts_to_the_next_level() -> None:
    # n = 12 against N = 3: Pr = -0.75, Q4. Q3 from -0.5: after one step, or with n = 6.
    lift = rise(-0.75, 0.0, 0, 3.0)
    assert (lift.to, lift.steps, lift.demand) == (Level.Q3, 1, pytest.approx(6.0))
    # In Q3 with one step behind it (-0.75 + 0.25): to Q2 two more, or Pr -0.25, n = 4.
    lift = rise(-0.75, 0.25, 1, 3.0)
    assert (lift.to, lift.steps, lift.demand) == (Level.Q2, 2, pytest.approx(4.0))
    # Exactly n = N: Q2; Q1 asks for half as many.
    assert rise(0.0, 0.0, 0, 3.0) == (Level.Q1, 2, 1.5)
    assert rise(0.6, 0.0, 0, 3.0).to is None
    assert rise(-0.9, -0.5, MOST_STEPS, 3.0).steps == -1, "waited as long as counts"


@given(st.floats(-0.999, 0.999), st.integers(0, MOST_STEPS), st.booleans(), st.floats(0.1, 1e4))
def test_the_steps_said_are_the_first_that_lift(base: float, steps: int, demoted: bool, allowance: float) -> None:
    added = steps * AGE_STEP - 0.5 * demoted
    lift = rise(base, added, steps, allowance)
    here = level(base + added)
    if lift.to is None:
        assert here is Level.Q1
        return
    assert lift.to == here - 1
    if lift.steps > 0:
        assert level(base + added + lift.steps * AGE_STEP + 1e-9) <= lift.to
        assert level(base + added + (lift.steps - 1) * AGE_STEP - 1e-9) > lift.to


def test_slots_of_columns_are_those_of_pairs_to_the_last_bit() -> None:
    rng = random.Random(7)
    for count in (0, 3, MANY, 200):
        left_s = [rng.choice((0.0, 5.0, rng.uniform(0.0, 900.0))) for _ in range(count)]
        widths = [rng.randint(1, 16) for _ in range(count)]
        one = Slots(3, list(zip(left_s, widths, strict=True)))
        other = Slots.of_columns(3, left_s, widths)
        for processors in (1, 3, 8, 50, 10_000):
            for ahead_s in (0.0, 1.0, 777.7, 1e5):
                assert one.starts_s(processors, ahead_s) == other.starts_s(processors, ahead_s)
        assert one.starts(30.0, 0.0, 400.0) == other.starts(30.0, 0.0, 400.0)
        assert one.steps(100.0) == other.steps(100.0)
