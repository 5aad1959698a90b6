"""Hold, release and retry as a client says them, and what a client reads of a job that was retried."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana import errors
from diana.client import Client
from diana.engine.journal.events import RetryJobs
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import GroupId, SubgroupId
from diana.model.indexset import IndexSet
from tests.client.nodelike import InThread, facts, view


@pytest.fixture
def node(tmp_path: Path) -> Iterator[InThread]:
    with InThread(tmp_path / "alpha") as node:
        yield node


@pytest.fixture
def client(node: InThread, tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "alpha") as client:
        yield client


def test_hold_release_and_retry_take_the_same_targets_as_cancel(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 20)
    held = client.hold("alpha-1.[3-9,12]")
    assert (held.jobs, held.started) == (8, 2)
    assert client.release("alpha-1.3") == 1
    assert client.retry("alpha-1", held=True) == 20
    hold, release, retry = node.book.controlled
    assert (str(hold.indices), str(release.indices), retry.indices) == ("3-9,12", "3", None)
    assert isinstance(retry, RetryJobs) and (retry.held, retry.cancelled) == (True, False)
    for call in (client.hold, client.release, client.retry):
        with pytest.raises(errors.UsageError):
            call("alpha-1.[9-3]")


def retried(node: InThread) -> str:
    """A group whose job 0 failed in its first part and is done in its second; job 1 was retried and has not ended."""
    group = "alpha-1"
    logs = [node.node.write_log(group, "s1", text) for text in (b"first\n", b"other\n", b"second\n")]
    segments, offsets = [name for name, _ in logs], [at for _, at in logs]
    old, new = (hashlib.sha256(text).hexdigest() for text in (b"old", b"new"))
    node.book.groups[group] = view(group, "x@lab", 2, superseded=((SubgroupId("alpha-1/0"), IndexSet.span(0, 2)),))
    first = facts(
        "alpha",
        [0, 1],
        outcomes=[int(Outcome.FAILED)] * 2,
        log_segments=segments[:2],
        log_offsets=offsets[:2],
        log_lengths=[6, 6],
        outputs=[OutputFile(0, "o", 3, old), OutputFile(1, "p", 3, old)],
    )
    second = facts(
        "alpha",
        [0],
        attempts=[2],
        log_segments=segments[2:],
        log_offsets=offsets[2:],
        log_lengths=[7],
        outputs=[OutputFile(0, "o", 3, new)],
    )
    folder = node.node.data.gathered(GroupId(group))
    folder.mkdir(parents=True)
    for name, text in (("o", b"new"), ("p", b"old")):
        (folder / name).write_bytes(text)
    node.book.keep(group, 0, first)
    node.book.keep(group, 0, second, part=1)
    return group


def test_the_newest_result_of_a_retried_job_wins_in_results_logs_and_fetch(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    group = retried(node)
    assert [(row.index, row.attempt, row.outcome) for row in client.results(group)] == [(0, 2, "done")]
    assert b"".join(chunk.data for chunk in client.logs(f"{group}.0")) == b"second\n"
    assert b"".join(chunk.data for chunk in client.logs(f"{group}.1")) == b"other\n", "until it has ended again"
    assert [(path.name, path.read_bytes()) for path in client.fetch(group, tmp_path / "out")] == [("o", b"new")]
