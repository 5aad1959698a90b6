"""Lessons from waits for others' jobs."""

from __future__ import annotations

from diana.adapters.batch.waits import QueueWaits


def test_waits_are_learned_from_arrays_that_found_nothing_of_ours_before_them() -> None:
    waits = QueueWaits()
    for number in range(10):
        waits.submitted(number, 100.0 * number, alone=True)
        waits.began(number, 100.0 * number + 40.0)
    waits.submitted(10, 2000.0, alone=False)
    waits.began(10, 2900.0)
    assert 39.0 < waits.expected_s(3000.0) < 41.0


def test_what_waits_now_tells_more_than_what_was() -> None:
    waits = QueueWaits()
    waits.submitted(1, 10.0, alone=True)
    assert waits.expected_s(510.0) == 500.0
    waits.gone(1)
    assert waits.expected_s(510.0) == 0.0
