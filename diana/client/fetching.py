"""Putting fetched outputs on disk: a file appears under its name only whole and verified."""

from __future__ import annotations

import hashlib
import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from diana.errors import DianaError, UsageError
from diana.wire.client.messages import FetchChunk

if TYPE_CHECKING:
    from diana.client.where import StrPath

_number = itertools.count()
"""Tells apart what this process fetches at the same time: long names may begin alike."""


class FolderWriter:
    """Feed it the chunks of a Fetch in order; the first one makes the folder. `close` removes what is not whole.

    A name never leads outside the folder, not even through a link that stands there.
    """

    def __init__(self, folder: StrPath) -> None:
        self._folder = Path(folder)
        self._name = ""
        self._part: Path | None = None
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self.paths: list[Path] = []

    def feed(self, chunk: FetchChunk) -> None:
        try:
            if self._file is None:
                self._begin(chunk.name)
            elif chunk.name != self._name:
                # It turned out to be another than was gathered, which the node says at the end.
                self.close()
                self._begin(chunk.name)
            assert self._file is not None
            self._file.write(chunk.data)
            self._digest.update(chunk.data)
            if chunk.last:
                self._finish(chunk)
        except OSError as error:
            raise UsageError(
                f"{self._folder / chunk.name}: {error.strerror}; choose another folder or mend this one"
            ) from None

    def _begin(self, name: str) -> None:
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise DianaError(f"the node sent an output named {name!r}, which leaves the folder")
        target = self._folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.parent.resolve().is_relative_to(self._folder.resolve()):
            raise UsageError(f"{target}: a link leads out of {self._folder}; remove it")
        self._name = name
        self._part = target.parent / f".{target.name[:40]}.{os.getpid()}.{next(_number)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            self._part.unlink()
        self._file = os.fdopen(os.open(self._part, flags, 0o666), "wb")
        self._digest = hashlib.sha256()

    def _finish(self, chunk: FetchChunk) -> None:
        assert self._file is not None and self._part is not None
        if self._digest.hexdigest() != chunk.sha256:
            raise DianaError(f"output {chunk.name} arrived damaged (its SHA-256 differs); fetch it again")
        self._file.close()
        target = self._folder.joinpath(*chunk.name.split("/"))
        os.replace(self._part, target)
        self._file, self._part = None, None
        self.paths.append(target)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._part is not None:
            with suppress(FileNotFoundError):
                self._part.unlink()
        self._file, self._part = None, None
