"""Slurm's listings are read as real ones printed them, and nonsense is refused with its line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.adapters.batch.array.memory import SAID
from diana.adapters.batch.systems import slurm
from diana.adapters.batch.systems import slurm_text as read
from diana.adapters.batch.systems.system import Array, BatchUnreachable, Fate, Seen, Stage
from diana.model.indexset import IndexSet

CONFIG = """\
Configuration data as of 2026-11-22T20:20:27
MaxArraySize            = 1001
MaxJobCount             = 20000
SLURM_VERSION           = 22.05.8
"""
SINFO = """\
3/5/0/8|8|64000|infinite|(null)|mixed|main|n1|1
0/0/16/16|16|128000|infinite|gpu:a100:4(S:0-1)|down*|main|n2|1
4/12/0/16|16|128000|infinite|gpu:a100:2,gpu:v100:1|mixed|main|n3|1
2/6/0/8|8|64000|infinite|(null)|draining@|main|n4|1
"""


def test_a_cluster_has_what_is_up_less_what_others_use() -> None:
    has = read.capacity(SINFO, CONFIG, ours=4)
    assert (has.slots, has.others, has.widest, has.gpus, has.all_gpus) == (8 + 16 + 2, 3 + 4 + 2 - 4, 16, 3, 3)
    assert (has.memory_bytes, has.most_tasks, has.version, has.time_limit_s) == (128000 << 20, 1000, "22.05.8", 0.0)


def test_the_longest_time_of_several_partitions_counts_and_their_machines_once() -> None:
    sinfo = "0/8/0/8|8|1|2:00|(null)|idle|a|n1|1\n0/8/0/8|8|1|1-00:00:00|(null)|idle|b|n1|1\n"
    has = read.capacity(sinfo, CONFIG, 0)
    assert (has.time_limit_s, has.slots) == (86400.0, 8)


def test_machines_of_other_partitions_than_the_default_one_are_not_ours() -> None:
    sinfo = "0/8/0/8|8|1|2:00|(null)|idle|main*|n1|1\n0/16/0/16|16|1|1-00:00:00|(null)|idle|big|n[1-2]|2\n"
    has = read.capacity(sinfo, CONFIG, 0)
    assert (has.time_limit_s, has.slots, has.widest) == (120.0, 8, 8)


@pytest.mark.parametrize(
    ("text", "wanted_s"),
    [("30", 1800), ("30:15", 1815), ("2:30:00", 9000), ("7-00:00:00", 604800), ("1-12", 129600), ("infinite", 0)],
)
def test_a_time_is_read_as_slurm_means_it(text: str, wanted_s: float) -> None:
    assert read.seconds(text) == wanted_s


@given(st.floats(0.1, 1e7))
def test_a_limit_given_to_slurm_is_never_shorter_than_the_jobs(limit_s: float) -> None:
    assert limit_s <= read.seconds(read.clock(limit_s)) <= limit_s + 120


@given(st.sets(st.integers(0, 2000), min_size=1))
def test_tasks_are_read_as_they_are_written(indices: set[int]) -> None:
    some = IndexSet.of(indices)
    assert read.tasks(str(some)) == some
    assert read.tasks(f"{some}%8") == some


def test_an_estimate_is_the_time_until_the_moment_it_names() -> None:
    said = "sbatch: Job 7 to start at 2026-11-23T00:05:10 using 1 processors on nodes a-n1 in partition main\n"
    now_s = datetime(2026, 11, 23, 0, 4, 0).timestamp()
    assert read.starts_in_s(said, now_s) == 70.0
    assert read.starts_in_s(said, now_s + 500.0) == 0.0
    assert read.starts_in_s("allocation failure: no such partition", now_s) is None


def test_tasks_may_have_a_step() -> None:
    assert read.tasks("1-9:4,12") == IndexSet.of([1, 5, 9, 12])


LISTING = """\
388|3-4|RUNNING|diana.abc.1|2|None
388|5-99%8|PENDING|diana.abc.1|2|Resources
388|1|TIMEOUT|diana.abc.1|2|None
400|0-9|PENDING|diana.abc.2|1|PartitionTimeLimit
401|N/A|RUNNING|wrap|1|None
"""


def test_of_a_listing_ours_are_taken_by_stage() -> None:
    found, holding = read.listing(LISTING)
    assert found == [
        Seen("388", "abc.1", IndexSet.parse("3-4"), Stage.RUNNING, "RUNNING"),
        Seen("388", "abc.1", IndexSet.parse("5-99"), Stage.WAITING, "Resources"),
        Seen("388", "abc.1", IndexSet.parse("1"), Stage.OVER, "TIMEOUT", fate=Fate.TIME_LIMIT),
        Seen("400", "abc.2", IndexSet.parse("0-9"), Stage.WAITING, "PartitionTimeLimit", never=True),
    ]
    assert holding == 4


def test_history_tells_how_tasks_ended_and_not_of_their_steps() -> None:
    sacct = "388_1|TIMEOUT\n388_1.batch|CANCELLED\n388_[5-7]|CANCELLED by 0\n401|COMPLETED\n"
    assert read.past(sacct) == [
        Seen("388", "", IndexSet.of([1]), Stage.OVER, "TIMEOUT", fate=Fate.TIME_LIMIT),
        Seen("388", "", IndexSet.parse("5-7"), Stage.OVER, "CANCELLED by 0"),
    ]


def test_a_file_of_completed_jobs_is_a_second_source() -> None:
    line = "JobId=402 ArrayJobId=388 ArrayTaskId=10 UserId=root(0) JobState=NODE_FAIL Partition=main"
    assert read.completed(f"JobId=1 JobState=COMPLETED\n{line}\n", ["388"]) == [
        Seen("388", "", IndexSet.of([10]), Stage.OVER, "NODE_FAIL", fate=Fate.MACHINE_LOST)
    ]


@pytest.mark.parametrize(
    "line", ["garbage", "1|2|3|4|x|None", "388|3-x|RUNNING|diana.a.1|1|None", "1|2|???|diana.a|1|"]
)
def test_a_listing_that_is_none_is_no_answer(line: str) -> None:
    with pytest.raises(BatchUnreachable):
        read.listing(line)
    with pytest.raises(BatchUnreachable):
        read.capacity(line, CONFIG, 0)


def test_licences_go_by_the_names_jobs_use_and_others_by_their_own() -> None:
    text = "LicenseName=matlab Total=4 Used=1 Free=3 Reserved=0 Remote=no\nLicenseName=mdcs@flex Total=3 Used=0\nx\n"
    assert read.licences(text, {}) == (("matlab", 4), ("mdcs@flex", 3))
    assert read.licences(text, {"toolbox": "mdcs@flex", "none": "no@such"}) == (("matlab", 4), ("toolbox", 3))
    assert read.licences("No licenses configured in Slurm.\n", {}) == ()


def test_a_line_that_nobody_could_read_is_no_answer() -> None:
    with pytest.raises(BatchUnreachable, match="Slurm says a line of more than 16,384 characters"):
        read.licences("LicenseName=a Total=1\n" + "x" * 20_000, {})


def test_more_than_there_can_be_is_no_answer() -> None:
    with pytest.raises(BatchUnreachable):
        read.capacity(SINFO.replace("64000", "9" * 30), CONFIG, 0)
    with pytest.raises(BatchUnreachable):
        read.listing("7|0-9999999999:2|PENDING|diana.a.1|4|None\n")


def test_a_data_directory_with_signs_that_slurm_reads_as_a_pattern_is_no_pattern(tmp_path: Path) -> None:
    def said(folder: str, memory_bytes: int = 1 << 20) -> str:
        (tmp_path / folder / SAID).mkdir(parents=True, exist_ok=True)
        script = str(tmp_path / folder / "script")
        return slurm._said(
            Array(token="t", script=script, tasks=IndexSet.span(0, 2), processors=1, memory_bytes=memory_bytes)
        )

    assert said("plain") == f"{tmp_path}/plain/said/%a"
    assert said("50%j") == f"{tmp_path}/50%%j/said/%a"
    assert said("a\\b") == said("plain", memory_bytes=0) == "/dev/null"
