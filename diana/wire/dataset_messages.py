"""What the client service says of datasets."""

from __future__ import annotations

from diana.wire.client_base import Base as _Message


class Dataset(_Message, frozen=True):
    name: str
    site: str = ""
    files: int = 0
    """-1: known by name only, from the site's summary."""
    size_bytes: int = 0
    version: int = 0
    """Of the contents registered at that site under the name, from 1; 0: not known."""
    state: str = ""
    """registered; changed (since it was registered); cached (brought from elsewhere, may go); partial (the same, not
    all of it yet)."""
    digest: str = ""
    """SHA-256 of its list of files; empty: not known."""


class DatasetsResponse(_Message, frozen=True):
    datasets: tuple[Dataset, ...] = ()


class DatasetAddRequest(_Message, frozen=True):
    """Paths are the node's own: files, or directories taken with all below them. Operators only."""

    name: str
    paths: tuple[str, ...] = ()
    new_version: bool = False
    """Other content under a name that stands becomes its newest version."""


class DatasetRequest(_Message, frozen=True):
    name: str
    """`NAME`, or `NAME@VERSION`."""
    files: bool = False
    """Show: the files too."""


class DatasetFile(_Message, frozen=True):
    name: str
    size_bytes: int = 0
    sha256: str = ""


class DatasetChunk(_Message, frozen=True):
    """First the versions, then files."""

    datasets: tuple[Dataset, ...] = ()
    files: tuple[DatasetFile, ...] = ()


class DatasetProgress(_Message, frozen=True):
    """How far adding or verifying is; the last one says what came of it."""

    files: int = 0
    size_bytes: int = 0
    changed: tuple[str, ...] = ()
    """Verify: one line for each file that is no more what it was."""
    dataset: Dataset | None = None
    """Done."""
