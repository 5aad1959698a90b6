"""The dashboard's socket. It listens from the node's start; what answers is loaded when somebody first knocks, so that
a node nobody looks at pays for neither memory nor start-up time."""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diana.adapters.loopback import free_addresses
from diana.errors import UsageError
from diana.model.layout import DataDir
from diana.model.principal import Principal
from diana.node.web.config import OFF, Web
from diana.node.web.sessions import PAGES, SCRAPER, Session, Sessions
from diana.wire.client_messages import DashboardRequest, DashboardResponse

if TYPE_CHECKING:
    from diana.node.api import Api

_log = logging.getLogger(__name__)

MOST_SCRAPER_S = 10 * 365 * 86400.0
BACKLOG = 64


class WebServer:
    """`loopback`: whether only this machine reaches it, then without TLS. `advertise`: host others reach this machine
    by, for the URL."""

    def __init__(
        self,
        config: Web,
        paths: DataDir,
        api: Api,
        *,
        loopback: bool,
        advertise: str,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.api = api
        self.wall_s = wall_s
        self.sessions = Sessions(paths.web_key, wall_s)
        self._paths = paths
        self._loopback = loopback
        self._host = advertise
        self._socket: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._site: Any = None
        self._tls: ssl.SSLContext | None = None
        self._tls_of: tuple[int, ...] = ()
        self.port = 0

    # --- letting in ----------------------------------------------------------------------------------------

    def let_in(self, caller: Principal, request: DashboardRequest) -> DashboardResponse:
        if self._socket is None:
            raise UsageError(
                "this site shows no dashboard; its operator says where with listen under [web] of site.toml"
            )
        most_s = self.config.session_hours * 3600 if request.scope in ("", PAGES) else MOST_SCRAPER_S
        for_s = request.for_s or self.config.session_hours * 3600
        if not 0 < for_s <= most_s:
            raise UsageError(f"dashboard: {for_s:g} s is out of range; want at most {most_s:g}")
        base = f"{'http' if self._loopback else 'https'}://{self._host}:{self.port}"
        until = self.wall_s() + for_s
        if request.scope in ("", PAGES):
            ticket = self.sessions.ticket(caller, for_s)
            return DashboardResponse(url=f"{base}/#enter={ticket}", expires_wall_s=until)
        if request.scope != SCRAPER:
            raise UsageError(f"dashboard: no scope {request.scope!r}; want {PAGES} or {SCRAPER}")
        token = self.sessions.token(Session(caller, SCRAPER, until))
        return DashboardResponse(url=f"{base}/metrics", token=token, expires_wall_s=until)

    # --- serving -------------------------------------------------------------------------------------------

    def start(self, last_port: int) -> int:
        """Listen; the port. `last_port`: that of the node's last run, so that pages that are open find it again.
        `errors.UsageError` where it cannot be had."""
        if self.config.listen == OFF:
            return 0
        if not self._loopback:
            self.tls()
        host, _, port = self.config.listen.rpartition(":")
        self._socket = _listening(host.strip("[]"), int(port), last_port)
        self.port = self._socket.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._socket, self._knocked)
        return self.port

    async def stop(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._site is not None:
            await self._site.cleanup()
        self._socket.close()
        self._socket = None

    def tls(self) -> ssl.SSLContext:
        """As the files stand now: certificates are renewed while the node runs."""
        keys = self._paths.keys
        certificate, key = self.config.certificate or keys / "site.pem", self.config.key or keys / "site.key"
        try:
            stamp = tuple(os.stat(file).st_mtime_ns for file in (certificate, key))
            if self._tls is None:
                self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            if stamp != self._tls_of:
                self._tls.load_cert_chain(certificate, key)
                self._tls_of = stamp
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"site.toml:web.certificate: {certificate} and its key cannot be used ({error}); name PEM files that "
                'belong together, or listen = "127.0.0.1:0"'
            ) from None
        return self._tls

    def _knocked(self) -> None:
        assert self._socket is not None
        asyncio.get_running_loop().remove_reader(self._socket)
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        try:
            # The import takes longer than a turn of the node's loop may.
            pages = await asyncio.to_thread(importlib.import_module, "diana.node.web.pages")
            self._site = await pages.serve(self, self._socket, None if self._loopback else self.tls())
        except Exception:
            _log.exception("the dashboard does not come up")


def _listening(host: str, port: int, last_port: int) -> socket.socket:
    tries = [port] if port else [last_port] * bool(last_port) + [int(free_addresses(1)[0].rpartition(":")[2]), 0]
    for attempt in tries:
        try:
            family = socket.getaddrinfo(host, attempt, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, attempt), family=family, backlog=BACKLOG, reuse_port=False)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and attempt != tries[-1]:
                continue
            why = error.strerror or str(error)
            raise UsageError(
                f'site.toml:web.listen: cannot listen on {host}:{attempt} ({why.lower()}); choose another, or "none"'
            ) from None
    raise AssertionError
