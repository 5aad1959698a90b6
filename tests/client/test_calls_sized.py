"""How many calls share a job, by how long the first of them took."""

from __future__ import annotations

import pytest

from diana.client.calls import packing, sizing
from diana.client.calls.gathering import CallGroup, GridFuture
from diana.client.calls.sizing import FIRST, Rest, calls_a_job


def first(jobs: int, measured: int, mean_s: float) -> CallGroup:
    group = CallGroup("pow", whole=True)
    for _ in range(jobs):
        group.add(GridFuture(lambda future: False), packing.Call(b"f", b"c"))
    group.drop_files()
    group.measured, group.spent_s = measured, measured * mean_s
    return group


def calls(count: int) -> list[bytes]:
    return [packing.packed_calls(pow, [((k, 2), {})]) for k in range(count)]


@pytest.mark.parametrize(("mean_s", "left", "size"), [
    (1e-6, 100_000, 1000), (1e-6, 640, 10), (0.05, 100_000, 5), (0.1, 100_000, 1), (30.0, 100_000, 1), (0.0, 10, 1),
])  # fmt: skip
def test_the_shorter_calls_are_the_more_share_a_job_as_long_as_there_are_jobs_for_many_slots(
    mean_s: float, left: int, size: int
) -> None:
    assert calls_a_job(mean_s, left) == size


def test_calls_wait_until_enough_were_measured_and_for_two_seconds_at_most() -> None:
    few = first(FIRST, sizing.ENOUGH - 1, 1e-4)
    rest = Rest("pow", b"f", calls(1280), few, now_s=100.0)
    assert rest.size(101.9) == 0
    assert rest.size(102.0) == 1, "a job each: nobody knows yet"
    few.measured, few.spent_s = sizing.ENOUGH, sizing.ENOUGH * 1e-4
    assert rest.size(100.1) == 20


def test_calls_whose_first_all_failed_to_tell_are_jobs_of_their_own_at_once() -> None:
    over = first(FIRST, 0, 0.0)
    over.open.clear()
    assert Rest("pow", b"f", calls(1280), over, now_s=100.0).size(100.0) == 1


def test_a_job_of_several_calls_has_them_in_their_order() -> None:
    rest = Rest("pow", packing.packed_function(pow), calls(7), first(FIRST, FIRST, 1e-4), now_s=0.0)
    group = rest.make(3, lambda future: False)
    try:
        assert group.payload.jobs == len(rest.futures) == 3 and rest.calls == []
        assert [future.place for future in rest.futures] == [(group, 0), (group, 1), (group, 2)]
    finally:
        group.drop_files()
