"""The spawner's socket. Only the newest connection that said Hello may give orders; an older one is closed, and what
it sent but was not read is dropped, before the newer gets its inventory."""

from __future__ import annotations

import os
import select
import socket
import struct
from pathlib import Path

from diana.adapters.lrm.spawner.protocol import Frames, Message, frame

SOCKET = "spawner.sock"
_READ_BYTES = 1 << 18
_MOST_UNSENT_BYTES = 64 << 20


def reachable(folder: Path) -> tuple[str, int]:
    """Return an address of the socket in `folder` that fits a socket address however deep the folder lies, and the
    descriptor to close after use."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{fd}/{SOCKET}", fd


class NodeConnection:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frames = Frames()
        self.unsent = bytearray()
        self.greeted = False


class Server:
    def __init__(self, folder: Path, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._links: dict[int, NodeConnection] = {}
        self.current: NodeConnection | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        (folder / SOCKET).unlink(missing_ok=True)
        address, fd = reachable(folder)
        try:
            self._listener.bind(address)
        finally:
            os.close(fd)
        (folder / SOCKET).chmod(0o600)
        self._listener.listen(8)
        epoll.register(self._listener.fileno(), select.EPOLLIN)

    def accept(self, fd: int) -> bool:
        """True if `fd` is the listener's; then let its caller in, of this account only."""
        if fd != self._listener.fileno():
            return False
        try:
            sock, _ = self._listener.accept()
        except OSError:
            # Gone already, or no descriptor left just now: the caller tries again.
            return True
        sock.setblocking(False)
        who = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", who)[1] != os.geteuid():
            sock.close()
            return True
        self._links[sock.fileno()] = NodeConnection(sock)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        return True

    def link(self, fd: int) -> NodeConnection | None:
        return self._links.get(fd)

    def read(self, link: NodeConnection) -> list[Message]:
        """Return the messages that came; close the link at its end or at nonsense."""
        try:
            data = link.sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""
        if not data:
            self.close(link)
            return []
        try:
            return list(link.frames.feed(data))
        except ValueError:
            # msgspec's errors are ValueErrors. A peer that speaks like that is not to be obeyed.
            self.close(link)
            return []

    def promote(self, link: NodeConnection) -> None:
        """Let `link` alone give orders from here on."""
        old, self.current = self.current, link
        if old is not None and old is not link:
            self.close(old)

    def send(self, link: NodeConnection, message: Message) -> None:
        link.unsent += frame(message)
        self.flush(link)

    def flush(self, link: NodeConnection) -> None:
        """Send what the socket takes; the rest when it is writable."""
        try:
            while link.unsent:
                done = link.sock.send(link.unsent)
                del link.unsent[:done]
        except (BlockingIOError, InterruptedError):
            if len(link.unsent) > _MOST_UNSENT_BYTES:
                # A node that does not read: it will be told all again when it connects anew.
                self.close(link)
                return
        except OSError:
            self.close(link)
            return
        flags = select.EPOLLIN | (select.EPOLLOUT if link.unsent else 0)
        self._epoll.modify(link.sock.fileno(), flags)

    def close(self, link: NodeConnection) -> None:
        fd = link.sock.fileno()
        if fd >= 0:
            self._links.pop(fd, None)
            # See Runner.exited: closing alone may leave it in the poll.
            self._epoll.unregister(fd)
            link.sock.close()
        if self.current is link:
            self.current = None
