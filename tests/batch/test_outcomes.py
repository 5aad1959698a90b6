"""How an attempt ended, by what its script told and by the file system's times."""

from __future__ import annotations

import msgspec
import pytest

from diana.adapters.batch.array.folder import TaskEnd
from diana.adapters.batch.array.live import outcome_of
from diana.model.facts import Outcome
from tests.batch.test_book_searched import order


@pytest.mark.parametrize(
    ("exit_code", "ran_s", "outcome"),
    [
        (124, 2.0, Outcome.TIMED_OUT),
        # The file that began it was dated by a later tick of the clock than the run began at.
        (124, 1.9993, Outcome.TIMED_OUT),
        (137, 12.0, Outcome.TIMED_OUT),
        (124, 1.5, Outcome.FAILED),
        (137, 0.1, Outcome.FAILED),
        (1, 2.5, Outcome.FAILED),
        (0, 2.0, Outcome.DONE),
    ],
)
def test_a_run_is_over_its_time_if_its_limit_ended_it_and_it_lasted_as_long(
    exit_code: int, ran_s: float, outcome: Outcome
) -> None:
    end = TaskEnd(exit_code, "-", 1000.0, 1000.0 + ran_s, 0.0, "n1")
    assert outcome_of(end, msgspec.structs.replace(order([0]), time_limit_s=2.0), cancelled=False) == (outcome, "")
