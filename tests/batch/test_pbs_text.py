"""Reading what PBS prints; the texts are as OpenPBS 20 prints them."""

from __future__ import annotations

import pytest

from diana.adapters.batch.systems import pbs_text as read
from diana.adapters.batch.systems.system import BatchUnreachable, Fate, Seen, Stage
from diana.model.indexset import IndexSet


def job(name: str, state: str, called: str = "diana.abc.1", **more: object) -> str:
    rows = {"Job_Name": called, "job_state": state, "Resource_List.ncpus": 2, **more}
    return f"Job Id: {name}\n" + "".join(f"    {key} = {value}\n" for key, value in rows.items()) + "\n"


def test_a_listing_tells_ours_by_stage_and_the_processors_they_hold() -> None:
    text = (
        job("7[].head", "B", array="True", array_indices_remaining="3,5-9", comment="Not Running: Host set full")
        + job("7[0].head", "X")
        + job("7[1].head", "R")
        + job("7[2].head", "E")
        + job("7[3].head", "Q")
        + job("8.head", "R", "diana.abc.2", Variable_List="PBS_O_HOST=head,PBS_ARRAY_INDEX=4,X=1")
        + job("9.head", "R", "by hand")
        + job("10[].head", "H", "diana.abc.3", array="True", array_indices_remaining="0-1")
        + job("11.head", "Q", "diana.abc.4", Variable_List="PBS_ARRAY_INDEX=0", comment="Can Never Run: ncpus (A: 8)")
        + job("12[].head", "F", "diana.abc.5", array="True", array_indices_remaining="-")
    )
    seen, holding = read.listing(text)
    assert seen == [
        Seen("7[].head", "abc.1", IndexSet.parse("3,5-9"), Stage.WAITING, "Not Running: Host set full"),
        Seen("7[].head", "abc.1", IndexSet.parse("1-2"), Stage.RUNNING),
        Seen("8.head", "abc.2", IndexSet.of([4]), Stage.RUNNING),
        Seen("10[].head", "abc.3", IndexSet.parse("0-1"), Stage.WAITING, "on hold"),
        Seen("11.head", "abc.4", IndexSet.of([0]), Stage.WAITING, "Can Never Run: ncpus (A: 8)", never=True),
    ]
    assert holding == 6
    assert read.listing("") == ([], 0)


def test_long_values_go_on_in_lines_that_begin_with_a_tab() -> None:
    head = "Job Id: 8.head\n    Job_Name = diana.a\n\tbc.2\n    job_state = R\n"
    text = f"{head}    Variable_List = A=b,\n\tPBS_ARRAY_\n\tINDEX=12\n"
    (seen,) = read.listing(text)[0]
    assert (seen.token, seen.tasks) == ("abc.2", IndexSet.of([12]))


@pytest.mark.parametrize(
    "text",
    [
        "qstat: cannot do that\n",
        job("7.head", "?"),
        "Job Id: 7.head\n    Job_Name = diana.a.1\n",
        job("7.head", "R", Variable_List="PBS_O_HOST=head"),
        job("7[].head", "B", array_indices_remaining="many"),
    ],
)
def test_what_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(BatchUnreachable):
        read.listing(text)


def test_what_is_over_is_told_with_its_limit_where_it_says_one() -> None:
    text = (
        job("7[].head", "F", array="True", Exit_status=0)
        + job("7[1].head", "X", Exit_status=-29, comment="Job killed: walltime 62 exceeded limit 60")
        + job("7[2].head", "X", Exit_status=-27)
        + job("7[3].head", "X", Exit_status=1)
        + job("7[4].head", "R")
        + job("8.head", "F", Exit_status=271, Variable_List="PBS_ARRAY_INDEX=6")
    )
    assert read.past(text) == [
        Seen(
            "7[].head",
            "",
            IndexSet.of([1]),
            Stage.OVER,
            "Job killed: walltime 62 exceeded limit 60",
            fate=Fate.TIME_LIMIT,
        ),
        Seen("7[].head", "", IndexSet.of([2]), Stage.OVER, "exit status -27", fate=Fate.LIMIT),
        Seen("7[].head", "", IndexSet.of([3]), Stage.OVER, "exit status 1"),
        Seen("8.head", "", IndexSet.of([6]), Stage.OVER, "exit status 271"),
    ]


NODES = """\
n1
     Mom = n1
     state = free
     pcpus = 16
     resources_available.mem = 1048576kb
     resources_available.ncpus = 8
     resources_available.ngpus = 2
     resources_assigned.ncpus = 5

n2
     state = job-busy
     resources_available.mem = 4gb
     resources_available.ncpus = 4
     resources_assigned.ncpus = 4

n3
     state = down,offline
     resources_available.ncpus = 64

n4
     state = free
     pcpus = 2
"""


def test_capacity_is_of_machines_that_are_up_and_others_hold_what_we_do_not() -> None:
    server = "Server: head\n    default_queue = workq\n    pbs_version = 23.06.06\n"
    queues = "Queue: workq\n    resources_max.walltime = 24:00:00\n    max_array_size = 200\n\nQueue: other\n"
    has = read.capacity(NODES, server, queues, "", 3)
    assert (has.version, has.slots, has.others, has.widest) == ("23.06.06", 14, 6, 8)
    assert (has.memory_bytes, has.gpus, has.all_gpus) == (4 * 2**30, 2, 2)
    assert (has.most_tasks, has.time_limit_s) == (200, 86400.0)
    assert (read.capacity("", server, queues, "other", 0).slots, read.capacity("", "", "", "", 0).most_tasks) == (
        0,
        10_000,
    )


def test_tasks_to_be_deleted_are_named_by_ranges_and_a_job_alone_by_its_id() -> None:
    assert list(read.tasks_of("7[].head", IndexSet.parse("1,3-5"))) == ["7[1].head", "7[3-5].head"]
    assert list(read.tasks_of("8.head", IndexSet.of([4]))) == ["8.head"]
