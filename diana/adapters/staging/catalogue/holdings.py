"""The files that this site can serve and to whom: from a reference and a reader to an open, checked file.

The reader is what the transport proved, never what a request says. Default deny.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from diana.adapters.file_names import parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue, LocalFile
from diana.adapters.staging.catalogue.manifests import ManifestText
from diana.adapters.staging.catalogue.replicas import Replicas
from diana.adapters.staging.paths import NotPlain, absolute_parts, files_below, open_file
from diana.adapters.staging.refs import (
    BlobRef,
    DatasetRef,
    FileRef,
    GatheredRef,
    LiveRef,
    LogRef,
    ManifestRef,
    OutputRef,
    PastRef,
    Ref,
    WholeRef,
    parse_ref,
    sha256_hex,
)
from diana.errors import Denied, DianaError, Unreachable, UsageError
from diana.model.ids import SiteId, group_of, origin_of
from diana.model.layout import DataDir


class DataReader(NamedTuple):
    """The identity that reads, as the transport proved it. `kind` is `site` or `member`; any other may not read."""

    kind: str
    name: str


UNKNOWN_BYTES = 1 << 62
"""Size of content that ends where it ends."""


class NotHere(Unreachable):
    """The lack of what was asked for: this site does not hold it, or no longer as it was."""


class Content(Protocol):
    """Content that is served; the caller closes it."""

    size_bytes: int
    """Size, or UNKNOWN_BYTES."""
    sha256: str
    """SHA-256 of it; empty where the receiver knows better."""

    def read(self, count: int, offset: int) -> bytes:
        """Read, from front to back; empty at the end."""
        ...

    def same(self) -> bool:
        """True if it is still what it was when it was opened."""
        ...

    def close(self) -> None: ...


class OpenedFile:
    """An open file."""

    __slots__ = ("_frozen", "_mtime_ns", "fd", "sha256", "size_bytes")

    def __init__(self, fd: int, *, sha256: str, frozen: bool) -> None:
        """`frozen`: a change while it is read is an error (logs may grow)."""
        status = os.fstat(fd)
        self.fd = fd
        self.sha256 = sha256
        self.size_bytes = status.st_size
        self._mtime_ns = status.st_mtime_ns
        self._frozen = frozen
        with suppress(OSError):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read(self, count: int, offset: int) -> bytes:
        return os.pread(self.fd, count, offset)

    def is_as(self, known: LocalFile) -> bool:
        return (self.size_bytes, self._mtime_ns) == (known.size_bytes, known.mtime_ns)

    def same(self) -> bool:
        now = os.fstat(self.fd)
        return not self._frozen or (now.st_size, now.st_mtime_ns) == (self.size_bytes, self._mtime_ns)

    def close(self) -> None:
        os.close(self.fd)


class FileNames:
    """The names of the regular files below a folder, one a line; links are not followed, hidden files not shown."""

    sha256 = ""

    def __init__(self, root: Path) -> None:
        names = sorted(files_below(root)) if root.is_dir() else []
        self._text = "".join(f"{name}\n" for name in names if name.isprintable()).encode()
        self.size_bytes = len(self._text)

    def read(self, count: int, offset: int) -> bytes:
        return self._text[offset : offset + count]

    def same(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: nothing is open."""


