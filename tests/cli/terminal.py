"""A pseudo-terminal of a given size, for tests of what people see: what a command writes there, and keys it gets."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

CONTROL = re.compile(r"\x1b\[[0-9;?>=]*\$?[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]|\x1b\][^\x07]*\x07|\x1bP[^\x1b]*\x1b\\")


class Terminal:
    """A command with its three streams on a terminal. Use it as a context: whatever still runs is killed at its end."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        given = {**os.environ, **(environment or {}), "TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES"):
            given.pop(name, None)
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=given, start_new_session=True
        )
        os.close(slave)
        self.raw = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        os.close(self._master)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read(self, for_s: float = 0.1) -> bool:
        """Takes what comes within the time; False: the other end is closed."""
        ready, _, _ = select.select([self._master], [], [], for_s)
        if not ready:
            return True
        try:
            some = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw += some
        return bool(some)

    def until(self, words: str, within_s: float = 60.0) -> None:
        """Waits until the screen, from here on, shows the words."""
        start, end_s = len(self.raw), time.monotonic() + within_s
        while words not in CONTROL.sub("", self.raw[start:].decode(errors="replace")):
            assert time.monotonic() < end_s, f"no {words!r} within {within_s:g} s: {self.text()[-2000:]}"
            assert self.read() or words in self.text(), f"it ended without {words!r}: {self.text()[-2000:]}"

    def ended(self, within_s: float = 60.0) -> int:
        """Its exit code."""
        end_s = time.monotonic() + within_s
        while self.read() and time.monotonic() < end_s:
            pass
        return self.process.wait(max(0.1, end_s - time.monotonic()))

    def text(self) -> str:
        """All that was written, without control sequences."""
        return CONTROL.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")
