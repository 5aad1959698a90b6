"""Groups of calls followed to their end over streams that lie, break off and come too late: every future ends."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest

from diana.client.calls import following, packing, remote
from diana.client.calls.gathering import CallGroup, GridFuture
from diana.errors import DianaError, JobFailed, Unreachable
from diana.model.indexset import IndexSet
from diana.wire.client.messages import FetchChunk


def outcome(value: object) -> bytes:
    data = pickle.dumps(value)
    return remote.VALUE + (0).to_bytes(8, "little") + len(data).to_bytes(8, "little") + data


def row(index: int, outcome: str = "done") -> Any:
    return SimpleNamespace(index=index, done=outcome == "done", outcome=outcome, job=f"alpha-1.{index}", error="",
                           exit_code=0, site="beta")  # fmt: skip


class Streams:
    """A node's answers about one group, turn by turn: its files, and an error after them."""

    def __init__(self, rows: list[Any], *turns: tuple[list[FetchChunk], DianaError | None], **status: Any) -> None:
        self.rows, self.turns = rows, turns
        self.opened = 0
        self.group = SimpleNamespace(**{"final": True, "cancelled": 0, "note": "", "state": "done", **status})

    async def status(self, groups: list[str]) -> list[Any]:
        await asyncio.sleep(0)
        return [self.group]

    async def result_chunks(self, group: str, *, follow: bool, after: int) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        if not after and self.rows:
            yield SimpleNamespace(chunk=1, rows=self.rows)

    async def fetch_chunks(self, group: str, *, follow: bool, skip: str) -> AsyncIterator[FetchChunk]:
        chunks, error = self.turns[min(self.opened, len(self.turns) - 1)]
        self.opened += 1
        have = IndexSet.parse(skip) if skip else IndexSet()
        for chunk in chunks:
            if packing.result_index(chunk.name) not in have:
                yield chunk
        await asyncio.sleep(0)
        if error is not None:
            raise error


def file(index: int, damaged: bool = False) -> FetchChunk:
    data = outcome(index)
    sha256 = hashlib.sha256(b"" if damaged else data).hexdigest()
    name = f"{remote.RESULT}{index}"
    return FetchChunk(name=name, size_bytes=len(data), data=data, sha256=sha256, last=True)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallGroup]:
    """A sequence of three calls that the node has."""
    monkeypatch.setattr(following, "rows", lambda name, chunk: chunk.rows)
    made = CallGroup("pow", whole=False)
    for _ in range(3):
        made.add(GridFuture(lambda future: False), packing.Call(b"", b""))
    made.name = "alpha-1"
    yield made
    made.drop_files()


def followed(group: CallGroup, node: Streams, patience_s: float = 0.5) -> list[GridFuture[Any]]:
    futures = [group.open[index] for index in sorted(group.open)]

    async def go() -> None:
        async with asyncio.timeout(60):
            await following.follow(node, group, asyncio.Semaphore(1), patience_s)  # type: ignore[arg-type]

    asyncio.run(go())
    return futures


AWAY = Unreachable("output _diana_result-2 is on machine b, which is away; fetch it when that is back")


def test_an_outcome_on_a_machine_that_stays_away_ends_its_future_and_is_not_asked_for_without_end(
    group: CallGroup,
) -> None:
    node = Streams([row(0), row(1), row(2)], ([file(0), file(1)], AWAY))
    futures = followed(group, node)
    assert [future.result(0) for future in futures[:2]] == [0, 1]
    with pytest.raises(JobFailed, match=r"pow as alpha-1\.2: .*on machine b, which is away"):
        futures[2].result(0)
    assert node.opened <= 5, "the pauses grow"


def test_an_outcome_that_always_arrives_damaged_is_given_up_with_the_group_named(group: CallGroup) -> None:
    node = Streams([], ([file(0, damaged=True)], None), final=False)
    with pytest.raises(Unreachable, match="arrived damaged; its calls go on there as group alpha-1"):
        followed(group, node)
    assert node.opened <= 5


def test_as_long_as_streams_tell_something_new_nobody_loses_patience(group: CallGroup) -> None:
    away = Unreachable("gone")
    turns = [([file(index)], away) for index in (0, 1)]
    assert [f.result(0) for f in followed(group, Streams([], *turns, ([file(2)], away)), 0.15)] == [0, 1, 2]


def test_jobs_that_ran_did_not_get_cancelled_although_others_were(group: CallGroup) -> None:
    """Two withdrawn before; the third ran, and its output was lost."""
    futures = [group.open[index] for index in range(3)]
    group.end_cancelled(IndexSet.span(0, 2))
    followed(group, Streams([row(2)], ([], DianaError("output _diana_result-2 was changed")), cancelled=2))
    assert futures[0].cancelled() and futures[1].cancelled()
    with pytest.raises(JobFailed, match=r"alpha-1\.2: output .* was changed"):
        futures[2].result(0)


def test_jobs_that_others_cancelled_before_they_started_are_told_from_one_that_ran(group: CallGroup) -> None:
    futures = followed(group, Streams([row(1)], ([], DianaError("output _diana_result-1 is lost")), cancelled=2))
    for index in (0, 2):
        with pytest.raises(CancelledError):
            futures[index].result(0)
    with pytest.raises(JobFailed, match="is lost"):
        futures[1].result(0)
