"""The answers to a browser: the pages' files, the calls of the client service as JSON, and the live feed.

A browser shows a token (`sessions.py`) and then is a caller of the client service like any other: the same roles,
limits and audit trail hold. The calls' JSON is that of the local socket, the proto3 JSON mapping.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from diana.errors import Denied, DianaError, Overloaded, Unreachable, UsageError
from diana.node.web.connections import FIRST_S, Door
from diana.node.web.live import Feeds
from diana.node.web.sessions import PAGES, Session
from diana.wire.client.failures import failure_of
from diana.wire.client.messages import METHODS

if TYPE_CHECKING:
    from diana.node.web.server import WebServer

_log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
MOST_BODY = 64 << 10
IDLE_S = 75.0
UNREAD_S = 60.0
"""Seconds after which an answer that the browser does not read ends its connection."""
_LOOK = "Status Explain Queue Sites Peers Links Datasets ShowDataset Ledger Info Doctor Results Logs Activity"
_ACT = "Cancel Hold Release Retry Move Operate"
CALLS = frozenset(f"{_LOOK} {_ACT}".split())
"""Calls of the client service that a page may make; no file goes in or out through one."""
OPERATIONS = frozenset(("drain", "undrain"))
"""Operations of Operate that a page may order; one that is not easily undone is left to the command line."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_STATUS: dict[type[DianaError], int] = {UsageError: 400, Denied: 403, Overloaded: 429, Unreachable: 502}
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve(server: WebServer, listener: socket.socket, tls: ssl.SSLContext | None) -> web.AppRunner:
    """Serve on a socket that listens. `cleanup` of the runner returned ends it."""
    pages = DashboardPages(server)
    app = web.Application(client_max_size=MOST_BODY, middlewares=[pages.guarded])
    app.router.add_get("/", pages.file)
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_post("/api/session", pages.enter)
    app.router.add_get("/api/live", pages.live)
    app.router.add_post("/api/{method}", pages.call)
    app.router.add_get("/{name:[a-z0-9-]+\\.(?:js|css|svg)}", pages.file)
    app.on_shutdown.append(pages.close)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_S)
    await runner.setup()
    assert runner.server is not None
    pages.door = Door(runner.server)
    pages.listening = await asyncio.get_running_loop().create_server(
        pages.door.opened, sock=listener, ssl=tls, ssl_handshake_timeout=FIRST_S if tls else None
    )
    return runner


class DashboardPages:
    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._api = server.api
        self._feeds = Feeds(server.api, server.wall_s, server.by_now)
        self._files = _files()
        self.listening: asyncio.Server | None = None
        self.door: Door | None = None

    @property
    def guarded(self) -> Any:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self.door is not None:
                self.door.heard(request.protocol)
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _failed("usage", error.reason.lower(), error.status)
            except DianaError as error:
                response = _refused(error)
            except (ConnectionError, asyncio.CancelledError):
                raise
            except Exception as error:
                _log.exception("%s %s failed", request.method, request.path)
                text = f"{request.path} failed in the node ({type(error).__name__}); its log says more"
                response = _failed("internal", text, 500)
            if not response.prepared:
                response.headers.update(_HEADERS)
            return response

        return middleware

    async def close(self, app: web.Application) -> None:
        if self.listening is not None:
            self.listening.close()
        self._feeds.close()

    # --- files ---------------------------------------------------------------------------------------------

    async def file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("name", "index.html")
        content = self._files.get(name)
        if content is None:
            raise web.HTTPNotFound
        return web.Response(body=content, content_type=_KINDS[Path(name).suffix], charset="utf-8")

    # --- who asks ------------------------------------------------------------------------------------------

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """A ticket for a token."""
        try:
            ticket = msgspec.json.decode(await request.read() or b"{}", type=dict[str, str]).get("ticket", "")
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UsageError(f"a way in: {error}") from None
        entered = self._server.sessions.enter(ticket)
        if entered is None:
            return _failed("denied", "this way in was used or is too old; ask for another: diana dashboard", 401)
        token, session = entered
        return _json({"token": token, "expiresWallS": session.until_wall_s})

    def _session(self, request: web.Request) -> Session:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        session = self._server.sessions.of(token) if kind == "Bearer" else None
        caller = self._server.by_now(session.caller) if session else None
        if session is None or caller is None:
            raise _NotIn("not let in, or no longer; ask for a way in: diana dashboard")
        return msgspec.structs.replace(session, caller=caller)

    def _viewer(self, request: web.Request) -> Session:
        session = self._session(request)
        if session.scope != PAGES:
            raise Denied(f"this token is for the {session.scope} alone; diana dashboard gives one for the pages")
        return session

    # --- calls ---------------------------------------------------------------------------------------------

    async def call(self, request: web.Request) -> web.StreamResponse:
        session = self._viewer(request)
        name = request.match_info["method"]
        if name not in CALLS:
            raise UsageError(f"call {name!r}: not through the dashboard; use the command line")
        method = METHODS[name]
        try:
            asked: Any = msgspec.json.decode(await request.read() or b"{}", type=method.request)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UsageError(f"{name}: {error}") from None
        if name == "Operate" and asked.order not in OPERATIONS:
            raise UsageError(f"site {asked.order}: not through the dashboard; use diana site {asked.order}")
        where = f"dashboard {request.remote}"
        if not method.streams_out:
            return _json(await self._api.call(session.caller, name, asked, where))
        # The first message decides whether it is a failure: after it the answer's head has gone.
        async with aclosing(self._api.stream(session.caller, name, asked, where)) as messages:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "application/x-ndjson"})
            try:
                async for message in messages:
                    if not response.prepared:
                        await response.prepare(request)
                    await _written(request, response, msgspec.json.encode(message) + b"\n")
            except DianaError as error:
                if not response.prepared:
                    raise
                await response.write(msgspec.json.encode({"failure": failure_of(error)}) + b"\n")
            if not response.prepared:
                await response.prepare(request)
            await response.write_eof()
        return response

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events; see `live.py`."""
        session = self._viewer(request)
        if self._feeds.full(session.caller):
            raise Overloaded("as many pages look at this node as it serves; close one, or look at another node", 10.0)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        left_s = session.until_wall_s - self._server.wall_s()
        try:
            async with asyncio.timeout(left_s), aclosing(self._feeds.of(session.caller).follow()) as events:
                async for name, data in events:
                    await _written(request, response, b"event: %s\ndata: %s\n\n" % (name.encode(), data))
        except (ConnectionError, TimeoutError):
            pass
        return response

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """The metrics, for what collects them; a page's token will do as well."""
        session = self._session(request)
        body, kind = await self._api.exposition(session.caller, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})


async def _written(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """ConnectionResetError, and the connection is gone, where the browser does not read on."""
    try:
        async with asyncio.timeout(UNREAD_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("nobody reads") from None


class _NotIn(Denied):
    """A browser that is to be let in first."""


_STATUS[_NotIn] = 401


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _refused(error: DianaError) -> web.Response:
    status = _STATUS.get(type(error), 400)
    response = _failed(error.code, str(error), status)
    if isinstance(error, Overloaded):
        response.headers["Retry-After"] = str(round(error.retry_after_s) or 1)
    return response


def _failed(code: str, text: str, status: int) -> web.Response:
    return web.Response(
        body=msgspec.json.encode({"failure": {"code": code, "text": text}}),
        status=status,
        content_type="application/json",
    )


def _files() -> dict[str, bytes]:
    """All that pages are made of, some ten kB."""
    return {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in _KINDS}
