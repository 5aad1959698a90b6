"""Deleting what a finished subgroup or an expired group has left, whatever rights its jobs set on it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.transfer.blobs import Blobs
from diana.adapters.staging.trees import remove_empty, remove_tree
from diana.model.ids import GroupId, SubgroupId
from diana.model.layout import DataDir, flat

_BLOB_UNUSED_S = 86400.0
_ASIDE = ".dropped-"
"""Before the id of a group whose outputs are being deleted; no group's id begins with a dot."""


def drop_subgroup(data: DataDir, catalogue: Catalogue, subgroup: SubgroupId) -> bool:
    """Links, job directories and pins; collected outputs only where nothing is left of them. True: there were pins."""
    remove_tree(data.staged(subgroup))
    remove_tree(data.jobs(subgroup))
    remove_empty(data.collected(subgroup, 0).parent)
    return catalogue.unpin(subgroup)


def drop_group(data: DataDir, catalogue: Catalogue, blobs: Blobs, group: GroupId) -> None:
    """Logs, what is left of its subgroups, and its blobs that no group reads any more. Gathered outputs stay."""
    remove_tree(data.logs(group))
    prefix = flat(SubgroupId(f"{group}/"))
    for parent in (data.staged(SubgroupId("x")).parent, data.jobs(SubgroupId("x")).parent, data.root / "collected"):
        with suppress(FileNotFoundError):
            for left in parent.iterdir():
                if left.name.startswith(prefix):
                    remove_tree(left)
    _delete(catalogue, blobs, catalogue.leave_blobs(group))


def drop_unused(catalogue: Catalogue, blobs: Blobs) -> None:
    """Blobs of all groups that are gone. This costs by their number, so that it is not done with each group."""
    _delete(catalogue, blobs, catalogue.unused_blobs())


def _delete(catalogue: Catalogue, blobs: Blobs, unused: Iterable[str]) -> None:
    """All but those that somebody asked for within a day: a submission may be on its way."""
    catalogue.forget_blobs([sha256 for sha256 in unused if blobs.drop(sha256, _BLOB_UNUSED_S)])


def put_outputs_aside(data: DataDir, catalogue: Catalogue, group: GroupId) -> None:
    """In one step, so that a later start knows what was to go. What a user has registered as a dataset stays."""
    if not catalogue.reads_below(os.path.realpath(data.gathered(group))):
        with suppress(FileNotFoundError):
            (data.groups_root / group).rename(data.groups_root / f"{_ASIDE}{group}")


def delete_put_aside(data: DataDir) -> None:
    """One that cannot be deleted keeps no other. OSError: the first such one."""
    first: OSError | None = None
    for left in sorted(data.groups_root.glob(f"{_ASIDE}*")):
        try:
            # What a link leads to is not in the node's own folder.
            if left.is_symlink():
                left.unlink()
            else:
                remove_tree(left)
        except OSError as fault:
            first = first or fault
    if first is not None:
        raise first
