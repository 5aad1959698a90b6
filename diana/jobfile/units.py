"""Sizes, durations, index ranges and commands as people write them. Every function raises ValueError with the mend."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kKmMgGtTpP])(i?B?|B)?|B)?\Z")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d*)?)\s*d(?:ays?)?)?\s*(?:(\d+(?:\.\d*)?)\s*h(?:(?:ou)?rs?)?)?"
    r"\s*(?:(\d+(?:\.\d*)?)\s*m(?:in(?:ute)?s?)?)?\s*(?:(\d+(?:\.\d*)?)\s*s(?:ec(?:ond)?s?)?)?"
    r"\s*(?:(\d+(?:\.\d*)?)\s*ms)?\Z",
    re.ASCII,
)
_SECONDS = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?\Z")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?\Z")
_RANGE = re.compile(r"\s*(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?\s*\Z")

_SHELL = frozenset({"|", "||", "&", "&&", ">", ">>", "<", "2>", "2>&1", "&>"})
MOST_BYTES = 1 << 60
LEAST_MEMORY_BYTES = 1 << 20
LONGEST_S = 1e9
MOST_LISTED = 100_000
"""Most indices of several ranges, or of one with zeros in front; any other may have any number."""
MOST_LISTED_FIRST = 1_000_000
"""The same of the first swept name, whose values travel once, apart from the group."""


def size_bytes(value: str | int, bare: str = "B") -> int:
    """`8G` -> bytes. `bare` is the unit of text without one (Slurm's memory: `M`)."""
    if isinstance(value, str):
        text = value.strip()
        found = _SIZE.match(text + bare if text.isdecimal() else text)
        if not found:
            raise ValueError(f'{value!r} is no size; write a number and a unit, such as "500M" or "8G"')
        number, unit, suffix = found.groups()
        base = 1000 if suffix == "B" else 1024
        size = float(number) * base ** (_POWERS[unit.upper()] if unit else 0)
    else:
        size = value
    if not 0 <= size <= MOST_BYTES:
        raise ValueError(f"{value!r} is out of range; want 0 to 1024P")
    return int(size)


def memory_bytes(value: str | int) -> int:
    """The size of a job's memory; 0: no limit. A number that lacks its unit is too small for any process."""
    size = size_bytes(value)
    if 0 < size < LEAST_MEMORY_BYTES:
        raise ValueError(f"{value!r} is {size:,} bytes, too few for a process; write a unit, such as 500M or 8G")
    return size


def duration_s(value: str | float) -> float:
    """`1h30m`, `90s`, `2min`, `500ms`, `1:30:00`, `1-12` (days and hours) or a number of seconds, as text too ->
    seconds."""
    if not isinstance(value, str) or _SECONDS.match(value.strip()):
        seconds = float(value)
    else:
        # Runs of blanks could be divided among the pattern's parts in very many ways.
        text = " ".join(value.split())
        found = _DURATION.match(text) if text else None
        clock = _CLOCK.match(text) if ":" in text or "-" in text else None
        if found:
            days, hours, minutes, rest, ms = (float(part or 0) for part in found.groups())
            seconds = days * 86400 + hours * 3600 + minutes * 60 + rest + ms / 1000
        elif clock:
            seconds = slurm_time_s(text)
        else:
            shown = repr(text[:MOST_TIME])
            raise ValueError(f'{shown} is no duration; write units, such as "90s", "30m" or "1h30m", or "1:30:00"')
    if not (math.isfinite(seconds) and 0 <= seconds <= LONGEST_S):
        raise ValueError(f"{value!r} is out of range; want 0 to {LONGEST_S:.0f} seconds")
    return seconds


MOST_TIME = 40
"""Characters; a time of a thousand years has fewer."""
_NO_LIMIT = frozenset({"UNLIMITED", "INFINITE", "-1"})


def slurm_time_s(text: str) -> float:
    """Read a duration as sbatch does: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]];
    0: no limit, for which there are words, too."""
    if text.strip().upper() in _NO_LIMIT:
        return 0.0
    found = _CLOCK.match(text.strip())
    if not found or len(text) > MOST_TIME:
        raise ValueError(f"{text!r} is no time; write MINUTES, MM:SS, HH:MM:SS or DAYS-HH:MM:SS")
    days, first, second, third = (int(part) if part else None for part in found.groups())
    assert first is not None  # The pattern demands it.
    hours, minutes, seconds = (first, second, third) if days is not None or third is not None else (None, first, second)
    named = (("hours", hours, 24), ("minutes", minutes, 60), ("seconds", seconds, 60))
    begun = days is not None
    for unit, count, most in named:
        if count is not None and begun and count >= most:
            raise ValueError(f"{text!r} has {count} {unit}; write at most {most - 1}, and the rest in the part before")
        begun = begun or count is not None
    return float((((days or 0) * 24 + (hours or 0)) * 60 + (minutes or 0)) * 60 + (seconds or 0))


class IndexRange(NamedTuple):
    """The indices start, start + step, ... below stop."""

    start: int
    stop: int
    step: int
    digits: int = 0
    """They are written with so many at least, by zeros in front."""

    @property
    def numbers(self) -> range:
        return range(self.start, self.stop, self.step)

    @property
    def texts(self) -> Iterator[str]:
        return (str(number).zfill(self.digits) for number in self.numbers)


def spans(text: str) -> list[IndexRange]:
    """Read `1-5000`, `0-100:5` (both ends belong to it), or several separated by commas."""
    out = []
    for part in text.split(","):
        found = _RANGE.match(part)
        if not found:
            raise ValueError(f'{text!r} is no range; write "1-100", "0-100:5", "1,4,7-9", or a list of values')
        start = int(found[1])
        last = int(found[2] or start)
        step = int(found[3] or 1)
        if step < 1:
            raise ValueError(f"{text!r}: a step of 0; write a step of at least 1")
        if last < start:
            raise ValueError(f"{text!r} runs backwards and is empty; write the smaller number first")
        out.append(IndexRange(start, last + 1, step, _digits(found[1], found[2] or found[1])))
    return out


def _digits(first: str, last: str) -> int:
    """Digits of each number of a range, where its ends are written with zeros in front; 0: they are not."""
    if not any(len(end) > 1 and end.startswith("0") for end in (first, last)):
        return 0
    if str(int(last)).zfill(len(first)) != last:
        most = max(len(first), len(last))
        raise ValueError(
            f"'{first}-{last}': zeros in front of one end alone; write both with as many digits, such as"
            f" {first.zfill(most)}-{last.zfill(most)}"
        )
    return len(first)


def listed(parts: list[IndexRange], most: int) -> list[str]:
    """The members of several ranges as they are written, in the order written, once each."""
    if sum(len(part.numbers) for part in parts) > most:
        raise ValueError(
            f"more than {most} indices in a list of ranges, or with zeros in front; write one range without, or list"
            " the rows in a CSV file"
        )
    return list(dict.fromkeys(text for part in parts for text in part.texts))


def split_command(text: str, key: str) -> tuple[str, ...]:
    """Split words as a shell does. ValueError for text that only a shell would understand."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{key}: {str(error).lower()}; close the quotation, or write a list of words") from None
    for word in words:
        if word in _SHELL:
            raise ValueError(
                f'{key}: {word!r} needs a shell and there is none; write a script, or a list: ["sh", "-c", "..."]'
            )
    return words
