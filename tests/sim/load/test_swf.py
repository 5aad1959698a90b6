"""Reading logs (diana/sim/load/swf.py): what is bad about them is named with its line, what is odd is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.load import swf
from diana.sim.load.usable import choose

HEADER = "; Version: 2.2\n; MaxProcs: 64\n; Note: one\n; Note: two\n;\n"


def job(
    number: int,
    submit: float = 0,
    run: float = 10,
    allotted: int = 1,
    asked: int = -1,
    requested: float = -1,
    status: int = 1,
    partition: int = -1,
) -> str:
    return f"{number} {submit} -1 {run} {allotted} -1 -1 {asked} {requested} -1 {status} 7 8 -1 -1 {partition} -1 -1\n"


def written(folder: Path, text: str | bytes, name: str = "log.swf") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(folder: Path, text: str | bytes, name: str = "log.swf") -> str:
    path = written(folder, text, name)
    with pytest.raises(UsageError) as refused:
        swf.read(path)
    says = str(refused.value)
    assert "\n" not in says and says.startswith(f"trace {path}")
    return says.removeprefix(f"trace {path}")


def test_columns_hold_what_the_lines_say(tmp_path: Path) -> None:
    log = swf.read(written(tmp_path, HEADER + job(1, 5, 10, allotted=4, requested=20) + job(2, 9, 1.5, 4, asked=8)))
    assert log.header == {"Version": ("2.2",), "MaxProcs": ("64",), "Note": ("one", "two")}
    assert log.max_processors() == 64
    jobs = log.jobs
    assert jobs.line.tolist() == [6, 7] and jobs.number.tolist() == [1, 2]
    assert jobs.submit_s.tolist() == [5, 9] and jobs.run_s.tolist() == [10, 1.5]
    assert jobs.processors.tolist() == [4, 8]
    assert jobs.requested_s.tolist() == [20, -1]
    assert (jobs.user.tolist(), jobs.group.tolist()) == ([7, 7], [8, 8])
    assert jobs.submit_s.dtype == np.float64 and jobs.processors.dtype == np.int64
    assert log.noticed() == {}


@pytest.mark.parametrize(
    ("header", "processors"),
    [("; MaxNodes: 8\n; MaxProcs: 64\n", 64), ("; MaxProcs: 0\n; MaxNodes: 8\n", 8), ("; MaxProcs: many\n", 0)],
)
def test_the_size_of_the_machine_is_its_processors_or_else_its_nodes(
    tmp_path: Path, header: str, processors: int
) -> None:
    assert swf.read(written(tmp_path, header + job(1))).max_processors() == processors


def test_gzip_is_known_by_its_bytes_and_not_by_the_name(tmp_path: Path) -> None:
    text = HEADER + job(1)
    packed = swf.read(written(tmp_path, gzip.compress(text.encode()), "log.swf"))
    plain = swf.read(written(tmp_path, text, "log.swf.gz"))
    assert packed.header == plain.header and packed.jobs.line.tolist() == plain.jobs.line.tolist() == [6]


def test_what_stands_beyond_the_eighteenth_field_is_not_read(tmp_path: Path) -> None:
    line = job(1).rstrip() + " {1241,1241} q_1d 1:ppn=64:x86_64:cl_zewura#excl\n"
    assert len(swf.read(written(tmp_path, line)).jobs) == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 2 3\n", "3 fields where a job has 18"),
        (job(2).replace(" 10 ", " ten "), "field 4: 'ten' is no number"),
        (job(2).replace(" 10 ", " 1_0 "), "'1_0' is no number"),
        (job(2).replace(" 10 ", " nan "), "field 4: nan is no number a trace can hold"),
        (job(2).replace(" 10 ", " inf "), "field 4: inf is no number a trace can hold"),
        (job(2).replace(" 10 ", " 1e300 "), "field 4: 1e+300 is no number a trace can hold"),
        (job(2).replace(" 7 8 ", " 7.5 8 "), "field 12: 7.5 is not whole"),
        ("# a comment of another kind\n", "field 1: '#' is no number"),
    ],
)
def test_a_malformed_line_is_named_with_its_number_and_the_mend(tmp_path: Path, line: str, says: str) -> None:
    text = HEADER + job(1) + "\n" + line + job(3)
    assert refusal(tmp_path, text) == f", line 8: {says}; mend the line, or make it a comment with ; before it"


def test_a_file_of_something_else_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "line 1: field 1: " in refusal(tmp_path, bytes(range(256)))
    assert refusal(tmp_path, "") == refusal(tmp_path, HEADER)
    assert refusal(tmp_path, "") == ": no job in it; an SWF file has a line of 18 numbers per job"


def test_gzip_that_breaks_off_or_is_damaged_says_after_which_line(tmp_path: Path) -> None:
    chance = np.random.RandomState(0)
    packed = gzip.compress("".join(job(k, int(chance.randint(10**9))) for k in range(20_000)).encode())
    assert ": damaged gzip data after line " in refusal(tmp_path, packed[: len(packed) // 2])
    for at in (len(packed) // 2, len(packed) - 6):
        assert "line " in refusal(tmp_path, packed[:at] + b"\0\0\0" + packed[at + 3 :])
    assert "damaged" in refusal(tmp_path, b"\x1f\x8bnothing of the kind")


def test_what_cannot_be_opened_is_said_with_the_path(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.swf", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError, match=f"trace {path}: {why}.*; name a readable SWF file"):
            swf.read(path)


def test_headers_in_any_encoding_are_read(tmp_path: Path) -> None:
    log = swf.read(written(tmp_path, "; Computer: Zürich\n".encode("latin-1") + job(1).encode()))
    assert log.header == {"Computer": ("Zürich",)} and log.max_processors() == 0


@pytest.mark.parametrize("text", [HEADER + job(1), job(1)])
def test_a_byte_order_mark_before_all_is_no_part_of_the_log(tmp_path: Path, text: str) -> None:
    plain, marked = swf.read(written(tmp_path, text)), swf.read(written(tmp_path, b"\xef\xbb\xbf" + text.encode()))
    assert marked.header == plain.header and marked.jobs.number.tolist() == plain.jobs.number.tolist() == [1]
    assert "line 2" in refusal(tmp_path, job(1) + "\ufeff" + job(2))


def test_oddities_are_counted_and_hinder_nothing(tmp_path: Path) -> None:
    text = job(1, 50) + "\n" + job(2, 40) + job(5, 60, run=20, requested=10) + job(5, 60, run=3, status=5)
    assert swf.read(written(tmp_path, text)).noticed() == {
        "missing_header": 1,
        "blank_lines": 1,
        "unsorted_lines": 1,
        "missing_job_numbers": 2,
        "repeated_job_numbers": 1,
        "cancelled_that_ran": 1,
        "ran_over_request": 1,
    }


def test_each_job_left_out_is_counted_under_the_first_reason_that_holds(tmp_path: Path) -> None:
    lines = [
        job(1, 90, run=7),
        job(2, 10, run=0, status=5),
        job(3, 10, run=-1, status=5),
        job(4, 10, run=0),
        job(5, 10, run=-1),
        job(6, 10, allotted=-1),
        job(7, 10, allotted=0, asked=0),
        job(8, 10, allotted=1, asked=17),
        job(9, -1),
        job(10, 30, run=5, requested=50),
        job(11, 30, run=6, status=5, requested=0),
        job(12, 20, asked=16),
        job(13, 99),
    ]
    log = swf.read(written(tmp_path, "".join(lines)))
    work, left_out = choose(log, 16, first=4)
    assert left_out == {
        "cancelled": 2,
        "zero_run": 1,
        "unknown_run": 1,
        "no_processors": 2,
        "too_wide": 1,
        "unknown_submit": 1,
        "after_first": 1,
    }
    # Unsorted lines are put in order of submission, those of one time in order of the file.
    assert work.submit_s.tolist() == [20, 30, 30, 90] and work.run_s.tolist() == [10, 5, 6, 7]
    assert work.estimate_s.tolist() == [10, 50, 6, 7]
    assert work.processors.tolist() == [16, 1, 1, 1]


def test_partial_executions_are_no_jobs(tmp_path: Path) -> None:
    """A job that was stopped and went on has a line of its own, and one of each stretch that it ran."""
    stopped = [job(1, 0, run=30), *(job(1, 0, run=10, status=status) for status in (2, 2, 3))]
    failed = [job(2, 5, run=20, status=0), job(2, 5, run=12, status=2), job(2, 5, run=8, status=4)]
    log = swf.read(written(tmp_path, "; MaxProcs: 4\n" + "".join(stopped + failed)))
    work, left_out = choose(log, 4)
    assert work.run_s.tolist() == [30, 20] and left_out == {"partial_execution": 5}
    assert "repeated_job_numbers" not in log.noticed()


def test_a_log_of_partial_executions_alone_has_no_job(tmp_path: Path) -> None:
    log = swf.read(written(tmp_path, job(1, 0, status=2) + job(9, 0, status=3)))
    work, left_out = choose(log, 4)
    assert len(work) == 0 and left_out == {"partial_execution": 2} and "missing_job_numbers" not in log.noticed()


def test_a_partition_is_a_log_of_its_own(tmp_path: Path) -> None:
    log = swf.read(written(tmp_path, job(1, 0, partition=1) + job(2, 1, partition=2) + job(3, 2, partition=1)))
    work, left_out = choose(log, 4, partition=1)
    assert work.submit_s.tolist() == [0, 2] and left_out == {"other_partition": 1}


@given(
    st.lists(
        st.tuples(st.integers(-1, 20), st.integers(-1, 3), st.integers(-1, 6), st.integers(-1, 6), st.integers(-1, 5)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 5),
    st.integers(1, 40),
)
def test_chosen_and_left_out_are_together_all_jobs(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int, int]], processors: int, first: int
) -> None:
    text = "".join(job(k, s, r, a, q, status=status) for k, (s, r, a, q, status) in enumerate(rows))
    log = swf.read(written(tmp_path_factory.mktemp("swf"), text))
    work, left_out = choose(log, processors, first)
    assert len(work) + sum(left_out.values()) == len(rows)
    usable = [
        (s, k)
        for k, (s, r, a, q, status) in enumerate(rows)
        if status not in (2, 3, 4) and s >= 0 and r > 0 and 0 < (q if q > 0 else a) <= processors
    ]
    assert work.submit_s.tolist() == [s for s, _ in sorted(usable)][:first]


def test_lines_beyond_a_chunk_are_read_as_those_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swf, "CHUNK_JOBS", 3)
    log = swf.read(written(tmp_path, "".join(job(k, k) for k in range(8))))
    assert log.jobs.number.tolist() == list(range(8)) and log.jobs.line.tolist() == list(range(1, 9))
    assert ", line 8: field 2: " in refusal(tmp_path, "".join(job(k, k) for k in range(7)) + job(7, float("nan")))
