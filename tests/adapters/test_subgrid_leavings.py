"""Files that jobs left on a member machine arrive at the RootGrid whole, or not at all (SPEC D8)."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.adapters.subgrid.delivery import Delivery, LogSegments
from diana.adapters.subgrid.ends import EndBook, as_they_lie, leavings
from diana.adapters.subgrid.protocol import DeliveredRuns, decode_batch, encode_batch
from diana.engine.journal.events import JobsEnded, Run
from diana.model.facts import Facts, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.layout import DataDir

ALPHA, PART, GROUP = SiteId("alpha"), SubgroupId("alpha-1/0"), GroupId("alpha-1")
Leavings = Sequence[tuple[bytes, Sequence[bytes]]]
"""Per job its log and the contents of its outputs."""


def facts(jobs: int, **columns: object) -> Facts:
    values: dict[str, object] = {
        "indices": list(range(jobs)),
        "attempts": [1] * jobs,
        "outcomes": [int(Outcome.DONE)] * jobs,
        "exit_codes": [0] * jobs,
        "started_s": [1.0] * jobs,
        "ended_s": [2.0] * jobs,
        "cpu_s": [0.1] * jobs,
        "max_rss_bytes": [1] * jobs,
        "log_segments": [""] * jobs,
        "log_offsets": [0] * jobs,
        "log_lengths": [0] * jobs,
        "log_truncated": [False] * jobs,
    }
    return Facts(site=ALPHA, **{**values, **columns})  # type: ignore[arg-type]


def left_on(data: DataDir, jobs: Leavings) -> Facts:
    """Write what these jobs left on a member; all logs in one segment, with something of others before them."""
    folder, segment = data.collected(PART, 1), data.logs(GROUP) / "0-1.log"
    folder.mkdir(parents=True)
    segment.parent.mkdir(parents=True)
    text, offsets, outputs = b"others'", [], []
    for index, (log, contents) in enumerate(jobs):
        offsets.append(len(text))
        text += log
        for number, content in enumerate(contents):
            name = f"{index}/out-{number}"
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
            outputs.append(OutputFile(index, name, len(content), hashlib.sha256(content).hexdigest()))
    segment.write_bytes(text)
    return facts(
        len(jobs),
        log_segments=[f"{GROUP}/0-1.log"] * len(jobs),
        log_offsets=offsets,
        log_lengths=[len(log) for log, _ in jobs],
        outputs=outputs,
    )


def root_at(folder: Path) -> DataDir:
    data = DataDir(folder)
    for path in (data.logs_root, data.root / "collected"):
        path.mkdir(parents=True)
    return data


def deliver(data: DataDir, told: Facts, chunks: Iterator[bytes], machine: str = "m1") -> Facts:
    batch = decode_batch(encode_batch(DeliveredRuns(1, 1, PART, 1, told)))
    taking = Delivery(data, ALPHA, LogSegments(data.logs_root, machine), batch)
    try:
        for chunk in chunks:
            taking.take(chunk)
        return taking.finish()
    finally:
        taking.close()


def log_of(data: DataDir, told: Facts, row: int) -> bytes:
    if not told.log_lengths[row]:
        return b""
    text = (data.logs_root / told.log_segments[row]).read_bytes()
    return text[told.log_offsets[row] : told.log_offsets[row] + told.log_lengths[row]]


contents = st.binary(max_size=60)


@given(
    jobs=st.lists(st.tuples(contents, st.lists(contents, max_size=3)), min_size=1, max_size=6), step=st.integers(1, 50)
)
@settings(max_examples=15, deadline=None)
def test_however_the_bytes_are_cut_logs_and_outputs_arrive_as_they_were(jobs: Leavings, step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        member, root = DataDir(Path(folder) / "member"), root_at(Path(folder) / "root")
        told = left_on(member, jobs)
        text = b"".join(leavings(member, PART, 1, as_they_lie(member, PART, 1, told)))
        got = deliver(root, told, (text[at : at + step] for at in range(0, len(text), step)))
        assert [log_of(root, got, row) for row in range(len(jobs))] == [log for log, _ in jobs]
        assert [(root.collected(PART, 1) / o.name).read_bytes() for o in got.outputs] == [
            content for _, outputs in jobs for content in outputs
        ]
        assert got.outcomes == told.outcomes and not got.errors
        assert not list(root.root.rglob(".diana-part-*"))


def test_a_batch_told_again_gives_the_same_outputs(tmp_path: Path) -> None:
    member, root = DataDir(tmp_path / "member"), root_at(tmp_path / "root")
    told = left_on(member, [(b"log", [b"out"])])
    first = deliver(root, told, leavings(member, PART, 1, told))
    again = deliver(root, told, leavings(member, PART, 1, told))
    assert again.outputs == first.outputs and again.outcomes == [int(Outcome.DONE)]
    assert log_of(root, again, 0) == log_of(root, first, 0) == b"log"


def test_of_two_machines_jobs_that_write_one_name_the_second_fails_and_the_first_is_kept(tmp_path: Path) -> None:
    one, two, root = DataDir(tmp_path / "one"), DataDir(tmp_path / "two"), root_at(tmp_path / "root")
    deliver(root, told := left_on(one, [(b"", [b"first"])]), leavings(one, PART, 1, told))
    told = left_on(two, [(b"", [b"other"])])
    got = deliver(root, told, leavings(two, PART, 1, told), "m2")
    assert got.outcomes == [int(Outcome.STAGING_FAILED)] and not got.outputs
    assert "already written by another job" in got.errors[0].text
    assert (root.collected(PART, 1) / "0/out-0").read_bytes() == b"first"


def test_content_that_is_not_what_was_promised_is_not_kept(tmp_path: Path) -> None:
    member, root = DataDir(tmp_path / "member"), root_at(tmp_path / "root")
    told = left_on(member, [(b"", [b"right"])])
    got = deliver(root, told, iter([b"wrong"]))
    assert got.outcomes == [int(Outcome.STAGING_FAILED)]
    assert not [path for path in root.collected(PART, 1).rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../b", ".diana-part-x"])
def test_an_output_that_would_leave_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    root = root_at(tmp_path)
    told = facts(1, outputs=[OutputFile(0, name, 1, hashlib.sha256(b"x").hexdigest())])
    with pytest.raises(ValueError):
        deliver(root, told, iter([b"x"]))


@pytest.mark.parametrize("chunks", [[b"lo"], [b"log", b"more"]])
def test_fewer_or_more_bytes_than_named_are_refused(tmp_path: Path, chunks: list[bytes]) -> None:
    told = facts(1, log_segments=["x/y"], log_lengths=[3])
    with pytest.raises(ValueError):
        deliver(root_at(tmp_path), told, iter(chunks))


@pytest.mark.parametrize("columns", [{"cpu_s": [0.0]}, {"signals": [9]}, {"signals": [9, -1]}, {"signals": [0, 128]}])
def test_columns_of_unequal_length_and_signals_there_are_not_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        decode_batch(encode_batch(DeliveredRuns(1, 1, PART, 1, facts(2, **columns))))


def test_the_signals_of_a_member_s_jobs_come_with_its_batch() -> None:
    told = decode_batch(encode_batch(DeliveredRuns(1, 1, PART, 1, facts(2, signals=[0, 9]))))
    assert told.facts.signals == [0, 9]


def test_an_output_that_vanished_fails_its_job_and_no_other(tmp_path: Path) -> None:
    member = DataDir(tmp_path)
    told = left_on(member, [(b"a", [b"0"]), (b"b", [b"1"])])
    (member.collected(PART, 1) / "0/out-0").unlink()
    got = as_they_lie(member, PART, 1, told)
    assert got.outcomes == [int(Outcome.STAGING_FAILED), int(Outcome.DONE)]
    assert [o.index for o in got.outputs] == [1] and "vanished" in got.errors[0].text


def run(index: int) -> Run:
    return Run(PART, 1, index, 1)


def test_ends_are_kept_until_they_are_forgotten_and_told_again_ones_are_not_kept_twice() -> None:
    book = EndBook()
    (kept,) = book.add(JobsEnded(subgroup=PART, epoch=1, facts=facts(3)))
    assert book.add(JobsEnded(subgroup=PART, epoch=1, facts=facts(3))) == []
    (more,) = book.add(JobsEnded(subgroup=PART, epoch=1, facts=facts(4)))
    assert more.facts.indices == [3]
    assert book.forget([run(0), run(2), run(9)]) == []
    assert book.runs() == {run(1), run(3)} and kept.now().indices == [1]
    book.forget([run(1), run(3)])
    assert not book.batches() and not book.runs()


def test_forgetting_names_the_outputs_that_are_needed_no_more() -> None:
    book = EndBook()
    outputs = [OutputFile(index, f"o{index}", 1, "0" * 64) for index in range(2)]
    book.add(JobsEnded(subgroup=PART, epoch=1, facts=facts(2, outputs=outputs)))
    assert book.forget([run(1)]) == [(PART, 1, outputs[1])]


def test_a_machine_that_led_keeps_outputs_that_nobody_else_has() -> None:
    """Ends it told while it led: who leads now may forget them before their outputs were asked for."""
    book = EndBook()
    outputs = [OutputFile(index, f"o{index}", 1, "0" * 64) for index in range(2)]
    (kept,) = book.add(JobsEnded(subgroup=PART, epoch=1, facts=facts(2, outputs=outputs)))
    assert book.forget([run(0)], delivered=True) == []
    kept.delivered = True
    assert book.forget([run(1)], delivered=True) == [(PART, 1, outputs[1])]


def test_a_large_batch_travels_in_pieces_that_fit_a_message() -> None:
    outputs = [OutputFile(index, f"o{index}-{n}", 1, "0" * 64) for index in range(4000) for n in range(4)]
    pieces = EndBook().add(JobsEnded(subgroup=PART, epoch=1, facts=facts(4000, outputs=outputs)))
    assert sum(len(piece.facts.indices) for piece in pieces) == 4000
    assert max(len(encode_batch(DeliveredRuns(1, 1, PART, 1, piece.facts))) for piece in pieces) < 2 << 20
