"""Asks before every call whether its caller is still trusted: a connection outlives the moment TLS checked it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

AGAIN_S = 1.0
"""What was found out about a certificate holds this long."""
_MOST_KNOWN = 1024

_BEHAVIOURS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """`distrust` is given the caller's certificate (PEM) and says why it is not trusted, or nothing. What runs already
    is not broken off; the caller's next call is refused."""

    def __init__(self, distrust: Callable[[bytes], str]) -> None:
        self._distrust = distrust
        self._known: dict[bytes, tuple[float, str]] = {}

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[grpc.RpcMethodHandler | None]], details: Any
    ) -> grpc.RpcMethodHandler | None:
        handler = await continuation(details)
        if handler is None:
            return None
        name = next(name for name in _BEHAVIOURS if getattr(handler, name))
        make = getattr(grpc, f"{name}_rpc_method_handler")
        return make(self._behind(getattr(handler, name)), handler.request_deserializer, handler.response_serializer)

    def _behind(self, behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """The same kind of function as `behaviour`, since grpc looks at the kind."""

        async def answer(request: Any, context: Any) -> Any:
            await self._ask(context)
            return await behaviour(request, context)

        async def stream(request: Any, context: Any) -> Any:
            await self._ask(context)
            async for message in behaviour(request, context):
                yield message

        return stream if inspect.isasyncgenfunction(behaviour) else answer

    async def _ask(self, context: Any) -> None:
        for certificate in context.auth_context().get("x509_pem_cert", ()):
            if why := self._why_not(bytes(certificate)):
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)

    def _why_not(self, certificate: bytes) -> str:
        now_s = time.monotonic()
        until_s, why = self._known.get(certificate, (0.0, ""))
        if now_s >= until_s:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            why = self._distrust(certificate)
            self._known[certificate] = (now_s + AGAIN_S, why)
        return why
