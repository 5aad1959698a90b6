"""The asyncio way to a remote node: gRPC over TLS with a user's credential."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc

from diana.client.credential import load_credential
from diana.client.grpc_parts import Reader, credentials_of, error_from, options_of, path_of, write
from diana.client.where import answer_limit_s

if TYPE_CHECKING:
    from diana.client.where import StrPath


class AsyncRemoteWire:
    def __init__(self, address: str | None, credential: StrPath | None) -> None:
        self._credential = load_credential(credential, address)
        self._made: grpc.aio.Channel | None = None

    @property
    def _channel(self) -> grpc.aio.Channel:
        """Made at first use: it belongs to the loop that runs then."""
        if self._made is None:
            self._made = grpc.aio.secure_channel(
                self._credential.address, credentials_of(self._credential), options_of(self._credential)
            )
        return self._made

    async def call(self, method: str, request: Any) -> Any:
        send = self._channel.unary_unary(path_of(method), write, Reader(method))
        try:
            return await send(request, timeout=answer_limit_s(method))
        except grpc.aio.AioRpcError as error:
            raise error_from(error, self._credential) from None

    async def upload(self, requests: AsyncIterator[Any]) -> None:
        send = self._channel.stream_unary(path_of("Upload"), write, Reader("Upload"))
        try:
            await send(requests)
        except grpc.aio.AioRpcError as error:
            raise error_from(error, self._credential) from None

    async def stream(self, method: str, request: Any) -> AsyncIterator[Any]:
        """Closing the generator early cancels the call."""
        call = self._channel.unary_stream(path_of(method), write, Reader(method))(request)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise error_from(error, self._credential) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
