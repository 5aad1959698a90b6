"""A network of unlike links for real nodes on one machine: TCP proxies that pace, delay and cut what sites send.

Each machine gets a proxy before its port, whose address its node tells the others. Which site a connection comes from
is looked up by its socket, so that every pair of sites has a link of its own. No privileges are needed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

CHUNK_BYTES = 32 << 10
"""Bytes passed on at once; what waits behind them waits no longer than they take."""
SOCKET_BYTES = 64 << 10
"""Bytes of the kernel's buffers: few, so that a sender feels the link and not the memory before it."""


class Shape(NamedTuple):
    bytes_per_s: float
    latency_s: float
    """Latency one way."""


class _Lane:
    """One direction of one link; all connections between the two sites share it."""

    def __init__(self, shape: Shape, whole: asyncio.Event) -> None:
        self.shape = shape
        self.whole = whole
        """Set while the link is not cut."""
        self._free_s = 0.0
        self.bytes = 0

    def take(self, size_bytes: int, now_s: float) -> float:
        """Send these bytes over the lane; returns the time at which the last of them has left."""
        self._free_s = max(now_s, self._free_s) + size_bytes / self.shape.bytes_per_s
        self.bytes += size_bytes
        return self._free_s


class ShapedLinks:
    """`shape_of` tells the link between two sites, `nodes` which processes belong to which site now."""

    def __init__(self, shape_of: Callable[[str, str], Shape], nodes: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._shape_of = shape_of
        self._nodes = nodes
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._whole: dict[frozenset[str], asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        self.faults: list[str] = []
        """Faults of ours, one line each."""

    def close(self) -> None:
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def open(self, site: str, address: str) -> str:
        """A proxy before a machine of this site that listens at `address`, or will; the proxy's own address."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            # The loop itself holds tasks weakly, and one that waits for its own sockets alone would be collected.
            self._serving.add(task)
            # Only `close` cancels it; a cancelled one would make asyncio complain.
            with suppress(asyncio.CancelledError):
                await self._serve(site, address, reader, writer)
            self._serving.discard(task)

        listener = socket.create_server(("127.0.0.1", 0))
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            listener.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        port: int = listener.getsockname()[1]
        starting = asyncio.start_server(serve, sock=listener, limit=CHUNK_BYTES)
        self._servers.append(asyncio.run_coroutine_threadsafe(starting, self._loop).result(10))
        return f"127.0.0.1:{port}"

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Cut these links: bytes on their way stay there, and so do those sent now, until the link is whole or its ends
        give up."""
        for pair in pairs:
            self._loop.call_soon_threadsafe(self._event(*pair).clear)

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            self._loop.call_soon_threadsafe(self._event(*pair).set)

    def moved_bytes(self) -> int:
        """Bytes over all links so far, messages included."""
        return sum(lane.bytes for lane in self._lanes.values())

    def _event(self, a: str, b: str) -> asyncio.Event:
        pair = frozenset((a, b))
        if pair not in self._whole:
            self._whole[pair] = asyncio.Event()
            self._loop.call_soon_threadsafe(self._whole[pair].set)
        return self._whole[pair]

    def _lane(self, source: str, to: str) -> _Lane:
        if (source, to) not in self._lanes:
            self._lanes[source, to] = _Lane(self._shape_of(source, to), self._event(source, to))
        return self._lanes[source, to]

    async def _serve(self, site: str, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far: asyncio.StreamWriter | None = None
        try:
            caller = self._caller(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1])
            if caller is None:
                return
            out, home = self._lane(caller, site), self._lane(site, caller)
            await out.whole.wait()
            host, _, port = address.rpartition(":")
            behind = socket.socket()
            behind.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
            behind.setblocking(False)
            try:
                await self._loop.sock_connect(behind, (host, int(port)))
            except BaseException:
                # Its node does not listen (yet).
                behind.close()
                raise
            back, far = await asyncio.open_connection(sock=behind, limit=CHUNK_BYTES)
            await asyncio.gather(self._pass_on(reader, far, out), self._pass_on(back, writer, home))
        except OSError:
            pass
        except Exception as fault:
            self.faults.append(f"link to {site}: {fault!r}")
        finally:
            for end in (writer, far):
                if end is not None:
                    end.close()

    def _caller(self, port: int, proxy: int) -> str | None:
        """The site whose node's socket has this local port and is connected to this proxy's; None: it is gone, or no
        node's."""
        inode = _inode(port, proxy)
        for site, pid in self._nodes():
            if inode and f"socket:[{inode}]" in _open_files(pid):
                return site
        return None

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: _Lane) -> None:
        """Pass on until either end is closed. Reads on while what it read is still on its way."""
        on_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(on_way, writer, lane))
        try:
            while not delivering.done():
                data = await reader.read(CHUNK_BYTES)
                if not data:
                    break
                left_s = lane.take(len(data), self._loop.time())
                on_way.put_nowait((left_s + lane.shape.latency_s, data))
                await asyncio.sleep(left_s - self._loop.time())
                await lane.whole.wait()
        except asyncio.CancelledError:
            delivering.cancel()
            raise
        finally:
            # Also where the sender is gone all at once: what it had sent is on its way.
            on_way.put_nowait((self._loop.time() + lane.shape.latency_s, b""))
            with suppress(OSError, asyncio.CancelledError):
                await delivering
            with suppress(OSError):
                writer.close()

    async def _deliver(
        self, on_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, lane: _Lane
    ) -> None:
        while True:
            at_s, data = await on_way.get()
            await asyncio.sleep(at_s - self._loop.time())
            await lane.whole.wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _inode(port: int, to: int) -> str:
    """Inode of the socket on this machine that is bound to a local port and connected to another; "": there is none.

    Both ports are asked for: the system gives one local port to connections with several ends, and one that is closed
    but lingers has no inode. Clients may use IPv6 sockets for IPv4. The tables are no snapshot: a line may be missing
    while others go.
    """
    for table in ("/proc/net/tcp6", "/proc/net/tcp") * 2:
        with suppress(FileNotFoundError), open(table) as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[2].endswith(f":{to:04X}"):
                    return fields[9]
    return ""


def _open_files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found
