"""The synchronous way to a node on this machine: JSON frames over its unix socket, connections kept for reuse."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from diana.client.where import LONGEST_PATH_BYTES, SOCKET, answer_limit_s, cannot_connect, too_slow, went_away
from diana.errors import DianaError
from diana.wire import frames
from diana.wire.client.failures import error_of


class LocalWire:
    """Threads may share one; each call has a connection of its own while it lasts."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._idle: deque[_Connection] = deque()
        self.sign = None
        """The kernel vouches for the caller, and the site for her."""

    def call(self, method: str, request: object) -> Any:
        link = self._open(answer_limit_s(method))
        with link:
            link.send(frames.call_frame(method, request))
            answer = frames.read_response(method, link.read().response)
        self._idle.append(link)
        return answer

    def upload(self, requests: Iterable[object]) -> None:
        link = self._open(answer_limit_s("Upload"))
        with link:
            try:
                for number, request in enumerate(requests):
                    link.send(frames.more_frame(request) if number else frames.call_frame("Upload", request))
                link.send(frames.end_frame())
            except OSError:
                pass  # The node ended the call early; its frame says why.
            link.read()
        self._idle.append(link)

    def stream(self, method: str, request: object) -> Iterator[Any]:
        """Closing the generator early closes the connection, which ends the work at the node."""
        link = self._open(None)
        with link:
            link.send(frames.call_frame(method, request))
            while True:
                answer = link.read()
                if answer.end:
                    break
                yield frames.read_response(method, answer.response)
        self._idle.append(link)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _open(self, limit_s: float | None) -> _Connection:
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            if link.alive():
                link.limit(limit_s)
                return link
            link.close()
        link = _Connection(self._data)
        link.limit(limit_s)
        return link


class _Connection:
    """One socket. As a context manager it closes itself when the body fails or is left early."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._limit_s: float | None = None
        self._buffer = bytearray()
        try:
            self._socket = connect(os.path.join(data, SOCKET))
        except OSError as error:
            raise cannot_connect(data, error) from None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            return
        self.close()
        if isinstance(error, TimeoutError):
            raise too_slow(self._data, self._limit_s or 0.0) from None
        if isinstance(error, ConnectionError):
            raise went_away(self._data) from None

    def limit(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._socket.settimeout(limit_s)

    def alive(self) -> bool:
        """False when the node closed it, or said something nobody asked. Set a limit afterwards."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> frames.FromNode:
        """The next frame; a failure in it is raised, and ends the call."""
        length = frames.frame_length(self._exactly(frames.HEADER_BYTES))
        try:
            answer = frames.read_from_node(self._exactly(length))
        except ValueError as error:
            raise DianaError(f"the node at {self._data} answered what is no frame of diana's: {error}") from None
        if answer.failure is not None:
            raise error_of(answer.failure)
        return answer

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self._socket.recv(max(1 << 16, count - len(self._buffer)))
            if not data:
                raise ConnectionResetError("end of stream")
            self._buffer += data
        out = bytes(self._buffer[:count])
        del self._buffer[:count]
        return out

    def close(self) -> None:
        self._socket.close()


def connect(path: str) -> socket.socket:
    """A connected unix socket, however long its path. OSError when nobody listens."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
            link.connect(path)
        else:
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                link.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            finally:
                os.close(folder)
    except BaseException:
        link.close()
        raise
    return link
