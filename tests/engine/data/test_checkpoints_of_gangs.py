"""The checkpoint of a gang at its origin: whole when the parts of all components of one attempt are home (SPEC G6)."""

from __future__ import annotations

from diana.engine.data import checkpoints
from diana.engine.journal import fold_checkpoints
from diana.engine.journal import records as r
from diana.engine.journal.state import Group, Saving
from diana.model.ids import GroupId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import SavedFile, SavedJob
from diana.model.job.spec import CheckpointSpec, ComponentSpec, FlexibleSpec, GroupSpec, encode_spec
from tests.engine.builders import authorisation

NAME, PART = GroupId("alpha-1"), SubgroupId("alpha-1/0")
FIXED = GroupSpec(
    argv=("p",), components=(ComponentSpec(count=2),), checkpoint=CheckpointSpec(paths=("s.{component}",))
)
FLEXIBLE = GroupSpec(
    argv=("p",),
    flexible=FlexibleSpec(processors=3, min_processors=1),
    checkpoint=CheckpointSpec(paths=("s.{component}",)),
)


def group_of(spec: GroupSpec) -> Group:
    return Group(
        group=NAME,
        owner="u@vo",
        key="",
        spec_bytes=encode_spec(spec),
        jobs=2 * spec.gang_size,
        refs=(),
        submitted_s=0.0,
        wall_s=0.0,
        authorisation=authorisation("u@vo", NAME, encode_spec(spec)),
        unplaced=IndexSet(),
    )


def saved(index: int, attempt: int) -> SavedJob:
    return SavedJob(index, attempt, (SavedFile(f"s.{index}", 1, f"{attempt}{index}" * 32),))


def come_home(group: Group, batch: int, jobs: tuple[SavedJob, ...], token: str, size: int, error: str = "") -> None:
    group.saving.append(Saving(r.facts_key(PART, 1, batch), jobs, token, size))
    record = r.OutputsGathered(subgroup=PART, epoch=1, batch=batch, bytes_moved=1, error=error, at_s=1.0)
    assert fold_checkpoints.saved_home(group, r.facts_key(PART, 1, batch), record)


def files(group: Group, index: int) -> list[str]:
    found = checkpoints.of(group, IndexSet.span(index, index + 1))
    return [file.path for job in found for file in job.files]


def test_a_part_counts_with_the_other_and_each_component_is_put_the_files_of_both() -> None:
    group = group_of(FIXED)
    come_home(group, 0, (saved(0, 1),), "t", 2)
    assert not files(group, 0) and not files(group, 1)
    come_home(group, 1, (saved(1, 1),), "t", 2)
    assert files(group, 0) == files(group, 1) == ["s.0", "s.1"]
    assert not files(group, 2), "the second gang has none"


def test_parts_of_two_attempts_are_no_checkpoint_and_the_one_before_stays() -> None:
    group = group_of(FIXED)
    come_home(group, 0, (saved(0, 1), saved(1, 1)), "first", 2)
    come_home(group, 1, (saved(0, 2),), "second", 2)
    come_home(group, 2, (saved(1, 3),), "third", 2)
    assert [job.attempt for job in checkpoints.of(group, IndexSet.span(0, 2))] == [1, 1]
    come_home(group, 3, (saved(0, 3),), "third", 2)
    assert [job.attempt for job in checkpoints.of(group, IndexSet.span(0, 2))] == [3, 3]


def test_files_that_never_come_leave_the_checkpoint_before() -> None:
    group = group_of(FIXED)
    come_home(group, 0, (saved(0, 1), saved(1, 1)), "first", 2)
    come_home(group, 1, (saved(0, 2),), "second", 2)
    come_home(group, 2, (saved(1, 2),), "second", 2, error="its site is gone")
    assert [job.attempt for job in checkpoints.of(group, IndexSet.span(0, 2))] == [1, 1]


def test_three_components_after_two_find_the_files_of_two_and_leave_those_of_three() -> None:
    group = group_of(FLEXIBLE)
    come_home(group, 0, (saved(0, 1), saved(1, 1), saved(2, 1)), "first", 3)
    assert files(group, 0) == ["s.0", "s.1", "s.2"]
    come_home(group, 1, (saved(0, 2), saved(1, 2)), "second", 2)
    assert files(group, 0) == files(group, 2) == ["s.0", "s.1"]


def test_a_component_that_is_done_leaves_no_half_checkpoint_to_the_others() -> None:
    group = group_of(FIXED)
    come_home(group, 0, (saved(0, 1), saved(1, 1)), "first", 2)
    come_home(group, 1, (saved(0, 2),), "second", 2)
    group.done.add_set(IndexSet.span(0, 1))
    fold_checkpoints.done(group, IndexSet.span(0, 1))
    assert files(group, 1) == ["s.0", "s.1"]
    group.done.add_set(IndexSet.span(1, 2))
    fold_checkpoints.done(group, IndexSet.span(1, 2))
    assert not group.checkpoints and not group.gangs_saved


def test_the_checkpoint_before_is_kept_whole_until_the_gang_is_done() -> None:
    group = group_of(FLEXIBLE)
    come_home(group, 0, (saved(0, 1), saved(1, 1), saved(2, 1)), "first", 3)
    come_home(group, 1, (saved(0, 2), saved(1, 2)), "second", 2)
    assert {index: job.attempt for index, job in group.earlier.items()} == {0: 1, 1: 1, 2: 1}
    come_home(group, 2, (saved(0, 3), saved(1, 3)), "third", 2)
    assert {index: job.attempt for index, job in group.earlier.items()} == {0: 2, 1: 2}
    group.done.add_set(IndexSet.span(0, 3))
    fold_checkpoints.done(group, IndexSet.span(0, 3))
    assert not group.checkpoints and not group.earlier
