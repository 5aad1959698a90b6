"""The remote way in: the same Api over gRPC. The caller is the one the TLS certificate proved; a site is no user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import grpc
import msgspec

from diana.adapters.grpc.server import peer_identity
from diana.errors import Denied, DianaError, UsageError
from diana.model.trust.principal import Principal
from diana.node.api.service import Api
from diana.node.ways_in.users import LocalUsers
from diana.wire import BadMessage, peer_codec
from diana.wire.client.failures import failure_of
from diana.wire.client.messages import METHODS, Failure, Method

_log = logging.getLogger(__name__)

SERVICE = "diana.v1.Client"
FAILURE_KEY = "diana-failure-bin"

_STATUS = {
    "usage": grpc.StatusCode.INVALID_ARGUMENT,
    "denied": grpc.StatusCode.PERMISSION_DENIED,
    "unplaceable": grpc.StatusCode.FAILED_PRECONDITION,
    "unreachable": grpc.StatusCode.UNAVAILABLE,
    "retry": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "timeout": grpc.StatusCode.DEADLINE_EXCEEDED,
}

ROWS_AT_ONCE = 32
"""Rows of a table that are written at once."""

Context = Any
"""grpc.aio.ServicerContext, generic in ways that help nobody here."""


def add_client_service(server: grpc.aio.Server, api: Api, users: LocalUsers) -> None:
    """Register the service before the server starts."""
    service = ClientService(api, users)
    handlers = {name: service.handler(name, method) for name, method in METHODS.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


class ClientService:
    def __init__(self, api: Api, users: LocalUsers) -> None:
        self._api = api
        self._users = users

    def handler(self, name: str, method: Method) -> grpc.RpcMethodHandler[Any, Any]:
        read = peer_codec.proto_class(method.request).FromString
        if method.streams_out:
            return grpc.unary_stream_rpc_method_handler(self._streamed(name, method), read, _write)
        if method.streams_in:
            return grpc.stream_unary_rpc_method_handler(self._unary(name, method), read)
        return grpc.unary_unary_rpc_method_handler(self._unary(name, method), read)

    def _unary(self, name: str, method: Method) -> Callable[[Any, Context], Any]:
        async def serve(request: Any, context: Context) -> bytes | None:
            try:
                caller = self.caller(context)
                if method.streams_in:
                    requests = _requests(name, method, request)
                    return _write(await self._api.call(caller, name, requests, context.peer()))
                # A client that gives up must not stop this half-way: the answer is optional, the commit is not.
                asked = _asked(name, method, request)
                call = asyncio.ensure_future(self._api.call(caller, name, asked, context.peer()))
                call.add_done_callback(_seen)
                return await _written(await asyncio.shield(call))
            except Exception as error:
                await _abort(context, name, error)
                return None

        return serve

    def _streamed(self, name: str, method: Method) -> Callable[[Any, Context], AsyncIterator[msgspec.Struct]]:
        async def serve(request: Any, context: Context) -> AsyncIterator[msgspec.Struct]:
            try:
                asked = _asked(name, method, request)
                stream = self._api.stream(self.caller(context), name, asked, context.peer())
                async with aclosing(stream) as responses:
                    async for response in responses:
                        yield response
            except Exception as error:
                await _abort(context, name, error)

        return serve

    def caller(self, context: Context) -> Principal:
        identity = peer_identity(context)
        if identity.kind == "site":
            raise Denied(f"site {identity.name} is no user: call with a user's credential, from diana invite --user")
        if identity.kind != "user":
            raise Denied(
                "the caller showed no certificate of a user of the VO; use a credential, from diana invite --user"
            )
        return self._users.of_certificate(identity.name, identity.vo)


async def _requests(name: str, method: Method, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in stream:
        yield _asked(name, method, request)


def _asked(name: str, method: Method, request: Any) -> msgspec.Struct:
    """Return the request; UsageError where it is none. An answer that fits no message is a fault of this node's."""
    try:
        return peer_codec.from_proto(method.request, request)
    except BadMessage as error:
        raise UsageError(f"{name}: {error}") from None


def _write(message: msgspec.Struct) -> bytes:
    data: bytes = peer_codec.to_proto(message).SerializeToString()
    return data


async def _written(message: msgspec.Struct) -> bytes:
    """Return the message's bytes. A long table is written bit by bit, so that others' calls come between."""
    tables = {name: getattr(message, name) for name in message.__struct_fields__}
    name = max(tables, key=lambda name: len(tables[name]) if isinstance(tables[name], tuple) else 0, default="")
    table = tables.get(name)
    if not isinstance(table, tuple) or len(table) <= ROWS_AT_ONCE:
        return _write(message)
    written = [_write(msgspec.structs.replace(message, **{name: table[:ROWS_AT_ONCE]}))]
    for first in range(ROWS_AT_ONCE, len(table), ROWS_AT_ONCE):
        await asyncio.sleep(0)
        rows = table[first : first + ROWS_AT_ONCE]
        written.append(peer_codec.rows_to_proto(type(message), name, rows).SerializeToString())
    return b"".join(written)


def _seen(call: asyncio.Future[Any]) -> None:
    """Take the error of a call whose client has gone: it was for that client only."""
    if not call.cancelled():
        call.exception()


async def _abort(context: Context, name: str, error: Exception) -> None:
    """End the call with a status and the Failure behind it. Raises grpc's own AbortError."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, DianaError):
        failure = failure_of(error)
    else:
        _log.error("call %s failed", name, exc_info=error)
        failure = Failure(
            code="internal", text=f"{name} failed in the node ({type(error).__name__}); its log says more"
        )
    await context.abort(
        _STATUS.get(failure.code, grpc.StatusCode.INTERNAL),
        failure.text,
        trailing_metadata=((FAILURE_KEY, _write(failure)),),
    )
