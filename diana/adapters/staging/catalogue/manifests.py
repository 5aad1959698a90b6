"""Manifests: the list of a dataset's files as text, one line `SIZE SHA256 NAME` each, sorted by name.

Its SHA-256 is the dataset's digest, so whoever knows the digest can take the list from anybody. A sender writes it
from its catalogue as it goes; a receiver keeps it as a file, in which a name is found by bisection.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue, Registered, manifest_text
from diana.adapters.staging.refs import sha256_hex
from diana.errors import UsageError

_LINE_MOST = 4096
"""Longer than any line can be: names have at most 2048 bytes."""


class ManifestEntry(NamedTuple):
    name: str
    size_bytes: int
    sha256: str


class ManifestText:
    """The manifest of a registered dataset, to be read from front to back; nothing of it is kept. Blocks."""

    frozen = False
    mtime_ns = 0

    def __init__(self, catalogue: Catalogue, registered: Registered) -> None:
        self.size_bytes = registered.manifest_bytes
        self.sha256 = registered.dataset.digest
        self._pages = catalogue.pages(registered.number)
        self._text = b""
        self._at = 0
        """Offset of `_text`."""

    def read(self, count: int, offset: int) -> bytes:
        """Return at most `count` bytes from `offset`, which does not go back; empty at the end, also of a dataset
        that was removed meanwhile."""
        while self._at + len(self._text) <= offset:
            self._at += len(self._text)
            page = next(self._pages, None)
            self._text = manifest_text(page) if page else b""
            if not page:
                return b""
        start = offset - self._at
        return self._text[start : start + count]

    def same(self) -> bool:
        return True

    def close(self) -> None:
        self._pages.close()


def entries(path: Path, page: int) -> Generator[list[ManifestEntry], None, None]:
    """The files of a verified manifest, in pages. UsageError for one that its author did not write as he should."""
    with open(path, "rb") as file:
        lines: list[ManifestEntry] = []
        while line := file.readline(_LINE_MOST):
            lines.append(_entry(line))
            if len(lines) == page:
                yield lines
                lines = []
        if lines:
            yield lines


def find(path: Path, name: str) -> ManifestEntry | None:
    """The file of that name, by bisection."""
    sought = name.encode()
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            low, high = 0, len(text)
            while low < high:
                start = text.rfind(b"\n", low, (low + high) // 2) + 1 or low
                end = text.find(b"\n", start) + 1
                if not end:
                    return None
                line = text[start:end]
                here = line.split(b" ", 2)[2][:-1]
                if here == sought:
                    return _entry(line)
                if here < sought:
                    low = end
                else:
                    high = start
    return None


def _entry(line: bytes) -> ManifestEntry:
    fields = line.split(b" ", 2)
    try:
        size, sha256, name = fields[0], sha256_hex(fields[1].decode()), fields[2].decode()
        parts_of(name[:-1])
        if not size.isdigit() or not name.endswith("\n"):
            raise ValueError
    except (IndexError, ValueError, BadName):
        raise UsageError(
            f"line {line[:120]!a} of a manifest: want SIZE SHA256 NAME; register the dataset again"
        ) from None
    return ManifestEntry(name[:-1], int(size), sha256)
