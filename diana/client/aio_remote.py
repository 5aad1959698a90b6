"""The asyncio way to a remote node: gRPC over TLS with a user's credential."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from diana.client import forking, renewal
from diana.client.credential import load_credential
from diana.client.grpc_parts import ResponseReader, credentials_of, error_from, grpc, options_of, path_of, write
from diana.client.in_threads import each
from diana.client.leading import leading
from diana.client.signing import permit
from diana.client.where import answer_limit_s
from diana.errors import DianaError, Unreachable

if TYPE_CHECKING:
    from diana.client.where import StrPath


class AsyncRemoteWire:
    def __init__(self, address: str | None, credential: StrPath | None) -> None:
        self._credential = load_credential(credential, address)
        self.sign = partial(permit, self._credential)
        """Signs the groups of a submission."""
        self._used = False
        self._made: grpc.aio.Channel | None = None

    async def _channel(self) -> grpc.aio.Channel:
        """The channel to whichever of the site's machines leads, made at first use: it belongs to the loop that runs
        then. Chosen anew when that machine does not answer any more."""
        forking.check_process()
        if self._made is None:
            one = await asyncio.to_thread(leading, self._credential) if self._credential.others else self._credential
            self._made = grpc.aio.secure_channel(one.address, credentials_of(one), options_of(one))
        return self._made

    def _failed(self, error: grpc.aio.AioRpcError) -> DianaError:
        failed = error_from(error, self._credential)
        if isinstance(failed, Unreachable) and self._credential.others:
            self._made = None
        return failed

    async def call(self, method: str, request: Any) -> Any:
        send = (await self._channel()).unary_unary(path_of(method), write, ResponseReader(method))
        try:
            answer = await send(request, timeout=answer_limit_s(method))
            self._used = True
            return answer
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None

    async def upload(self, requests: Iterator[Any]) -> None:
        send = (await self._channel()).stream_unary(path_of("Upload"), write, ResponseReader("Upload"))
        try:
            await send(each(requests))
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None

    async def stream(self, method: str, request: Any) -> AsyncIterator[Any]:
        """Closing the generator early cancels the call."""
        call = (await self._channel()).unary_stream(path_of(method), write, ResponseReader(method))(request)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        if self._made is not None:
            if self._used:
                await self._renew(self._made)
            await self._made.close()

    async def _renew(self, channel: grpc.aio.Channel) -> None:
        request = renewal.due(self._credential)
        if request is None:
            return
        ask = channel.unary_unary(renewal.SIGN, renewal.encode, renewal.decode)
        with suppress(grpc.aio.AioRpcError):
            renewal.keep(self._credential, await ask(request, timeout=renewal.WAIT_S))
