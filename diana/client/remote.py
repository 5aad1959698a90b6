"""The synchronous way to a remote node: gRPC over TLS with a user's credential."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import grpc

from diana.client.credential import load_credential
from diana.client.grpc_parts import Reader, credentials_of, error_from, options_of, path_of, write
from diana.client.where import answer_limit_s

if TYPE_CHECKING:
    from diana.client.where import StrPath


class RemoteWire:
    """Threads may share one."""

    def __init__(self, address: str | None, credential: StrPath | None) -> None:
        self._credential = load_credential(credential, address)
        self._channel = grpc.secure_channel(
            self._credential.address, credentials_of(self._credential), options_of(self._credential)
        )

    def call(self, method: str, request: Any) -> Any:
        send = self._channel.unary_unary(path_of(method), write, Reader(method))
        try:
            return send(request, timeout=answer_limit_s(method))
        except grpc.RpcError as error:
            raise error_from(error, self._credential) from None

    def upload(self, requests: Iterable[Any]) -> None:
        send = self._channel.stream_unary(path_of("Upload"), write, Reader("Upload"))
        try:
            send(iter(requests))
        except grpc.RpcError as error:
            raise error_from(error, self._credential) from None

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """Closing the generator early cancels the call."""
        call = cast("Any", self._channel.unary_stream(path_of(method), write, Reader(method))(request))
        try:
            yield from call
        except grpc.RpcError as error:
            raise error_from(error, self._credential) from None
        finally:
            call.cancel()

    def close(self) -> None:
        self._channel.close()
