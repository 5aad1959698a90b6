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
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from diana.adapters.loopback import free_addresses
from diana.errors import DianaError, UsageError
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.node.web.config import OFF, Web
from diana.node.web.sessions import PAGES, SCRAPER, Session, Sessions
from diana.wire.client.dashboard import DashboardRequest, DashboardResponse

if TYPE_CHECKING:
    from diana.node.api.service import Api

_log = logging.getLogger(__name__)

MOST_SCRAPER_S = 400 * 86400.0
BACKLOG = 64
AGAIN_S = 5.0
"""Seconds after which a server that did not come up is tried again, at the next knock."""
RENEWED_S = 60.0
"""Seconds between two looks at the certificate's files."""


class WebServer:
    """`loopback`: whether only this machine reaches it, then without TLS. `advertise`: host others reach this machine
    by, for the URL. `by_now`: what a user let in earlier may do by now; None: they are trusted no more."""

    def __init__(
        self,
        config: Web,
        paths: DataDir,
        api: Api,
        *,
        loopback: bool,
        advertise: str,
        by_now: Callable[[Principal], Principal | None] = lambda caller: caller,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.api = api
        self.by_now = by_now
        self.wall_s = wall_s
        self.sessions = Sessions(paths.web_key, wall_s)
        self.trouble = ""
        """Why it is not served although it should be."""
        self._paths = paths
        self._loopback = loopback
        self._host = advertise
        self._socket: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._site: Any = None
        self._tls: ssl.SSLContext | None = None
        self._tls_of: tuple[int, ...] = ()

    @property
    def port(self) -> int:
        return self.sessions.port

    # --- letting in ----------------------------------------------------------------------------------------

    def let_in(self, caller: Principal, request: DashboardRequest) -> DashboardResponse:
        if self._socket is None:
            why = self.trouble or "its operator says where with listen under [web] of site.toml"
            raise UsageError(f"this site shows no dashboard; {why}")
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
        """Listen; the port, 0: none is wanted. `last_port`: that of the node's last run, so that pages that are open
        find it again. `errors.UsageError` where it cannot be had."""
        if self.config.listen == OFF:
            return 0
        if not self._loopback:
            self.tls()
        host, _, port = self.config.listen.rpartition(":")
        self._socket = _listening(host.strip("[]"), int(port), last_port)
        self.sessions.port = self._socket.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._socket, self._knocked)
        return self.port

    async def stop(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._site is not None:
            await self._site.cleanup()
        self._socket.close()
        self._socket = None

    async def renew(self) -> None:
        """Look at the certificate until cancelled: certificates are renewed while the node runs."""
        while not self._loopback:
            await asyncio.sleep(RENEWED_S)
            try:
                self.tls()
            except UsageError as error:
                _log.error("the dashboard goes on with the certificate it had: %s", error)

    def tls(self) -> ssl.SSLContext:
        """Load the certificate as the files stand now, for the next handshake on. `errors.UsageError` where they are of
        no use."""
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
        assert self._socket is not None
        while True:
            try:
                # The import takes longer than a turn of the node's loop may.
                pages = await asyncio.to_thread(importlib.import_module, "diana.node.web.pages")
                self._site = await pages.serve(self, self._socket, None if self._loopback else self.tls())
                return
            except DianaError as error:
                _log.error("the dashboard does not come up: %s", error)
            except Exception:
                _log.exception("the dashboard does not come up")
            _turn_away(self._socket)
            await asyncio.sleep(AGAIN_S)


def _listening(host: str, port: int, last_port: int) -> socket.socket:
    tries = [port] if port else [last_port] * bool(last_port) + [int(free_addresses(1)[0].rpartition(":")[2]), 0]
    for attempt in tries:
        try:
            family = socket.getaddrinfo(host, attempt, type=socket.SOCK_STREAM)[0][0]
            made = socket.create_server((host, attempt), family=family, backlog=BACKLOG, reuse_port=False)
            made.setblocking(False)
            return made
        except OSError as error:
            if error.errno == errno.EADDRINUSE and attempt != tries[-1]:
                continue
            why = error.strerror or str(error)
            raise UsageError(
                f'site.toml:web.listen: cannot listen on {host}:{attempt} ({why.lower()}); choose another, or "none"'
            ) from None
    raise AssertionError


def _turn_away(listener: socket.socket) -> None:
    """Turn away those who wait to be served by a server that does not come up."""
    with suppress(OSError):
        for _ in range(BACKLOG):
            listener.accept()[0].close()
