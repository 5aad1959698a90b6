"""The local way in: the client service as JSON frames on a unix socket, the caller's uid vouched for by the kernel.

Anyone who may open the socket may send anything, so everything is bounded: connections, the size of a frame, the
bytes of large frames in hand at once, and the time a half-sent frame or an unread answer may take.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import Counter
from contextlib import suppress
from pathlib import Path

from diana.adapters.tasks import end
from diana.errors import Overloaded
from diana.node.api.service import Api
from diana.node.supervisor import tell_ready
from diana.node.ways_in.control_calls import Conversation, Limits
from diana.node.ways_in.users import LocalUsers
from diana.wire.client.failures import failure_of
from diana.wire.frames import failure_frame

_log = logging.getLogger(__name__)

SOCKET_MODE = 0o660
FOLDER_MODE = 0o750
_PEERCRED = struct.Struct("iII")
_LONGEST_PATH_BYTES = 107


class ControlServer:
    """Serves `api` at `path` from `start` to `stop`. The folder is made if needed; a socket left by a killed node is
    replaced, which is safe because the data directory's lock is held."""

    def __init__(self, path: Path, api: Api, users: LocalUsers, limits: Limits | None = None) -> None:
        self.path = path
        self._api = api
        self._users = users
        self._limits = limits or Limits()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], Conversation] = {}
        self._by_uid: Counter[int] = Counter()

    async def start(self) -> None:
        listener = bind(self.path)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=1 << 18)
        tell_ready()

    async def stop(self, grace_s: float = 2.0) -> None:
        """No new connections. Calls that change something get `grace_s` to end, idle connections and streams none."""
        if self._server is None:
            return
        self._server.close()
        with suppress(FileNotFoundError):
            self.path.unlink()
        working = {task for task, conversation in self._open.items() if conversation.working}
        for task in self._open.keys() - working:
            task.cancel()
        if working:
            await asyncio.wait(working, timeout=grace_s)
        await end(*self._open)

    @property
    def connections(self) -> int:
        return len(self._open)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pid, uid = peer(writer.get_extra_info("socket"))
        try:
            if len(self._open) >= self._limits.connections or self._by_uid[uid] >= self._limits.connections_per_uid:
                busy = Overloaded("the node has as many local connections as it takes; try again shortly", 1.0)
                writer.write(failure_frame(failure_of(busy)))
                return
            talk = Conversation(reader, writer, self._api, self._users.of_process(pid, uid), self._limits, f"uid {uid}")
            self._open[task] = talk
            self._by_uid[uid] += 1
            try:
                await talk.run()
            finally:
                del self._open[task]
                self._by_uid[uid] -= 1
                if not self._by_uid[uid]:
                    del self._by_uid[uid]
        except (ConnectionError, TimeoutError):
            pass
        except asyncio.CancelledError:
            # Only `stop` cancels; a cancelled handler would be reported as an error by asyncio's streams.
            pass
        except Exception:
            _log.exception("a local connection of uid %d failed", uid)
        finally:
            writer.close()


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and uid that opened the connection, from the kernel."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(packed)
    return pid, uid


def bind(path: Path) -> socket.socket:
    """A listening socket at `path`, however long, with the modes that keep strangers out from the first moment."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    os.chmod(path.parent, FOLDER_MODE)
    with suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), SOCKET_MODE)
        if len(os.fsencode(path)) <= _LONGEST_PATH_BYTES:
            listener.bind(os.fspath(path))
        else:
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            finally:
                os.close(folder)
        os.chmod(path, SOCKET_MODE)
        listener.listen(128)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
