"""This node's own way through its neighbours: a local socket per site that cannot be dialled. A connection made
there is joined with the site, by its offer here or by a relay; gRPC dials the socket like any other address."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import grpc

from diana.adapters.grpc.words import told
from diana.adapters.relay.ends import BREAKS, IDLE_S, CallEnd, NoWay, SocketEnd, TunnelEnd, join
from diana.adapters.relay.offers import TunnelOffers
from diana.adapters.tasks import begin, end
from diana.model.ids import SiteId
from diana.wire.pb import relay_pb2, relay_pb2_grpc

MOST_DOORS = 256
MOST_TUNNELS = 256
MOST_RELAYS = 4
"""Most relays tried one after the other for one connection."""
ANSWER_S = 10.0
_LONGEST_PATH = 100

_log = logging.getLogger("diana.relay")


class _Door:
    def __init__(self, path: Path, listening: socket.socket) -> None:
        self.path = path
        self.socket = listening
        self.server: asyncio.Server | None = None
        self.opening: asyncio.Task[None] | None = None
        self.open = 0
        """Number of tunnels through it now."""
        self.asked = 0
        """Number that orders doors by their last use."""
        self.through: SiteId | None = None
        """Site by which the newest tunnel went."""


class Doors:
    """Sockets `relay-SITE.sock`, 0600, in the node's control directory."""

    def __init__(
        self,
        folder: Path,
        site: SiteId,
        offers: TunnelOffers,
        *,
        relays: Callable[[SiteId], Iterable[SiteId]],
        channel_for: Callable[[SiteId], grpc.aio.Channel | None],
        idle_s: float = IDLE_S,
    ) -> None:
        """`relays`: sites that may relay to a site and that answer at their own address, best first. `channel_for`:
        a channel to such a one."""
        self._folder = folder
        self._site = site
        self._offers = offers
        self._relays = relays
        self._channel_for = channel_for
        self._idle_s = idle_s
        self._doors: dict[SiteId, _Door] = {}
        self._tunnels: set[asyncio.Task[None]] = set()
        self._asked = 0

    def address(self, site: SiteId) -> str:
        """Return the address that gRPC dials to be tunnelled to the site; empty when the site made no offer here and
        nobody might relay."""
        if site not in self._offers and not any(True for _ in self._relays(site)):
            return ""
        door = self._doors.get(site) or self._open(site)
        if door is None:
            return ""
        self._asked += 1
        door.asked = self._asked
        return f"unix:{door.path}"

    def tunnels(self) -> int:
        """Return the number of tunnels that stand now."""
        return len(self._tunnels)

    def through(self, site: SiteId) -> SiteId | None:
        """Return by whom the newest tunnel to it went: a relay, or this site by the offer it made here; None: none
        did."""
        door = self._doors.get(site)
        return door.through if door else None

    def _went(self, site: SiteId, through: SiteId) -> None:
        if door := self._doors.get(site):
            door.through = through

    async def stop(self) -> None:
        for site in list(self._doors):
            self._shut(site)
        await end(*self._tunnels)

    # --- sockets ----------------------------------------------------------------------------------

    def _open(self, site: SiteId) -> _Door | None:
        if len(self._doors) >= MOST_DOORS and not self._make_room():
            return None
        path = self._path(site)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.unlink(missing_ok=True)
            # Nobody else may connect, not even for a moment: bind takes the mode from the socket. The umask would be
            # that of all threads.
            os.fchmod(listening.fileno(), 0o600)
            listening.bind(str(path))
            listening.listen(16)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            _log.warning("no tunnel to %s: %s: %s", site, path, error.strerror or error)
            return None
        door = self._doors[site] = _Door(path, listening)
        # A caller that dials meanwhile waits in the socket's backlog.
        door.opening = begin(self._serve(site, door), f"the door to {site}")
        return door

    async def _serve(self, site: SiteId, door: _Door) -> None:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if len(self._tunnels) >= MOST_TUNNELS or task is None:
                writer.close()
                return
            self._tunnels.add(task)
            door.open += 1
            try:
                await self._carry(site, SocketEnd(reader, writer))
            except asyncio.CancelledError:
                # Only `stop` cancels; asyncio's streams would report it.
                writer.close()
            finally:
                door.open -= 1
                self._tunnels.discard(task)

        door.server = await asyncio.start_unix_server(accepted, sock=door.socket)

    def _path(self, site: SiteId) -> Path:
        path = self._folder / f"relay-{site}.sock"
        if len(str(path)) > _LONGEST_PATH:
            # The kernel takes 107 bytes; a digest of the name is as good as the name.
            path = self._folder / f"r{hashlib.sha256(site.encode()).hexdigest()[:8]}"
        return path

    def _make_room(self) -> bool:
        unused = [(door.asked, site) for site, door in self._doors.items() if not door.open]
        if unused:
            self._shut(min(unused)[1])
        return bool(unused)

    def _shut(self, site: SiteId) -> None:
        door = self._doors.pop(site)
        if door.opening is not None:
            door.opening.cancel()
        if door.server is not None:
            door.server.close()
        door.socket.close()
        with suppress(OSError):
            door.path.unlink(missing_ok=True)

    # --- tunnels ----------------------------------------------------------------------------------

    async def _carry(self, site: SiteId, near: SocketEnd) -> None:
        try:
            far = await self._far_end(site)
        except NoWay as error:
            _log.info("no tunnel to %s: %s", site, error)
            near.close()
            return
        try:
            await join(near, far, self._idle_s)
        finally:
            far.close()

    async def _far_end(self, site: SiteId) -> TunnelEnd:
        why = "nobody relays to it"
        if site in self._offers:
            try:
                end = await self._offers.connect(site, self._site)
                await end.write(b"")
                self._went(site, self._site)
                return end
            except NoWay as error:
                why = str(error)
            except BREAKS as error:
                why = f"{site}: {error}"
        for _, relay in zip(range(MOST_RELAYS), self._relays(site), strict=False):
            try:
                far = await self._through(relay, site)
                self._went(site, relay)
                return far
            except NoWay as error:
                why = str(error)
        raise NoWay(why)

    async def _through(self, relay: SiteId, site: SiteId) -> CallEnd:
        channel = self._channel_for(relay)
        if channel is None:
            raise NoWay(f"{relay} cannot be reached")
        stub = relay_pb2_grpc.RelayStub(channel)  # type: ignore[no-untyped-call]
        call = stub.Carry()
        try:
            async with asyncio.timeout(ANSWER_S):
                await call.write(relay_pb2.Chunk(target=site))
                if await call.read() is grpc.aio.EOF:
                    raise NoWay(f"{relay}: {await call.details() or 'it ended the call'}")
        except grpc.aio.AioRpcError as error:
            raise NoWay(f"{relay}: {told(error)}") from None
        except BREAKS as error:
            call.cancel()
            raise NoWay(f"{relay}: {error or 'no answer in time'}") from None
        except BaseException:
            call.cancel()
            raise
        return CallEnd(call)
