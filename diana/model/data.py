"""Datasets, blobs and what moving them needs."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """One unit of data by its logical name: a file (`dataset:NAME/FILE`, `blob:SHA256`, `url:URL`), or a whole dataset
    (`dataset:NAME`), however many files it has: then `size_bytes` is their sum and `sha256` the digest of its manifest
    (names, sizes and hashes of its files)."""

    ref: str
    size_bytes: int
    sha256: str


class Fetch(msgspec.Struct, frozen=True, array_like=True):
    """One file to have at hand, and the sites that hold a replica, best first.

    A site that finds itself among `sources` serves it from its own copy.
    """

    file: DataFile
    sources: tuple[SiteId, ...]


class RegisteredDataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as its site announces it: a named, immutable list of files that lives there. The site's catalogue lists
    the files themselves."""

    name: str
    digest: str
    """SHA-256 over the names, sizes and hashes of its files, in order of name: equal at every site with equal files."""
    files: int
    size_bytes: int
    version: int = 1
    """Number of the contents among those registered here under this name, from 1."""

    @property
    def unit(self) -> DataFile:
        """The whole dataset as one unit of data."""
        return DataFile(f"dataset:{self.name}", self.size_bytes, self.digest)


class VerifyProgress(msgspec.Struct, frozen=True, array_like=True):
    """Progress of reading a dataset again to verify it."""

    files: int
    size_bytes: int
    changed: tuple[str, ...]
    """One line for each file found changed since the last report."""


def dataset_of(ref: str) -> str:
    """`dataset:NAME[@VERSION][/FILE]` -> NAME; empty for other refs."""
    scheme, _, rest = ref.partition(":")
    return rest.partition("/")[0].partition("@")[0] if scheme == "dataset" else ""


def newest_of(ref: str) -> str:
    """NAME where the ref means whatever version is the newest; empty for a given version and for other refs."""
    name = dataset_of(ref)
    return "" if ref.partition("/")[0] != f"dataset:{name}" else name
