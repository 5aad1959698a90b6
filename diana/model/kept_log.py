"""The kept part of a log that is longer than its limit: the head, a line that says how much is left out, the tail.

Positions count the bytes that the job wrote; a head takes half of the limit, the tail the other half, so that both the
beginning of a job and its last words can be read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from diana.bounds import decoded
from diana.model.facts import MOST_SECONDS

MARK_BYTES = 128
"""Most bytes of the line; a log longer than its limit by no more than these is kept whole."""

_MARK = re.compile(rb"\n\[diana: ([0-9]{1,19}) bytes left out here; log_limit is [0-9]{1,19} bytes\]\n")


class LeftOut(NamedTuple):
    """The stretch of a log that is left out, from `start` to `stop`."""

    start: int
    stop: int


MOST_SHOWN_BYTES = 1 << 18
"""Most bytes of a running job's log in one answer."""

WAITS, RUNS, ENDED, OWN_FILES, UNKNOWN = "waits", "runs", "ended", "own files", "unknown"


class LiveLog(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the log of a job that has not ended, as the machine where it runs shows it."""

    stand: str
    """WAITS: it has not begun. RUNS. ENDED: its end is being told. OWN_FILES: it runs, and writes to files of its own.
    UNKNOWN: `note` says why."""
    attempt: int = 0
    start: int = 0
    """Position of `data` among all bytes that the job wrote."""
    size: int = 0
    """Bytes that it has written."""
    data: bytes = b""
    note: str = ""
    limit: int = 0
    """Bytes that are kept of it."""
    runs_for_s: float = 0.0
    """Seconds since it began; 0: it has not, or its machine does not say."""


_decode = msgspec.msgpack.Decoder(LiveLog).decode


def encode_live(log: LiveLog) -> bytes:
    return msgspec.msgpack.encode(log)


def decode_live(data: bytes) -> LiveLog:
    """Decode what another site sent; ValueError for nonsense."""
    log = decoded(_decode, data)
    if min(log.attempt, log.start, log.size) < 0 or len(log.data) > MOST_SHOWN_BYTES:
        raise ValueError("a log of negative size, or more of it than was asked")
    if not 0 <= log.runs_for_s <= MOST_SECONDS:
        raise ValueError("a time that no clock shows")
    return log


def head_bytes(limit: int) -> int:
    return limit // 2


def gap_in(size: int, limit: int) -> LeftOut | None:
    """Return what a log of `size` bytes loses under this limit; None: nothing."""
    if size <= limit + MARK_BYTES:
        return None
    head = head_bytes(limit)
    return LeftOut(head, size - (limit - head))


def mark(left_out: int, limit: int) -> bytes:
    """Return the line that stands where so many bytes are left out."""
    return b"\n[diana: %d bytes left out here; log_limit is %d bytes]\n" % (left_out, limit)


def find_mark(data: bytes) -> tuple[int, int, int] | None:
    """Return (place, bytes left out, length) of the first such line in `data`; None: there is none."""
    found = _MARK.search(data)
    return (found.start(), int(found[1]), found.end() - found.start()) if found else None


def last_lines(data: bytes, lines: int) -> int:
    """Return where the last so many lines of `data` begin."""
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def marked(data: bytes) -> tuple[int, int]:
    """Return (bytes left out, length of the line) as the line at the beginning of `data` says; (0, 0): there is
    none."""
    found = _MARK.match(data)
    return (int(found[1]), found.end()) if found else (0, 0)
