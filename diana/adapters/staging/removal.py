"""Deleting what a finished subgroup or an expired group has left, whatever rights its jobs set on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from diana.adapters.staging.blobs import Blobs
from diana.adapters.staging.catalogue import Catalogue
from diana.model.ids import GroupId, SubgroupId
from diana.model.layout import DataDir, flat

_BLOB_UNUSED_S = 86400.0


def drop_subgroup(data: DataDir, catalogue: Catalogue, subgroup: SubgroupId) -> None:
    """Links, job directories and pins; collected outputs only where nothing is left of them."""
    remove_tree(data.staged(subgroup))
    remove_tree(data.jobs(subgroup))
    remove_empty(data.collected(subgroup, 0).parent)
    catalogue.unpin(subgroup)


def drop_group(data: DataDir, catalogue: Catalogue, blobs: Blobs, group: GroupId) -> None:
    """Logs, what is left of its subgroups, and blobs nobody else uses. Gathered outputs stay."""
    remove_tree(data.logs(group))
    prefix = flat(SubgroupId(f"{group}/"))
    for parent in (data.staged(SubgroupId("x")).parent, data.jobs(SubgroupId("x")).parent, data.root / "collected"):
        with suppress(FileNotFoundError):
            for left in parent.iterdir():
                if left.name.startswith(prefix):
                    remove_tree(left)
    for sha256 in catalogue.blobs_only_used_by(group):
        blobs.drop(sha256, _BLOB_UNUSED_S)
    catalogue.forget_blob_uses(group)


def remove_empty(path: Path) -> None:
    """Delete the directories at and below `path` that hold no files."""
    for at, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(at)


def remove_tree(path: Path) -> None:
    """Delete a directory with all below it, never following a link; absent is fine."""

    def open_up(remove: Callable[..., Any], where: str, fault: Any) -> None:
        """A job may have taken away our right to its own directories."""
        if isinstance(fault[1], PermissionError):
            for locked in (os.path.dirname(where), where):
                if not os.path.islink(locked):
                    os.chmod(locked, 0o700)
            if os.path.isdir(where) and not os.path.islink(where):
                shutil.rmtree(where)
            else:
                os.unlink(where)
        elif not isinstance(fault[1], FileNotFoundError):
            raise fault[1]

    if os.path.lexists(path):
        shutil.rmtree(path, onerror=open_up)
