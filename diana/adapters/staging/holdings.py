"""What this site can serve and to whom: from a reference and a reader to an open, checked file.

The reader is what the transport proved, never what a request says. Default deny.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from diana.adapters.staging.catalogue import Catalogue, LocalFile
from diana.adapters.staging.paths import NotPlain, absolute_parts, open_file
from diana.adapters.staging.refs import BlobRef, DatasetRef, LogRef, OutputRef, Ref, parse_ref, parts_of
from diana.errors import Denied, DianaError, Unreachable, UsageError
from diana.model.ids import SiteId, group_of, origin_of
from diana.model.layout import DataDir


class Reader(NamedTuple):
    """Who reads, as the transport proved it. `kind` is `site`, or anything else for those who may not."""

    kind: str
    name: str


class NotHere(Unreachable):
    """This site does not hold what was asked for, or no longer as it was."""


class Opened(NamedTuple):
    """An open file of the caller's to close. `sha256` is empty where the receiver knows better."""

    fd: int
    size_bytes: int
    mtime_ns: int
    sha256: str
    frozen: bool
    """A change while it is read is an error (logs may grow)."""


class Holdings:
    """Methods block: call them from a data thread."""

    def __init__(self, data: DataDir, site: SiteId, catalogue: Catalogue) -> None:
        self.data = data
        self.site = site
        self.catalogue = catalogue

    def open(self, text: str, reader: Reader) -> Opened:
        """Denied, NotHere or UsageError, each naming the reference and this site."""
        try:
            ref = parse_ref(text)
            self._authorise(ref, text, reader)
            return self._open(ref)
        except FileNotFoundError:
            raise NotHere(f"{text}: not at site {self.site}") from None
        except NotPlain:
            raise NotHere(f"{text}: not a regular file at site {self.site}; register a regular file") from None
        except OSError as fault:
            raise NotHere(f"{text}: {fault.strerror} at site {self.site}") from None

    def _authorise(self, ref: Ref, text: str, reader: Reader) -> None:
        if reader.kind == "site":
            if isinstance(ref, DatasetRef | BlobRef) or reader.name == self.site:
                return
            group = ref.group if isinstance(ref, LogRef) else group_of(ref.subgroup)
            if reader.name == origin_of(group):
                return
        raise Denied(f"{text}: {reader.kind or 'nobody'} {reader.name} may not read it at site {self.site}")

    def _open(self, ref: Ref) -> Opened:
        match ref:
            case DatasetRef(dataset, file):
                return self._open_dataset(dataset, file)
            case BlobRef(sha256):
                return self._open_blob(sha256)
            case OutputRef(subgroup, epoch, name):
                fd = open_file(self.data.collected(subgroup, epoch), parts_of(name))
                return _opened(fd, sha256="", frozen=True)
            case LogRef(_, segment):
                return _opened(open_file(self.data.logs_root, parts_of(segment)), sha256="", frozen=False)

    def _open_dataset(self, dataset: str, name: str) -> Opened:
        known = self.catalogue.file(dataset, name)
        if known is None:
            raise NotHere(f"dataset:{dataset}/{name}: not registered at site {self.site}")
        fd = open_file(Path("/"), absolute_parts(str(known.path)))
        return _guarded(fd, lambda: self._unchanged(dataset, known, fd))

    def _unchanged(self, dataset: str, known: LocalFile, fd: int) -> Opened:
        opened = _opened(fd, sha256=known.sha256, frozen=True)
        if (opened.size_bytes, opened.mtime_ns) != (known.size_bytes, known.mtime_ns):
            raise changed(f"dataset:{dataset}/{known.name}", self.site)
        return opened

    def _open_blob(self, sha256: str) -> Opened:
        try:
            fd = open_file(self.data.blob(sha256).parent, (sha256,))
        except FileNotFoundError:
            fd = open_file(self.data.cached(sha256).parent, (sha256,))
        return _opened(fd, sha256=sha256, frozen=True)

    def local_path(self, text: str, sha256: str) -> Path | None:
        """Where this site's own copy of that content lies, if it has one that is as it was registered."""
        ref = parse_ref(text)
        if isinstance(ref, DatasetRef):
            known = self.catalogue.file(ref.dataset, ref.file)
            if known is not None and known.sha256 == sha256:
                os.close(self._open_dataset(ref.dataset, ref.file).fd)
                return known.path
        for path in (self.data.blob(sha256), self.data.cached(sha256)):
            if path.is_file():
                return path
        return None


def changed(text: str, site: SiteId) -> DianaError:
    return UsageError(
        f"{text}: changed at site {site} since it was registered; put it back or register it under a new name"
    )


def _opened(fd: int, *, sha256: str, frozen: bool) -> Opened:
    status = os.fstat(fd)
    return Opened(fd, status.st_size, status.st_mtime_ns, sha256, frozen)


def _guarded(fd: int, check: Callable[[], Opened]) -> Opened:
    try:
        return check()
    except BaseException:
        os.close(fd)
        raise
