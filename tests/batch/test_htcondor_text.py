"""Orders to HTCondor, and the reading of its answers; the texts are as 23.9 prints them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import htcondor_text as read
from diana.adapters.batch.systems.htcondor_job import PERIODIC_REMOVE, description, transfers
from diana.adapters.batch.systems.system import Array, BatchUnreachable, Fate, Seen, Stage
from diana.model.indexset import IndexSet

ARRAY = Array(token="abc.1", script="/data/a b/$(X)/script", tasks=IndexSet.parse("0-1,7"), processors=2)


def lines(array: Array = ARRAY, **settings: object) -> list[str]:
    around = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "ODD": "a'b\"", "MACRO": "$(HOME)", "CONDOR_CONFIG": "/c"}
    return description(array, ClusterSettings(kind="htcondor", **settings), around).splitlines()  # type: ignore[arg-type]


def test_a_submit_description_names_the_script_its_tasks_and_what_they_want() -> None:
    wants = Array(
        token="abc.1",
        script="/data/script",
        tasks=IndexSet.parse("0-1,7"),
        processors=2,
        memory_bytes=100 * 2**20 + 1,
        time_limit_s=30.5,
        gpus=1,
    )
    said = lines(wants, account="physics.cms", options=('+Queue = "long"', "should_transfer_files = IF_NEEDED"))
    for line in (
        "batch_name = diana.abc.1",
        "executable = /data/script",
        "transfer_executable = False",
        "initialdir = /data",
        "output = /dev/null",
        "request_cpus = 2",
        "request_memory = 101",
        "request_gpus = 1",
        "allowed_job_duration = 90",
        "accounting_group = physics.cms",
        f"periodic_remove = {PERIODIC_REMOVE}",
        '+DianaToken = "abc.1"',
    ):
        assert line in said
    assert said[-5:] == ["queue DianaTask from (", "0", "1", "7", ")"]
    # The later of two counts.
    assert said.index("should_transfer_files = NO") < said.index("should_transfer_files = IF_NEEDED")


def test_nothing_is_asked_for_that_a_group_did_not_and_paths_and_variables_hold_no_macros() -> None:
    said = lines()
    assert not [line for line in said if line.startswith(("request_m", "request_g", "allowed", "accounting"))]
    assert "executable = /data/a b/$(DOLLAR)(X)/script" in said
    (environment,) = (line for line in said if line.startswith("environment"))
    assert environment == (
        "environment = \"'PATH=/usr/bin:/bin' 'LANG=C.UTF-8' DIANA_TASK=$(DianaTask) DIANA_CLUSTER=$(ClusterId)\""
    )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [((), False), (("Should_Transfer_Files=yes",), True), (("should_transfer_files = NO", '+A = "b"'), False)],
)
def test_machines_that_share_no_files_count_where_the_operator_says_so(options: tuple[str, ...], wanted: bool) -> None:
    assert transfers(options) is wanted


def job(task: object, status: object, **more: object) -> dict[str, object]:
    known = {"ClusterId": 7, "DianaToken": "abc.1", "DianaTask": task, "JobStatus": status, "NumJobStarts": 0}
    return {**known, "RequestCpus": 2, "ExitBySignal": False, **more}


def said(*ads: dict[str, object]) -> str:
    """As its commands put it."""
    return "[\n" + "\n,\n".join(json.dumps(ad, indent=2) for ad in ads) + "\n]\n"


def test_a_listing_tells_ours_by_stage_and_the_processors_they_hold() -> None:
    evicted = {"NumJobStarts": 1, "LastRemoteHost": "slot1_2@n1.lab"}
    words = "Error from slot1_3@n1.lab: Failed to execute '/d/script': (errno=13: 'Permission denied')"
    text = said(
        job(0, 2),
        job(1, 6),
        job(2, 7),
        job(3, 3),
        job(4, 1),
        job(5, 1),
        job(6, 5, HoldReason="via condor_hold (by user x)", HoldReasonCode=1),
        job(7, 5, HoldReason="via condor_hold (by user x)", HoldReasonCode=1, NumJobStarts=1),
        job(8, 5, HoldReason=words, HoldReasonCode=6),
        job(9, 5, HoldReason="The job exceeded allowed job duration of 01:30", HoldReasonCode=46, NumJobStarts=1),
        job(10, 5, HoldReason=None, HoldReasonCode=34, NumJobStarts=1),
        job(11, 1, **evicted),
        job(12, 4, ExitCode=3, NumJobStarts=1),
        job(13, 2, ClusterId=8, DianaToken="abc.2", RequestCpus="\\/Expr(2 * 3)\\/"),
        {"ClusterId": 9, "JobStatus": 2, "DianaToken": 5},
        job("$(x)", 2, ClusterId=10),
        {"ClusterId": 9, "JobStatus": 2},
    )
    seen, holding, odd = read.listing(text)
    assert seen == [
        Seen("7", "abc.1", IndexSet.parse("0-3"), Stage.RUNNING),
        Seen("7", "abc.1", IndexSet.parse("4-5"), Stage.WAITING),
        Seen("7", "abc.1", IndexSet.of([6]), Stage.WAITING, "on hold: via condor_hold (by user x)"),
        Seen("7", "abc.1", IndexSet.of([7]), Stage.OVER, "via condor_hold (by user x)"),
        Seen("7", "abc.1", IndexSet.of([8]), Stage.OVER, words),
        Seen(
            "7",
            "abc.1",
            IndexSet.of([9]),
            Stage.OVER,
            "The job exceeded allowed job duration of 01:30",
            fate=Fate.TIME_LIMIT,
        ),
        Seen("7", "abc.1", IndexSet.of([10]), Stage.OVER, "held, HoldReasonCode 34", fate=Fate.LIMIT),
        Seen("7", "abc.1", IndexSet.of([11]), Stage.OVER, "evicted from slot1_2@n1.lab", fate=Fate.MACHINE_LOST),
        Seen("7", "abc.1", IndexSet.of([12]), Stage.OVER, "exit code 3"),
        Seen("8", "abc.2", IndexSet.of([13]), Stage.RUNNING),
    ]
    assert (holding, odd) == (9, "HTCondor tells DianaTask = '$(x)' of a job with DianaToken = 'abc.1'")


def test_an_empty_queue_is_printed_as_nothing() -> None:
    assert read.listing("") == ([], 0, "")
    assert read.past("[\n]\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "-- Failed to fetch ads from: <127.0.0.1:9618> : head.lab",
        '[\n{\n  "ClusterId": 7,\n',
        "{}",
        "[7]",
        said(job(0, 9)),
        said(job(0, "2")),
    ],
)
def test_what_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(BatchUnreachable):
        read.listing(text)


@pytest.mark.parametrize(
    "odd",
    [
        job(-1, 2),
        job(True, 2),
        job(10**12, 2),
        job(1.5, 2),
        job("0; rm -rf /", 2),
        job(0, 4, ClusterId="7 || true"),
        {"DianaToken": "abc.1\n", "JobStatus": 9},
    ],
)
def test_a_job_that_carries_a_token_and_no_task_hides_none_of_ours(odd: dict[str, object]) -> None:
    seen, _, why = read.listing(said(odd, job(4, 2), odd))
    assert seen == [Seen("7", "abc.1", IndexSet.of([4]), Stage.RUNNING)]
    assert "of a job with DianaToken = 'abc.1" in why and "\n" not in why
    assert [e.tasks for e in read.past(said(odd, job(4, 4)))] == [IndexSet.of([4])]


@settings(max_examples=50)
@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.just([]))
def test_whatever_stands_for_a_reason_it_is_one_line_or_none(value: object) -> None:
    held = job(0, 5, HoldReason=value, HoldReasonCode=value, LastRemoteHost=value, NumJobStarts=1)
    (seen,), _, _ = read.listing(said(held))
    assert "\n" not in seen.why and len(seen.why) <= 300 and seen.why


@pytest.mark.parametrize("reader", [read.listing, read.past, lambda text: read.capacity(text, "23", "", "", 0)])
@settings(max_examples=50)
@given(text=st.text(max_size=40))
def test_any_other_text_is_no_answer_or_none_of_ours(reader: Callable[[str], object], text: str) -> None:
    try:
        reader(text)
    except BatchUnreachable as silence:
        assert "\n" not in str(silence)


def test_history_tells_how_each_ended() -> None:
    over = "The job exceeded allowed job duration of 01:30"
    removed = "The job attribute PeriodicRemove expression 'JobStatus == 1' evaluated to TRUE"
    host = "slot1_2@n1.lab"
    text = said(
        job(0, 4, ExitCode=3, LastJobStatus=2, NumJobStarts=1),
        job(1, 4, ExitBySignal=True, ExitSignal=9, NumJobStarts=1),
        job(2, 3, RemoveReason="via condor_rm (by user someone)", LastJobStatus=2, NumJobStarts=1),
        job(3, 3, RemoveReason=removed, LastJobStatus=5, LastHoldReason=over, LastHoldReasonCode=46, NumJobStarts=1),
        job(4, 3, RemoveReason=removed, LastJobStatus=1, LastRemoteHost=host, NumJobStarts=1),
        job(5, 4, ExitCode=0, LastRemoteHost=host, NumJobStarts=2),
        job(6, 3, LastJobStatus=1),
        # Written twice, as when the schedd is killed between.
        job(6, 3, LastJobStatus=1),
        {"ClusterId": 9, "JobStatus": 4},
    )
    assert read.past(text) == [
        Seen("7", "", IndexSet.of([0]), Stage.OVER, "exit code 3"),
        Seen("7", "", IndexSet.of([1]), Stage.OVER, "signal 9"),
        Seen("7", "", IndexSet.of([2]), Stage.OVER, "via condor_rm (by user someone)"),
        Seen("7", "", IndexSet.of([3]), Stage.OVER, over, fate=Fate.TIME_LIMIT),
        Seen("7", "", IndexSet.of([4, 5]), Stage.OVER, f"evicted from {host}", fate=Fate.MACHINE_LOST),
        Seen("7", "", IndexSet.of([6]), Stage.OVER, "removed"),
    ]


def slot(kind: str, state: str, cpus: int, **more: object) -> dict[str, object]:
    return {"Name": "s@n", "SlotType": kind, "State": state, "Cpus": cpus, "FileSystemDomain": "Lab", **more}


def test_capacity_is_of_machines_that_share_our_files_and_are_up() -> None:
    sizes = {"TotalSlotCpus": 16, "Memory": 100, "TotalSlotMemory": 64000, "GPUs": 1, "TotalSlotGPUs": 4}
    text = said(
        slot("Partitionable", "Unclaimed", 6, **sizes),
        slot("Static", "Claimed", 4, Memory=8000, TotalSlotMemory=8000),
        slot("Static", "Unclaimed", 2, Memory=4000),
        slot("Static", "Owner", 8, Memory=999000),
        slot("Partitionable", "Drained", 10, TotalSlotCpus=12),
        slot("Static", "Unclaimed", 64, Offline=True),
        slot("Static", "Unclaimed", 32, FileSystemDomain="elsewhere", Memory=999000),
    )
    has = read.capacity(text, "23.9.6", "20000\n100000\n2147483647\n", "lab", 5)
    assert (has.version, has.slots, has.others, has.widest) == ("23.9.6", 16 + 4 + 2 + 2, 10 + 4 + 2 - 5, 16)
    assert (has.memory_bytes, has.gpus, has.all_gpus) == (64000 << 20, 4, 4)
    assert (has.most_tasks, has.most_jobs, has.time_limit_s) == (20000, 100000, 0.0)
    everywhere = read.capacity(text, "23.9.6", "Not defined\nNot defined\nNot defined\n", "", 0)
    assert (everywhere.slots, everywhere.most_tasks, everywhere.most_jobs) == (16 + 4 + 2 + 2 + 32, 20000, 0)
    assert (read.strangers(text, "LAB"), read.strangers(text, "away"), read.strangers("", "lab")) == (
        False,
        True,
        False,
    )
    assert read.capacity("", "23.9.6", "500\n200\n300\n", "lab", 0).most_tasks == 200


def test_a_version_is_read_from_what_condor_version_says() -> None:
    assert read.version("$CondorVersion: 10.0.9 2023-09-28 BuildID: 678228 $\n$CondorPlatform: x86_64 $\n") == "10.0.9"
    with pytest.raises(BatchUnreachable):
        read.version("sh: condor_version: not found")
