"""The one server of a machine that may come to lead: first it only says who leads, then the site's services open on it.

The same connections serve both, so that the stream between the two machines stands through a change of roles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import grpc

from diana.node.ways_in.client_service import FAILURE_KEY
from diana.wire import peer_codec
from diana.wire.client.messages import Failure


class Doorway(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Made before the server starts. What is added to it as if it were the server opens at `start`."""

    def __init__(self, says: Callable[[], str]) -> None:
        """`says`: one line, who leads, told to whoever calls something that is not open."""
        self._says = says
        self._server: grpc.aio.Server | None = None
        self._waiting: list[Any] = []
        self._open: tuple[Any, ...] = ()
        self._meanwhile: list[Any] = []
        self.asked: dict[str, Callable[..., Any]] = {}
        """Callbacks by name for the site's own part of the server, set once it leads (`make_server`)."""

    def behind(self, server: grpc.aio.Server) -> None:
        """Stand behind this server, which is not started yet and has its own handlers before this one."""
        server.add_generic_rpc_handlers((self,))
        self._server = server

    def ask(self, name: str, otherwise: Any) -> Callable[..., Any]:
        """Make a callback that asks whoever stands in `asked` under `name` at that moment, else gives `otherwise`."""

        def asking(*what: Any) -> Any:
            return self.asked[name](*what) if name in self.asked else otherwise

        return asking

    def meanwhile(self, handler: Any) -> None:
        """Serve this until the site's services open."""
        self._meanwhile.append(handler)

    # --- as services see it -----------------------------------------------------------------------------

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._waiting.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Ignored: generated code adds the same handlers a second time so."""

    async def start(self) -> None:
        """Open what was added."""
        self._open = tuple(self._waiting)

    async def stop(self, grace: float | None = None) -> None:
        if self._server is not None:
            await self._server.stop(grace)

    # --- as gRPC sees it --------------------------------------------------------------------------------

    def service(self, details: Any) -> Any:
        for handler in self._open or self._meanwhile:
            found = handler.service(details)
            if found is not None:
                return found
        return None if self._open else grpc.stream_stream_rpc_method_handler(self._refuse)

    async def _refuse(self, requests: Any, context: Any) -> None:
        failure = Failure(code="unreachable", text=self._says())
        data: bytes = peer_codec.to_proto(failure).SerializeToString()
        await context.abort(grpc.StatusCode.UNAVAILABLE, failure.text, trailing_metadata=((FAILURE_KEY, data),))
