"""Durations as quantiles: bounded, mergeable, a twentieth off at most (SPEC D10)."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.history import MOST_TEMPLATES, RunTimes, program_key, template_key
from diana.model.job.spec import Axis, GroupSpec, InputFile, Outputs, Resources, Sweep
from diana.model.sketch import Sketch, batch_of

DURATIONS = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=40)


def sketch_of(durations: list[float]) -> Sketch:
    made = Sketch()
    made.add(batch_of(durations))
    return made


@given(DURATIONS, st.sampled_from((0.1, 0.5, 0.9)))
def test_a_quantile_is_within_its_bucket_of_a_tenth(durations: list[float], part: float) -> None:
    exact = sorted(durations)[max(0, ceil(len(durations) * part - 1e-9) - 1)]
    assert sketch_of(durations).quantile(part) == pytest.approx(exact, rel=0.1)


@given(st.floats(0.01, 1e6), st.integers(1, 50))
def test_durations_that_are_alike_come_back_as_they_were(duration: float, count: int) -> None:
    found = sketch_of([duration] * count).quantiles()
    assert found.seen == count
    assert (found.low_s, found.mid_s, found.high_s, found.mean_s) == pytest.approx((duration,) * 4)


@given(DURATIONS, DURATIONS)
def test_two_sketches_merge_to_one_that_had_seen_both(some: list[float], others: list[float]) -> None:
    merged, both = sketch_of(some), sketch_of(some + others)
    merged.merge(sketch_of(others))
    assert merged.seen == both.seen
    assert merged.buckets.keys() == both.buckets.keys()
    assert merged.mean() == pytest.approx(both.mean())


def test_what_a_job_took_lately_counts_more_than_what_it_took_before() -> None:
    sketch = sketch_of([100.0] * 500)
    for _ in range(10):
        sketch.add(batch_of([10.0] * 200))
    assert sketch.quantile(0.9) == pytest.approx(10.0)


def test_a_sketch_is_bounded_whatever_it_is_told() -> None:
    sketch = sketch_of([10.0**power for power in range(-30, 30)] + [0.0, -5.0])
    assert len(sketch.buckets) < 300
    with pytest.raises(ValueError, match="nothing"):
        Sketch().quantile(0.5)


def test_templates_that_ended_longest_ago_are_forgotten() -> None:
    times = RunTimes()
    for n in range(MOST_TEMPLATES + 5):
        times.add(f"t{n}", "alice@vo", batch_of([1.0]))
        times.add("kept", "alice@vo", batch_of([2.0]))
    assert len(times.sketches) == MOST_TEMPLATES
    assert times.find("t0", "alice@vo") is None
    assert times.mean_s("kept", "alice@vo") == pytest.approx(2.0)
    assert times.find("kept", "bob@vo") is None, "another user's jobs are another's"


def test_a_template_is_what_runs_and_not_how_it_is_called() -> None:
    base = GroupSpec(name="a", argv=("sim", "{n}"), sweep=Sweep(axes=(Axis(name="n", stop=5),)))
    alike = GroupSpec(
        name="b",
        argv=("sim", "{n}"),
        sweep=Sweep(axes=(Axis(name="n", stop=9),)),
        outputs=Outputs(to="/x"),
        max_parallel=3,
        resources=Resources(time_limit_s=60.0),
    )
    assert template_key(base) == template_key(alike)
    for other in (
        GroupSpec(argv=("sim2", "{n}")),
        GroupSpec(argv=("sim", "{n}"), resources=Resources(processors=2)),
        GroupSpec(argv=("sim", "{n}"), inputs=(InputFile(source="dataset:x", path="x"),)),
    ):
        assert template_key(base) != template_key(other)


def test_a_program_is_the_same_whatever_it_reads_and_however_long_it_runs_but_not_on_other_software() -> None:
    base = GroupSpec(argv=("sim", "{n}"))
    alike = GroupSpec(
        name="second",
        argv=("sim", "{n}"),
        inputs=(InputFile(source="dataset:x", path="x"),),
        resources=Resources(work_s=500.0, memory_bytes=10**9),
    )
    assert program_key(base) == program_key(alike)
    for other in (
        GroupSpec(argv=("sim2", "{n}")),
        GroupSpec(argv=("sim", "{n}"), script="#!/bin/sh"),
        GroupSpec(argv=("sim", "{n}"), environment=(("SIDE", "b"),)),
        GroupSpec(argv=("sim", "{n}"), container="root.sif"),
        GroupSpec(argv=("sim", "{n}"), modules=("root",)),
        GroupSpec(argv=("sim", "{n}"), resources=Resources(processors=2)),
        GroupSpec(argv=("sim", "{n}"), resources=Resources(gpus=1)),
        GroupSpec(argv=("sim", "{n}"), resources=Resources(licences=(("matlab", 1),))),
        GroupSpec(argv=("sim", "{n}"), mpi=True),
    ):
        assert program_key(base) != program_key(other)


def test_durations_no_job_can_have_do_not_drown_the_others() -> None:
    for mad in (float("inf"), 1e308, -1e308):
        found = sketch_of([10.0, mad]).quantiles()
        assert 0 <= found.low_s <= found.high_s <= 1e9 and found.mean_s <= 1e9
