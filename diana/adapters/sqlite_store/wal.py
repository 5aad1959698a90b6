"""Tells a write-ahead log torn by a crash from one that was damaged.

SQLite replays a log up to the first frame whose checksum is wrong and silently ignores the rest. That is right for
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
_MASK = 0xFFFFFFFF


def damage(path: Path) -> str:
    """Empty: whole, merely torn at its end, or not there. Else what is wrong, without the file's name."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) < _HEADER.size:
        return ""
    magic, _, page_bytes, _, salt_1, salt_2, sum_1, sum_2 = _HEADER.unpack_from(data)
    order = ">" if magic == _MAGIC | 1 else "<"
    if magic not in (_MAGIC, _MAGIC | 1) or _checksum(data[:24], order, (0, 0)) != (sum_1, sum_2):
        # A log starts anew by overwriting its header before anything of it is fsynced: this may be a torn write.
        return ""
    step = _FRAME.size + page_bytes
    frames = [_FRAME.unpack_from(data, at) for at in range(_HEADER.size, len(data) - step + 1, step)]
    good = _good_frames(data, step, frames, order, (salt_1, salt_2), (sum_1, sum_2))
    commits = [k for k in range(good, len(frames)) if frames[k][1] != 0 and frames[k][2:4] == (salt_1, salt_2)]
    if len(commits) < 2:
        return ""
    return f"frame {good + 1} of {len(frames)} is damaged and {len(commits)} commits stand at or after it"


def _good_frames(
    data: bytes,
    step: int,
    frames: list[tuple[int, ...]],
    order: str,
    salts: tuple[int, int],
    sums: tuple[int, int],
) -> int:
    """How many frames from the start carry the log's salts and the right running checksum."""
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
