"""A caller that is turned away hears so, though a message to it was on its way."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from diana.adapters.grpc.writing import write

METHOD = "/test.Talk/Stream"


async def test_a_call_whose_writer_is_cancelled_is_ended_with_its_status() -> None:
    async def serve(_: Any, context: Any) -> None:
        writing = asyncio.create_task(write(context, b"x" * 100_000))
        # One step: the message is with gRPC, and not yet on its way.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "revoked")

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Talk", {"Stream": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_stream(METHOD)()
            assert len(await call.read()) == 100_000
            assert await asyncio.wait_for(call.code(), 60) is grpc.StatusCode.PERMISSION_DENIED
            assert await call.details() == "revoked"
    finally:
        await server.stop(None)
