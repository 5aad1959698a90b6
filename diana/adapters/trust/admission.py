"""Asks of every call whether its caller is trusted: before it, and again and again while it streams.

TLS is not enough: it checks once, and the server's trust roots include open invitations, whose holders can make
certificates of any name. So the whole chain a caller shows is judged against the VO's root here, and whoever does not
pass may call `JOIN` alone, and that only with an open invitation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import grpc

from diana.adapters.grpc.writing import write
from diana.wire.tls import peer_chain, peer_identity

AGAIN_S = 1.0
"""Seconds for which a verdict about a certificate holds; callers of open streams are judged as often."""
JOIN = "/diana.v1.Enrol/Join"

MOST_OPEN = 512
"""Calls of one identity that are open at once, over all its connections: a connection carries 256."""

MOST_CONNECTIONS = 64
"""Connections on which calls of one identity are open at once. Those without a call are the server's to end: gRPC tells
nobody here of them."""

_MOST_KNOWN = 1024
_BEHAVIOURS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

Refused = Callable[[str, str, str, str], None]
"""Callback for a refusal: identity that the certificate names (true or not), method, peer address, reason."""

_log = logging.getLogger("diana.trust")


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Interceptor that judges the caller of every call. `distrust` is given the caller's certificate chain (PEM,
    leaf first) and says why it is not trusted, or nothing. `invited` does the same for callers of `JOIN`: it says
    why there is no open invitation for the caller, or nothing. Both are asked often."""

    def __init__(
        self,
        distrust: Callable[[bytes], str],
        invited: Callable[[bytes], str] | None = None,
        refused: Refused = lambda *_: None,
    ) -> None:
        """`refused` hears of every call that is turned away or broken off."""
        self._distrust = distrust
        self._invited = invited
        self._refused = refused
        self._calls: Counter[Hashable] = Counter()
        self._connections: dict[Hashable, Counter[str]] = {}
        """Identity -> address at the other end of a connection -> calls open on it."""
        self._known: dict[bytes, tuple[float, str]] = {}
        self._open: dict[asyncio.Task[Any], tuple[bytes, str]] = {}
        self._ended: dict[asyncio.Task[Any], str] = {}
        self._watching: asyncio.TimerHandle | None = None

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[grpc.RpcMethodHandler | None]], details: Any
    ) -> grpc.RpcMethodHandler | None:
        handler = await continuation(details)
        if handler is None:
            return None
        name = next(name for name in _BEHAVIOURS if getattr(handler, name))
        make = getattr(grpc, f"{name}_rpc_method_handler")
        behind = self._behind(getattr(handler, name), details.method)
        return make(behind, handler.request_deserializer, handler.response_serializer)

    def _behind(self, behaviour: Callable[[Any, Any], Any], method: str) -> Callable[[Any, Any], Any]:
        """Wrap `behaviour` for grpc; if it yields messages, the wrapper writes them."""

        async def answer(request: Any, context: Any) -> Any:
            chain = await self._ask(context, method)
            try:
                who = await self._room(context, chain, method)
                with self._counted(who, context.peer()), self._watched(chain, method):
                    return await behaviour(request, context)
            except _Ended as ended:
                await self._turn_away(context, method, str(ended))

        async def stream(request: Any, context: Any) -> None:
            chain = await self._ask(context, method)
            try:
                who = await self._room(context, chain, method)
                with self._counted(who, context.peer()), self._watched(chain, method):
                    # Closed here, not by the garbage collector, when the caller has gone.
                    async with aclosing(behaviour(request, context)) as messages:
                        async for message in messages:
                            # Written here, since a cancellation that meets grpc's own write leaves the caller waiting.
                            await write(context, message)
            except _Ended as ended:
                await self._turn_away(context, method, str(ended))

        return stream if inspect.isasyncgenfunction(behaviour) else answer

    async def _ask(self, context: Any, method: str) -> bytes:
        """Return the caller's chain; refuse the call if the caller is not trusted."""
        chain = peer_chain(context)
        if why := self._why_not(chain, method):
            await self._turn_away(context, method, why)
        return chain

    async def _room(self, context: Any, chain: bytes, method: str) -> Hashable:
        """Return whose call it is; refuse it if too many of theirs are open, or on too many connections. Who was
        invited has no identity yet, whatever the certificate says."""
        who: Hashable = chain if method == JOIN else peer_identity(context).said
        connections, why = self._connections.get(who, Counter()), ""
        if self._calls[who] >= MOST_OPEN:
            why = f"{MOST_OPEN} calls of this certificate's holder are open already; try again when some have ended"
        elif context.peer() not in connections and len(connections) >= MOST_CONNECTIONS:
            why = (
                f"calls of this certificate's holder come by {MOST_CONNECTIONS} connections already; make them by fewer"
            )
        if why:
            self._refused(peer_identity(context).said, method, context.peer(), why)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        return who

    @contextmanager
    def _counted(self, who: Hashable, peer: str) -> Iterator[None]:
        self._calls[who] += 1
        connections = self._connections.setdefault(who, Counter())
        connections[peer] += 1
        try:
            yield
        finally:
            self._calls[who] -= 1
            connections[peer] -= 1
            if not connections[peer]:
                del connections[peer]
            if not self._calls[who]:
                del self._calls[who], self._connections[who]

    async def _turn_away(self, context: Any, method: str, why: str) -> None:
        self._refused(peer_identity(context).said, method, context.peer(), why)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)

    def _why_not(self, chain: bytes, method: str) -> str:
        if not chain:
            return "the caller showed no certificate"
        if method == JOIN and self._invited is not None and not self._invited(chain):
            return ""
        now_s = time.monotonic()
        until_s, why = self._known.get(chain, (0.0, ""))
        if now_s >= until_s:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            why = self._distrust(chain)
            self._known[chain] = (now_s + AGAIN_S, why)
        return why

    # --- calls that last ------------------------------------------------------------------------

    @contextmanager
    def _watched(self, chain: bytes, method: str) -> Any:
        """Raise `_Ended` in the call's task as soon as its caller is no longer trusted."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = (chain, method)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().call_later(AGAIN_S, self._look_again)
        try:
            yield
        except asyncio.CancelledError:
            why = self._ended.get(task)
            if why is None:
                raise
            task.uncancel()
            raise _Ended(why) from None
        finally:
            self._open.pop(task, None)
            self._ended.pop(task, None)

    def _look_again(self) -> None:
        self._watching = None
        for task, (chain, method) in list(self._open.items()):
            why = self._why_not(chain, method)
            if why and task not in self._ended:
                _log.warning("a call of %s is broken off: %s", method, why)
                self._ended[task] = why
                task.cancel()
        if self._open:
            self._watching = asyncio.get_running_loop().call_later(AGAIN_S, self._look_again)


class _Ended(Exception):
    """The reason why a call that was let in is let in no more."""
