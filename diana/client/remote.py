"""The synchronous way to a remote node: gRPC over TLS with a user's credential."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from diana.client import forking, renewal
from diana.client.credential import load_credential
from diana.client.grpc_parts import (
    ResponseReader,
    credentials_of,
    error_from,
    grpc,
    options_of,
    path_of,
    said_by_node,
    write,
)
from diana.client.leading import leading
from diana.client.signing import permit
from diana.client.where import answer_limit_s
from diana.errors import DianaError, Unreachable

if TYPE_CHECKING:
    from diana.client.where import StrPath


class _Refused(Exception):
    """A machine of the site answered that somebody cannot be reached: it itself, perhaps, as the site's leader."""

    def __init__(self, failed: Unreachable, address: str) -> None:
        super().__init__(address)
        self.failed = failed
        self.address = address


class RemoteWire:
    """Threads may share one."""

    def __init__(self, address: str | None, credential: StrPath | None) -> None:
        self._credential = load_credential(credential, address)
        self.sign = partial(permit, self._credential)
        """Signs the groups of a submission."""
        self._used = False
        self._made: grpc.Channel | None = None
        self._address = ""
        """host:port the channel leads to."""

    @property
    def _channel(self) -> grpc.Channel:
        """The channel to whichever of the site's machines leads; chosen anew when that does not answer any more."""
        forking.check_process()
        if self._made is None:
            one = leading(self._credential)
            self._made = grpc.secure_channel(one.address, credentials_of(one), options_of(one))
            self._address = one.address
        return self._made

    def _failed(self, error: Any) -> DianaError:
        failed = error_from(error, self._credential)
        if isinstance(failed, Unreachable) and self._credential.others:
            self._made = None
        return failed

    def call(self, method: str, request: Any) -> Any:
        """A machine that led and follows now did nothing: the one that leads is asked instead, once."""
        try:
            return self._call(method, request)
        except _Refused as refused:
            if leading(self._credential).address == refused.address:
                raise refused.failed from None
        try:
            return self._call(method, request)
        except _Refused as refused:
            raise refused.failed from None

    def _call(self, method: str, request: Any) -> Any:
        send, address = self._channel.unary_unary(path_of(method), write, ResponseReader(method)), self._address
        try:
            answer = send(request, timeout=answer_limit_s(method))
            self._used = True
            return answer
        except grpc.RpcError as error:
            failed = self._failed(error)
            if isinstance(failed, Unreachable) and self._credential.others and said_by_node(error):
                raise _Refused(failed, address) from None
            raise failed from None

    def upload(self, requests: Iterable[Any]) -> None:
        send = self._channel.stream_unary(path_of("Upload"), write, ResponseReader("Upload"))
        try:
            send(iter(requests))
        except grpc.RpcError as error:
            raise self._failed(error) from None

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """Closing the generator early cancels the call."""
        call = cast("Any", self._channel.unary_stream(path_of(method), write, ResponseReader(method))(request))
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._failed(error) from None
        finally:
            call.cancel()

    def close(self) -> None:
        if self._used:
            self._renew()
        if self._made is not None:
            self._made.close()
            self._made = None

    def _renew(self) -> None:
        request = renewal.due(self._credential)
        if request is None:
            return
        ask = self._channel.unary_unary(renewal.SIGN, renewal.encode, renewal.decode)
        with suppress(grpc.RpcError):
            renewal.keep(self._credential, ask(request, timeout=renewal.WAIT_S))
