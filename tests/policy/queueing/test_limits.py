"""Limits of one user at one site (SPEC D11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.settings import Settings
from diana.policy.queueing import limits


def test_without_a_limit_everything_goes() -> None:
    assert limits.queued(Settings(), 10**9, 10**9) == ""
    assert limits.startable(Settings(), 10**9) == limits.UNLIMITED


@given(limit=st.integers(1, 50), jobs=st.integers(1, 80), waiting=st.integers(0, 80))
def test_what_is_taken_never_goes_over_the_limit_and_what_fits_is_taken(limit: int, jobs: int, waiting: int) -> None:
    why = limits.queued(Settings(user_max_queued=limit), jobs, waiting)
    assert (why == "") == (waiting + jobs <= limit)


def test_a_refusal_names_the_limit_and_the_allowed_range() -> None:
    few = Settings(user_max_queued=10)
    assert limits.queued(few, 8, 4) == "queues at most 10 jobs per user, 4 wait: takes 1 to 6 more, not 8"
    assert limits.queued(few, 1, 10) == "queues at most 10 jobs per user, 10 wait: takes none more, not 1"


@given(limit=st.integers(1, 50), running=st.integers(0, 80))
def test_so_many_start_that_the_limit_is_reached_and_not_passed(limit: int, running: int) -> None:
    more = limits.startable(Settings(user_max_running=limit), running)
    assert more == 0 if running >= limit else running + more == limit


@pytest.mark.parametrize("key", ["user_max_queued", "user_max_running"])
def test_a_limit_below_zero_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=rf"{key} = -1: want 0 to 1e\+12"):
        Settings(**{key: -1})
