"""Messages of the client service about datasets."""

from __future__ import annotations

from diana.model.views.datasets import Dataset
from diana.wire.client.base import Message


class DatasetsResponse(Message, frozen=True):
    datasets: tuple[Dataset, ...] = ()
    more: bool = False
    """True if there are more than one answer holds: these are the first."""


class DatasetAddRequest(Message, frozen=True):
    """Paths are the node's own: files, or directories taken with all below them. Operators only."""

    name: str
    paths: tuple[str, ...] = ()
    new_version: bool = False
    """True: other content under an existing name becomes its newest version."""


class DatasetRequest(Message, frozen=True):
    name: str
    """`NAME`, or `NAME@VERSION`."""
    files: bool = False
    """True, when shown: list the files, too."""


class DatasetFile(Message, frozen=True):
    name: str
    size_bytes: int = 0
    sha256: str = ""


class DatasetChunk(Message, frozen=True):
    """One chunk of an answer: first come the versions, then the files."""

    datasets: tuple[Dataset, ...] = ()
    files: tuple[DatasetFile, ...] = ()


class DatasetProgress(Message, frozen=True):
    """Progress of adding or verifying; the last message has the result."""

    files: int = 0
    size_bytes: int = 0
    changed: tuple[str, ...] = ()
    """One line for each file found changed while verifying."""
    dataset: Dataset | None = None
    """The dataset; present once the work is done."""
