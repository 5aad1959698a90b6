"""Bounds on the size and depth of whatever is handed in, kept before a parser sees it: a table, and what keeps it.

Parsers descend on the stack of C, take the square of a line's length, or unpack a kilobyte into a disk full of zeros;
errors here are ValueErrors of one line, which the caller completes with the file's name and the mend.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

MOST_DEPTH = 64
"""Levels of a structured text; the deepest of ours, a job file, has five."""
MOST_JOB_FILE_BYTES = 64 << 20
MOST_TOML_BYTES = 4 << 20
"""Settings, policies, credentials, and scenarios without their tables."""
MOST_MANIFEST_BYTES = 64 << 20
MOST_TABLE_BYTES = 256 << 20
"""Unpacked CSV of a scenario or a job file."""
MOST_ROW_BYTES = 2 << 20
"""One row of a group's table, as its blob has it: no program is given more arguments and variables than that."""
MOST_GRAPH_BYTES = 64 << 20
"""Unpacked GraphML; its reader builds it whole."""
MOST_TRACE_BYTES = 8 << 30
"""Unpacked SWF, which is read line by line."""
MOST_LINE_BYTES = 1 << 16
"""One line of a trace, or of what a batch system prints."""
MOST_KEY_BYTES = 16_384
"""A private key or a chain of certificates."""
MOST_NOTE_BYTES = 1 << 20
"""A small file that a node or a machine keeps beside its journal: a mark, a note, a list of names."""
MOST_OUTPUT_BYTES = 64 << 20
"""Output of one command of a batch system: 200,000 jobs at 300 bytes."""
MOST_COUNT = 1 << 53
"""Largest count a batch system may tell; beyond it a float is no longer every whole number."""

TOO_DEEP = f"nested too deeply; want at most {MOST_DEPTH} levels"

T = TypeVar("T")

_MOST_WORDS = 300
_PACKED = (OSError, EOFError, zlib.error)
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*+(?:{_PART}\.[ \t]*+){{{MOST_DEPTH}}}", re.MULTILINE)


def content_of(path: Path | str, most: int) -> bytes:
    """Read a file of at most `most` bytes. OSError, ValueError."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {_size(most)}")
    return content


def text_of(path: Path | str, most: int) -> str:
    """Read a file of UTF-8 text. OSError, ValueError, of which UnicodeDecodeError is one."""
    return content_of(path, most).decode("utf-8")


def end_of(path: Path, most: int) -> bytes:
    """Read the last `most` bytes of a file that grows. OSError."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, io.SEEK_END) - most))
        return file.read(most)


def deep_key(text: str) -> str:
    """Why the keys of a TOML text are too much, which cost the square of their dots; empty: they are not."""
    found = _DEEP_KEY.search(text)
    return f"line {text.count(chr(10), 0, found.end()) + 1}: {TOO_DEEP}" if found else ""


def toml_of(text: str) -> dict[str, Any]:
    """Parse TOML. ValueError, of which tomllib's own is one."""
    import tomllib

    if why := deep_key(text):
        raise ValueError(why)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def json_of(text: str | bytes) -> Any:
    """Parse JSON. ValueError."""
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode with msgspec, which descends also into what it passes over, and quotes what it does not know. ValueError
    of one line."""
    try:
        return decode(data)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())[:_MOST_WORDS]) from None


def check_xml(content: bytes | IO[bytes]) -> None:
    """Read XML without building it: it is no deeper than MOST_DEPTH and declares no entities, which write out to more
    than they are. ValueError."""
    from xml.parsers import expat

    parser = expat.ParserCreate()
    depth = 0

    def begun(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(TOO_DEEP)

    def ended(*_: object) -> None:
        nonlocal depth
        depth -= 1

    def declared(*_: object) -> None:
        raise ValueError("declares entities; write out what they stand for")

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = begun, ended, declared
    try:
        if isinstance(content, bytes):
            parser.Parse(content, True)
        else:
            parser.ParseFile(content)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from None


def count_of(text: str) -> int:
    """A count from 0 to MOST_COUNT, in ASCII digits. ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_COUNT)) and int(text) <= MOST_COUNT):
        raise ValueError(f"{text[:40]!r}: no count up to {MOST_COUNT}")
    return int(text)


class Damaged(ValueError):
    """Packed data cannot be unpacked."""


class BoundedStream(io.RawIOBase):
    """The bytes of a stream, unpacked if it packs them, as far as they go. ValueError beyond `most`; Damaged for packed
    data that break off or were changed."""

    def __init__(self, beneath: BinaryIO | gzip.GzipFile | bz2.BZ2File, most: int) -> None:
        self._beneath = beneath
        self._left = self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._beneath.read(len(buffer))
        except _PACKED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Damaged(f"packed data are damaged: {error}") from None
        self._left -= len(found)
        if self._left < 0:
            raise ValueError(f"more than {_size(self._most)} unpacked")
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._beneath.close()
        super().close()


def opened(path: Path, most: int) -> io.BufferedReader:
    """Open a file for reading, unpacked where its name ends in .gz or .bz2. OSError; ValueError while it is read."""
    beneath: BinaryIO | gzip.GzipFile | bz2.BZ2File
    # Closed with what stands over it.
    if path.suffix == ".gz":
        beneath = gzip.open(path, "rb")  # noqa: SIM115
    else:
        beneath = bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb")  # noqa: SIM115
    return io.BufferedReader(BoundedStream(beneath, most), 1 << 18)


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
