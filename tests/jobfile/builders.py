"""Short ways to parse a job file in tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from diana.jobfile import ParsedFile, ParsedJob, parse_file
from diana.model.job.spec import GroupSpec
from diana.wire.client.messages import UploadedFile


class Blobs:
    """Content by its hash, as a node keeps it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.kept[sha256] = data
        return sha256

    def uploaded(self, path: str, data: bytes, executable: bool = False) -> UploadedFile:
        return UploadedFile(path=path, sha256=self.put(data), size_bytes=len(data), executable=executable)


def parse(
    text: str | bytes,
    format: str = "toml",
    options: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
    blobs: Blobs | None = None,
    source: str = "job",
) -> ParsedJob:
    """A file of one group; while it wants files, a `ParsedJob` that says which."""
    blobs = blobs or Blobs()
    sent = {path: blobs.uploaded(path, data) for path, data in (files or {}).items()}
    content = text.encode() if isinstance(text, str) else text
    return only_group(parse_file(content, format, source, options or {}, sent, blobs.put, blobs.kept.__getitem__))


def only_group(parsed: ParsedFile) -> ParsedJob:
    if parsed.needs_files:
        return ParsedJob(spec=GroupSpec(), jobs=0, refs=(), needs_files=parsed.needs_files)
    (group,) = parsed.groups
    return group
