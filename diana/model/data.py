"""Datasets, blobs and what moving them needs."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """One file by its logical name. `ref` is `dataset:NAME/FILE` or `blob:SHA256`."""

    ref: str
    size_bytes: int
    sha256: str


class Fetch(msgspec.Struct, frozen=True, array_like=True):
    """One file to have at hand, and the sites that hold a replica, best first.

    A site that finds itself among `sources` serves it from its own copy.
    """

    file: DataFile
    sources: tuple[SiteId, ...]


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A named, immutable list of files living at a site. `files` is sorted by name."""

    name: str
    files: tuple[DataFile, ...]

    def size_bytes(self) -> int:
        return sum(f.size_bytes for f in self.files)


def dataset_of(ref: str) -> str:
    """`dataset:NAME/FILE` or `dataset:NAME` -> NAME; empty for other refs."""
    scheme, _, rest = ref.partition(":")
    return rest.partition("/")[0] if scheme == "dataset" else ""
