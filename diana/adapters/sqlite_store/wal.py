"""Tells a write-ahead log torn by a crash from one that was damaged.

SQLite replays a log up to the first frame whose checksum is wrong and silently ignores the rest. This is right for
the tail of a transaction that was being written when the machine died, and wrong for a flipped bit: then commits
that were acknowledged would vanish without a word. The difference can be seen: a transaction is only written after
the one before it was fsynced, so a bad frame with two or more whole commits of the same log at or after it is damage.

Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_PAGE_BYTES = 4096
"""Page size of SQLite by default, which the store keeps; needed only where the header cannot be believed."""
_MASK = 0xFFFFFFFF


def damage(path: Path) -> str:
    """Return what is wrong with the log, without the file's name. Empty: whole, merely torn at its end, or not
    there."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) < _HEADER.size + _FRAME.size:
        return ""
    magic, _, page_bytes, _, salt_1, salt_2, sum_1, sum_2 = _HEADER.unpack_from(data)
    order = ">" if magic == _MAGIC | 1 else "<"
    if magic not in (_MAGIC, _MAGIC | 1) or _checksum(data[:24], order, (0, 0)) != (sum_1, sum_2):
        frames = _frames(data, _PAGE_BYTES)
        commits = _commits(frames, 0, _FRAME.unpack_from(data, _HEADER.size)[2:4])
        return f"its header is damaged and {commits} commits stand after it" if commits > 1 else ""
    frames = _frames(data, page_bytes)
    good = _good_frames(data, frames, page_bytes, order, (salt_1, salt_2), (sum_1, sum_2))
    commits = _commits(frames, good, (salt_1, salt_2))
    if commits < 2:
        return ""
    return f"frame {good + 1} of {len(frames)} is damaged and {commits} commits stand at or after it"


def _frames(data: bytes, page_bytes: int) -> list[tuple[int, ...]]:
    step = _FRAME.size + page_bytes
    return [_FRAME.unpack_from(data, at) for at in range(_HEADER.size, len(data) - step + 1, step)]


def _commits(frames: list[tuple[int, ...]], first: int, salts: tuple[int, ...]) -> int:
    """Count the frames from `first` on that end a transaction of the log with these salts."""
    return sum(frame[1] != 0 and frame[2:4] == salts for frame in frames[first:])


def _good_frames(
    data: bytes,
    frames: list[tuple[int, ...]],
    page_bytes: int,
    order: str,
    salts: tuple[int, int],
    sums: tuple[int, int],
) -> int:
    """Count the frames from the start that carry the log's salts and the right running checksum."""
    step = _FRAME.size + page_bytes
    for k, (page, _, salt_1, salt_2, sum_1, sum_2) in enumerate(frames):
        if (salt_1, salt_2) != salts or page == 0:
            return k
        at = _HEADER.size + k * step
        sums = _checksum(data[at : at + 8], order, sums)
        sums = _checksum(data[at + _FRAME.size : at + step], order, sums)
        if sums != (sum_1, sum_2):
            return k
    return len(frames)


def _checksum(data: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
