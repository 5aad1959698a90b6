"""The claim log: append-only, framed and checksummed, rewritten when most of it is forgotten.

Frame: two magic bytes, length and CRC-32 of the payload (4 bytes each, big-endian), payload. A frame that
a crash left half-written at the end was never acted upon and is cut; damage followed by good frames is refused,
because a claim that cannot be read could be started a second time.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from diana.adapters.lrm.spawner.claims.records import Record, decode, encode, version_of

_MAGIC = b"\xd1\xa7"
_HEAD = 10


class LogDamaged(Exception):
    """One line: file, place, mend."""


def _framed(payload: bytes) -> bytes:
    return _MAGIC + len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def _payload_at(data: bytes, at: int) -> bytes | None:
    """The payload of the good frame that begins at `at`, if there is one."""
    if data[at : at + 2] != _MAGIC or len(data) - at < _HEAD:
        return None
    size = int.from_bytes(data[at + 2 : at + 6], "big")
    payload = data[at + _HEAD : at + _HEAD + size]
    if len(payload) != size or zlib.crc32(payload) != int.from_bytes(data[at + 6 : at + _HEAD], "big"):
        return None
    return payload


def read(path: Path) -> list[Record]:
    """All whole records; [] where there is no log yet. LogDamaged, records.LogNewer."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    out: list[Record] = []
    version = 0
    at = 0
    while (payload := _payload_at(data, at)) is not None:
        version = version or version_of(payload)
        out.append(decode(payload, version))
        at += _HEAD + len(payload)
    after = at + 1
    while (after := data.find(_MAGIC, after)) >= 0:
        if _payload_at(data, after) is not None:
            raise LogDamaged(
                f"{path}: damaged at byte {at}, whole records follow; see what ran here, then move the file away"
            )
        after += 1
    return out


class ClaimLog:
    """Open for writing. An OSError means stop: an fsync is never retried (PROMISES section 3)."""

    def __init__(self, path: Path, records: Iterable[Record]) -> None:
        self._path = path
        self._fd = -1
        self._pending = bytearray()
        self.size_bytes = 0
        self.rewrite(records)

    def add(self, record: Record) -> None:
        """Into the next `write`."""
        self._pending += _framed(encode(record))

    def write(self) -> None:
        """Out of this process's hands; survives its death, not the machine's."""
        if self._pending:
            done = os.write(self._fd, self._pending)
            if done != len(self._pending):
                raise OSError(f"{self._path}: short write, the disk is full")
            self.size_bytes += done
            self._pending.clear()

    @property
    def fd(self) -> int:
        """Valid until the next `rewrite`."""
        return self._fd

    def sync(self) -> None:
        """Durable, with all that was written before."""
        self.write()
        os.fdatasync(self._fd)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Put `records` in place of all that stands there, atomically and durably."""
        spare = self._path.with_suffix(".new")
        data = b"".join(_framed(encode(record)) for record in records)
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, data) != len(data):
                raise OSError(f"{spare}: short write, the disk is full")
            os.fsync(fd)
            os.replace(spare, self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            os.close(fd)
            raise
        self.close()
        self._fd = fd
        self._pending.clear()
        self.size_bytes = len(data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
