"""Deleting what a finished subgroup or an expired group has left, whatever rights its jobs set on it."""

from __future__ import annotations

from contextlib import suppress

from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.transfer.blobs import Blobs
from diana.adapters.staging.trees import remove_empty, remove_tree
from diana.model.ids import GroupId, SubgroupId
from diana.model.layout import DataDir, flat

_BLOB_UNUSED_S = 86400.0


def drop_subgroup(data: DataDir, catalogue: Catalogue, subgroup: SubgroupId) -> bool:
    """Links, job directories and pins; collected outputs only where nothing is left of them. True: there were pins."""
    remove_tree(data.staged(subgroup))
    remove_tree(data.jobs(subgroup))
    remove_empty(data.collected(subgroup, 0).parent)
    return catalogue.unpin(subgroup)


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
