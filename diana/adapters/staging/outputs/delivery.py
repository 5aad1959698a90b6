"""Outputs on their way into a folder of a user who has an account here: gathered in the group's own folder, and then
written by a process of that account, so that the user's rights decide and nobody else's.

As with a URL, `diana fetch` reads them from the group's own folder: the node reads nothing where a user says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.paths import Root, open_file
from diana.adapters.staging.transfer.client import local_fault
from diana.model.facts import OutputFile
from diana.model.ids import GroupId
from diana.model.job.urls import check_folder_url


class DeliveredFile(NamedTuple):
    """One output, as the port below takes it."""

    name: str
    size_bytes: int
    sha256: str
    open: Callable[[], int]
    """Gives a descriptor of the content. OSError."""


class OwnersFolders(Protocol):
    """Writes as the owners of groups. Methods block."""

    def trouble(self, owner: str, to: str) -> str:
        """Return why the owner may not write into the folder `to`, on one line; empty: nothing is in the way."""
        ...

    def put(self, group: GroupId, to: str, files: Sequence[DeliveredFile]) -> None:
        """Write durably, each file whole or not at all, through no link. OSError says why not in its `strerror`."""
        ...


def folder_of(to: str) -> str:
    """The path that `outputs.to` names, itself or as a URL of this machine; empty: it names none."""
    if to.startswith("file:"):
        try:
            return check_folder_url(to).path
        except ValueError as fault:
            raise BadName(f"outputs.to: {fault}") from None
    return to if to.startswith("/") else ""


def deliver(delivery: OwnersFolders, group: GroupId, to: str, outputs: Sequence[OutputFile], root: Root) -> None:
    """Put outputs, which stand below `root`, into the folder `to`, in a data thread. LocalFault."""
    files = [DeliveredFile(o.name, o.size_bytes, o.sha256, partial(open_file, root, parts_of(o.name))) for o in outputs]
    try:
        delivery.put(group, to, files)
    except OSError as fault:
        raise local_fault(f"output folder {to}: {fault.strerror}", fault) from None
