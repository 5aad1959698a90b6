"""The mark of how far the claim log went, written beside it, as `journal.mark` is beside the journal.

A log whose end was cut off, or that was deleted, looks whole or new. The mark says how many records it held: all that
were written, which counts while the machine is up, for a page that the kernel has outlives any kill; and those that
were synced, which counts after a power cut as well. It is written after the log, so it never says too much.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from diana.bounds import MOST_NOTE_BYTES, content_of, decoded

_SIZE = 192
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LogMark(msgspec.Struct):
    """The last word of a mark. `log`: identity of the log it is about."""

    log: str
    boot: str
    written: int
    synced: int

    def least(self, boot: str) -> int:
        """Return how many records the log has at least, seen from that boot of the machine."""
        return self.written if boot and boot == self.boot else self.synced


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LogMark).decode


def beside(log: Path) -> Path:
    return log.with_suffix(".mark")


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_mark(log: Path) -> LogMark | None:
    """Return the mark beside a log; None where there is none that can be read."""
    try:
        return decoded(_decode, content_of(beside(log), MOST_NOTE_BYTES))
    except (OSError, ValueError):
        return None


class MarkFile:
    """A mark open for writing. One that cannot be written stays behind, and then tells less."""

    def __init__(self, log: Path) -> None:
        self._fd = os.open(beside(log), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._boot = boot_id()

    def write(self, log: str, written: int, synced: int) -> None:
        said = _encode(LogMark(log, self._boot, written, synced)).ljust(_SIZE - 1) + b"\n"
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, said, 0)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