class LocalData:
    """Methods block: call them from a data thread."""

    def __init__(self, data: DataDir, site: SiteId, catalogue: Catalogue, replicas: Replicas) -> None:
        self.data = data
        self.site = site
        self.catalogue = catalogue
        self.replicas = replicas
        self.member_may_read: Callable[[str, str, str], bool] = lambda *_: False
        """Tells whether this site gave that machine of its own an order that names the reference, with this content."""
        self.running: Callable[[LiveRef], Content] | None = None
        """Opens logs of jobs that run at this site."""
        self.past: Callable[[PastRef, SiteId], Content] | None = None
        """Opens this site's history for another site."""
        self.elsewhere: Callable[[str], Content] | None = None
        """Opens outputs and logs of this site where else they may lie (`outputs/beside.py`)."""

    def open(self, text: str, reader: DataReader, sha256: str = "") -> Content:
        """Open a reference. Denied, NotHere or UsageError, each naming the reference and this site. With `sha256`
        open that content of a dataset's file, also from the cache."""
        try:
            ref = parse_ref(text)
            self._authorise(ref, text, reader, sha256)
            if isinstance(ref, PastRef):
                if self.past is None:
                    raise NotHere(f"history: none is told at site {self.site}")
                return self.past(ref, SiteId(reader.name))
            return self._open(ref, text, sha256_hex(sha256) if sha256 else "")
        except FileNotFoundError:
            if self.elsewhere is not None and isinstance(ref, OutputRef | LogRef):
                return self.elsewhere(text)
            raise NotHere(f"{text}: not at site {self.site}") from None
        except NotPlain:
            raise NotHere(f"{text}: not a regular file at site {self.site}; register a regular file") from None
        except OSError as fault:
            raise NotHere(f"{text}: {fault.strerror} at site {self.site}") from None

    def _authorise(self, ref: Ref, text: str, reader: DataReader, sha256: str) -> None:
        if reader.kind == "site":
            if isinstance(ref, DatasetRef | WholeRef | ManifestRef | BlobRef) or reader.name == self.site:
                return
            if isinstance(ref, PastRef):
                # Its token says for whom, and whoever opens it judges that.
                return
            if not isinstance(ref, GatheredRef):
                group = ref.group if isinstance(ref, LogRef) else group_of(ref.subgroup)
                if reader.name == origin_of(group):
                    return
        home, _, machine = reader.name.partition("/")
        if reader.kind == "member" and home == self.site and self.member_may_read(machine, text, sha256):
            return
        raise Denied(f"{text}: {reader.kind or 'nobody'} {reader.name} may not read it at site {self.site}")

    def _open(self, ref: FileRef, text: str, sha256: str) -> Content:
        match ref:
            case DatasetRef():
                return self._open_dataset(ref, sha256)
            case WholeRef():
                raise UsageError(f"{text}: a whole dataset is read file by file; name one of them")
            case ManifestRef(digest):
                return self._open_manifest(digest)
            case BlobRef(sha256):
                return self._open_blob(sha256)
            case OutputRef(subgroup, epoch, name):
                fd = open_file(self.data.collected(subgroup, epoch), parts_of(name))
                return OpenedFile(fd, sha256="", frozen=True)
            case LogRef(_, segment):
                return OpenedFile(open_file(self.data.logs_root, parts_of(segment)), sha256="", frozen=False)
            case LiveRef():
                if self.running is None:
                    raise NotHere(f"{text}: no jobs run at site {self.site}")
                return self.running(ref)
            case GatheredRef(group, name):
                folder = self.data.gathered(group)
                if not name:
                    return FileNames(folder)
                return OpenedFile(open_file(folder, parts_of(name)), sha256="", frozen=True)

    def _open_dataset(self, ref: DatasetRef, sha256: str) -> OpenedFile:
        text = f"dataset:{ref.dataset}/{ref.file}"
        known = self.catalogue.file(ref.dataset, ref.file, ref.version, sha256)
        if known is not None:
            with suppress(OSError):
                opened = OpenedFile(
                    open_file(Path("/"), absolute_parts(str(known.path))), sha256=known.sha256, frozen=True
                )
                if opened.is_as(known):
                    return opened
                opened.close()
        if sha256 and (cached := self._open_cached(ref, sha256)):
            return cached
        if known is not None:
            raise self._trouble(known, text)
        raise NotHere(f"{text}: not registered at site {self.site}" + (" with that content" if sha256 else ""))

    def _trouble(self, known: LocalFile, text: str) -> DianaError:
        """Return why a registered file cannot be had."""
        try:
            os.close(open_file(Path("/"), absolute_parts(str(known.path))))
        except NotPlain:
            return NotHere(f"{text}: not a regular file at site {self.site}; register a regular file")
        except OSError as fault:
            return NotHere(
                f"{text}: {fault.strerror} at site {self.site} ({known.path}); put it back or register it anew"
            )
        return changed(text, self.site)

    def _open_cached(self, ref: DatasetRef, sha256: str) -> OpenedFile | None:
        with suppress(FileNotFoundError):
            return self._open_blob(sha256)
        with suppress(FileNotFoundError):
            fd = self.replicas.open(ref.dataset, ref.file, sha256)
            return OpenedFile(fd, sha256=sha256, frozen=True) if fd is not None else None
        return None

    def _open_manifest(self, digest: str) -> Content:
        registered = self.catalogue.by_digest(digest)
        if registered is not None:
            return ManifestText(self.catalogue, registered)
        path = self.data.manifest(digest)
        return OpenedFile(open_file(path.parent, (path.name,)), sha256=digest, frozen=True)

    def _open_blob(self, sha256: str) -> OpenedFile:
        try:
            fd = open_file(self.data.blob(sha256).parent, (sha256,))
        except FileNotFoundError:
            fd = open_file(self.data.cached(sha256).parent, (sha256,))
        return OpenedFile(fd, sha256=sha256, frozen=True)

    def local_path(self, text: str, sha256: str) -> Path | None:
        """Return the path of this site's own copy of that content, if it has one that is as it was registered."""
        ref = parse_ref(text)
        trouble: DianaError | None = None
        if isinstance(ref, DatasetRef) and (known := self.catalogue.file(ref.dataset, ref.file, 0, sha256)):
            trouble = self.trouble_of(known, f"dataset:{ref.dataset}/{ref.file}")
            if trouble is None:
                return known.path
        for path in (self.data.blob(sha256), self.data.cached(sha256)):
            if path.is_file():
                return path
        if trouble is not None:
            raise trouble
        return None

    def trouble_of(self, known: LocalFile, text: str) -> DianaError | None:
        """Return why a registered file cannot be used as it was registered; None: it can."""
        try:
            fd = open_file(Path("/"), absolute_parts(str(known.path)))
        except OSError:
            return self._trouble(known, text)
        opened = OpenedFile(fd, sha256=known.sha256, frozen=True)
        opened.close()
        return None if opened.is_as(known) else changed(text, self.site)


def changed(text: str, site: SiteId) -> DianaError:
    return UsageError(
        f"{text}: changed at site {site} since it was registered; put it back or register it under a new name"
    )
