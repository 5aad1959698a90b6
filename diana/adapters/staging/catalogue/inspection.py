"""Looking at what is registered and cached here: lists for operators, and reading all again to see what changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from diana.adapters.staging.catalogue.catalogue import Catalogue, LocalFile, Registered
from diana.adapters.staging.catalogue.manifests import entries
from diana.adapters.staging.catalogue.registration import FoundFile, RegistrationStopped, hash_one
from diana.errors import DianaError, UsageError
from diana.model.data import DataFile, VerifyProgress
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.views.datasets import Dataset

_PAGE = 500
MOST_TOLD = 1000
"""Changed files named; of more only the number is told."""


def rows(catalogue: Catalogue, name: str = "", version: int = 0) -> list[Dataset]:
    """Blocks. Registered versions, then what was brought here from other sites; of one name or of all."""
    changed = catalogue.changed()
    found = [r for r in catalogue.versions(name) if not version or r.dataset.version == version]
    out = [_registered(each, each.number in changed) for each in found]
    for replica in () if version else catalogue.all_replicas():
        if not name or replica.name == name:
            state = "cached" if replica.complete else "partial"
            out.append(
                Dataset(name=replica.name, files=-1, size_bytes=replica.size_bytes, digest=replica.digest, state=state)
            )
    return out


def _registered(each: Registered, changed: bool) -> Dataset:
    d = each.dataset
    return Dataset(
        name=d.name,
        files=d.files,
        size_bytes=d.size_bytes,
        version=d.version,
        state="changed" if changed else "registered",
        digest=d.digest,
    )


def files(data: DataDir, catalogue: Catalogue, name: str, version: int = 0) -> Iterator[list[DataFile]]:
    """Blocks. In pages, by name. UsageError for a dataset that is not here."""
    registered = catalogue.registered(name, version)
    if registered is not None:
        for page in catalogue.pages(registered.number):
            yield [DataFile(f"dataset:{name}/{f.name}", f.size_bytes, f.sha256) for f in page]
        return
    replicas = [] if version else catalogue.replicas([name])
    if not replicas:
        raise UsageError(f"dataset {name}: not at this site")
    for some in entries(data.manifest(replicas[0].digest), _PAGE):
        yield [DataFile(f"dataset:{name}/{e.name}", e.size_bytes, e.sha256) for e in some]


def verify(
    catalogue: Catalogue, registered: Registered, site: SiteId, stopping: threading.Event
) -> Iterator[VerifyProgress]:
    """Blocks. Read every file again; the dataset counts as changed as long as one of its files does. Stopped."""
    done = size_bytes = bad = 0
    for page in catalogue.pages(registered.number):
        for at in range(0, len(page), _PAGE):
            some = page[at : at + _PAGE]
            lines = [line for file in some if (line := _difference(registered, file, site, stopping))]
            done += len(some)
            size_bytes += sum(file.size_bytes for file in some)
            told = lines[: max(0, MOST_TOLD - bad)]
            bad += len(lines)
            yield VerifyProgress(done, size_bytes, tuple(told))
    catalogue.note_changed(registered.number, bool(bad))


def _difference(registered: Registered, file: LocalFile, site: SiteId, stopping: threading.Event) -> str:
    """One line; empty: it is as it was."""
    name = f"dataset:{registered.dataset.name}/{file.name}"
    try:
        now = hash_one(FoundFile(file.name, file.root), stopping)
    except RegistrationStopped:
        raise
    except DianaError as fault:
        return f"{name}: {fault}"
    if (now.size_bytes, now.sha256) != (file.size_bytes, file.sha256):
        return f"{name}: other content at site {site} ({now.size_bytes} bytes, registered with {file.size_bytes})"
    if now.mtime_ns != file.mtime_ns:
        return f"{name}: the same content with another time at site {site}; add the dataset again to refresh it"
    return ""
