"""The local socket: who may come in, and what it does with callers who break the rules."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from diana.model.trust.principal import Role
from diana.node.ways_in.control import bind, peer
from diana.node.ways_in.control_calls import Limits
from diana.wire import frames
from diana.wire.client.messages import MAX_FRAME_BYTES, METHODS, Empty, StatusRequest, WaitRequest
from tests.client.nodelike import ALICE, Nodelike, view


class Caller:
    """Frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @staticmethod
    async def at(path: Path) -> Caller:
        return Caller(*await asyncio.open_unix_connection(str(path)))

    async def answer(self) -> frames.FromNode | None:
        """None: the node closed the connection."""
        try:
            async with asyncio.timeout(60):
                head = await self.reader.readexactly(4)
                return frames.read_from_node(await self.reader.readexactly(int.from_bytes(head, "big")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def failure(self) -> str:
        answer = await self.answer()
        assert answer is not None and answer.failure is not None
        return f"{answer.failure.code}: {answer.failure.text}"

    async def is_closed(self) -> bool:
        return await self.answer() is None


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Nodelike]:
    limits = Limits(connections=6, connections_per_uid=5, frame_s=0.3, idle_s=30.0, unread_s=0.5)
    async with Nodelike(tmp_path / "alpha", limits=limits) as node:
        yield node


@pytest.fixture
async def caller(node: Nodelike) -> AsyncIterator[Caller]:
    caller = await Caller.at(node.data.socket)
    yield caller
    caller.writer.close()


async def test_many_calls_follow_each_other_on_one_connection(caller: Caller) -> None:
    for _ in range(3):
        caller.writer.write(frames.call_frame("Info", Empty()))
        answer = await caller.answer()
        assert answer is not None
        assert b'"site":"alpha"' in bytes(answer.response)


async def test_the_socket_and_its_folder_keep_strangers_out(node: Nodelike) -> None:
    assert stat.S_IMODE(os.stat(node.data.socket).st_mode) == 0o660
    assert stat.S_IMODE(os.stat(node.data.control).st_mode) == 0o750


async def test_the_kernel_says_who_calls(node: Nodelike, caller: Caller) -> None:
    caller.writer.write(frames.call_frame("Info", Empty()))
    answer = await caller.answer()
    assert answer is not None
    info = msgspec.json.decode(answer.response)
    assert info["role"] == "operator"
    assert info["principal"] == node.users.of_uid(os.getuid()).name


async def test_the_uid_comes_from_the_connection_not_from_its_words(tmp_path: Path) -> None:
    listener = bind(tmp_path / "c" / "s")
    _, writer = await asyncio.open_unix_connection(str(tmp_path / "c" / "s"))
    taken, _ = await asyncio.get_running_loop().sock_accept(listener)
    assert peer(taken) == (os.getpid(), os.getuid())
    taken.close()
    writer.close()
    listener.close()


async def test_an_oversized_frame_is_refused_before_it_is_read(caller: Caller) -> None:
    caller.writer.write((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    assert "at most" in await caller.failure()
    assert await caller.is_closed()


async def test_the_largest_frame_is_taken(tmp_path: Path) -> None:
    async with Nodelike(tmp_path / "alpha") as node:
        caller = await Caller.at(node.data.socket)
        await largest(caller)
        caller.writer.close()


async def largest(caller: Caller) -> None:
    padding = MAX_FRAME_BYTES - len(b'{"method":"Info","request":{},"x":""}')
    caller.writer.write(frames.frame(b'{"method":"Info","request":{},"x":"' + b"a" * padding + b'"}'))
    answer = await caller.answer()
    assert answer is not None and answer.failure is None


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0", b"\0\0\0\x20{", b"\0\1\0\0" + b"x" * 70])
async def test_a_half_sent_frame_ends_the_connection_in_time(caller: Caller, sent: bytes) -> None:
    caller.writer.write(sent)
    assert "half a frame" in await caller.failure()
    assert await caller.is_closed()


@pytest.mark.parametrize(
    "sent", [b"", b"garbage", b"[1,2]", b'{"method":7}', b"\xff\xfe", b'{"method":"Info"', b"null"]
)
async def test_garbage_is_answered_and_ends_the_connection(caller: Caller, sent: bytes) -> None:
    caller.writer.write(frames.frame(sent))
    assert await caller.failure()
    assert await caller.is_closed()


async def test_deeply_nested_json_does_no_harm(node: Nodelike, caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"method":"Info","request":' + b"[" * 100_000 + b"]" * 100_000 + b"}"))
    assert await caller.failure()
    again = await Caller.at(node.data.socket)
    again.writer.write(frames.call_frame("Info", Empty()))
    assert await again.answer() is not None
    again.writer.close()


async def test_an_unknown_call_is_named(caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"method":"Explode","request":{}}'))
    assert "'Explode'" in await caller.failure()


async def test_a_newer_socket_version_is_refused_in_one_line(caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"version":2,"method":"Info","request":{}}'))
    assert "upgrade the node" in await caller.failure()


async def test_a_wrong_field_fails_the_call_and_keeps_the_connection(caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"method":"Wait","request":{"group":[1]}}'))
    assert "usage: Wait" in await caller.failure()
    caller.writer.write(frames.call_frame("Info", Empty()))
    assert await caller.answer() is not None


async def test_integers_written_as_text_are_taken_as_proto3_json_writes_them(caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"method":"Results","request":{"group":"alpha-9","after":"3"}}'))
    assert "not known" in await caller.failure()


async def test_a_call_too_many_connections_is_told_to_come_back(node: Nodelike) -> None:
    callers = [await Caller.at(node.data.socket) for _ in range(5)]
    for one in callers:
        one.writer.write(frames.call_frame("Info", Empty()))
        assert await one.answer() is not None
    late = await Caller.at(node.data.socket)
    assert "retry" in await late.failure()
    assert await late.is_closed()
    callers[0].writer.close()
    while node.control.connections == 5:
        await asyncio.sleep(0.01)
    again = await Caller.at(node.data.socket)
    again.writer.write(frames.call_frame("Info", Empty()))
    assert await again.answer() is not None
    for one in [*callers, late, again]:
        one.writer.close()


async def test_a_client_that_leaves_ends_the_work_behind_its_stream(node: Nodelike, caller: Caller) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "alice@lab", 3)
    caller.writer.write(frames.call_frame("Wait", WaitRequest(group="alpha-1")))
    assert await caller.answer() is not None
    assert node.book.watchers("alpha-1") == 1
    caller.writer.close()
    async with asyncio.timeout(60):
        while node.book.watchers("alpha-1"):
            await asyncio.sleep(0.01)


async def test_a_frame_before_a_streams_end_ends_the_connection(node: Nodelike, caller: Caller) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "alice@lab", 3)
    caller.writer.write(frames.call_frame("Wait", WaitRequest(group="alpha-1")))
    assert await caller.answer() is not None
    caller.writer.write(frames.call_frame("Info", Empty()))
    assert "before the answer's end" in await caller.failure()
    assert await caller.is_closed()


async def test_a_call_right_after_a_stream_is_answered(node: Nodelike, caller: Caller) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "alice@lab", 3, final=True, state="done")
    for _ in range(20):
        caller.writer.write(frames.call_frame("Wait", WaitRequest(group="alpha-1")))
        status, end = await caller.answer(), await caller.answer()
        assert status is not None and end is not None and end.end
        caller.writer.write(frames.call_frame("Status", StatusRequest()))
        answer = await caller.answer()
        assert answer is not None and answer.failure is None


async def test_an_upload_that_stops_half_way_leaves_nothing(node: Nodelike, caller: Caller) -> None:
    caller.writer.write(frames.frame(b'{"method":"Upload","request":{"sha256":"' + b"a" * 64 + b'","data":"AAAA"}}'))
    assert "before its end" in await caller.failure()
    assert not node.stager.has_blob("a" * 64)


async def test_stop_closes_idle_connections_and_removes_the_socket(tmp_path: Path) -> None:
    node = Nodelike(tmp_path / "alpha")
    async with node:
        idle = await Caller.at(node.data.socket)
        idle.writer.write(frames.call_frame("Info", Empty()))
        await idle.answer()
    assert await idle.is_closed()
    assert not node.data.socket.exists()
    idle.writer.close()


async def test_a_socket_left_by_a_killed_node_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control" / "diana.sock"
    bind(path).close()
    assert path.exists()
    listener = bind(path)
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.close()
    listener.close()


async def test_a_path_longer_than_a_socket_name_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80) / ("e" * 80)
    async with Nodelike(deep) as node:
        assert len(str(node.data.socket)) > 160
        assert stat.S_IMODE(os.stat(node.data.socket).st_mode) == 0o660
        from diana.client import AsyncClient

        async with AsyncClient(deep) as client:
            assert (await client.info()).site == "alpha"


async def test_operators_only_calls_are_refused_to_users(tmp_path: Path) -> None:
    async with Nodelike(tmp_path / "a", caller=lambda uid: ALICE) as node:
        caller = await Caller.at(node.data.socket)
        for method in ("Stop", "AddDataset"):
            request = Empty() if method == "Stop" else METHODS[method].request(name="x", paths=("/tmp",))
            caller.writer.write(frames.call_frame(method, request))
            assert "denied" in await caller.failure()
        assert not node.stopped.is_set()
        caller.writer.close()
        assert node.users.of_uid(0).role is Role.USER
