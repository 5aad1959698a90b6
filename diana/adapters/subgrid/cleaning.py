"""Subgroups whose files lie on a member machine, and deletion of files that nobody needs."""

from __future__ import annotations

from contextlib import suppress

from diana.adapters.staging.trees import remove_tree
from diana.model.ids import GroupId, SubgroupId, group_of, is_group_id
from diana.model.layout import DataDir

_ANY = SubgroupId("x")


def subgroups_in(data: DataDir) -> list[str]:
    """Return the subgroups whose directories, inputs, outputs or logs lie here. A group's logs stand for its
    subgroup 0: they go when none of the group is left."""
    found: set[str] = set()
    for folder in (data.jobs(_ANY).parent, data.staged(_ANY).parent, data.collected(_ANY, 0).parent.parent):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                group, _, number = path.name.rpartition("_")
                if is_group_id(group) and number.isdecimal():
                    found.add(f"{group}/{number}")
    groups = {group_of(SubgroupId(name)) for name in found}
    with suppress(FileNotFoundError):
        found.update(f"{path.name}/0" for path in data.logs_root.iterdir() if _lone(path.name, groups))
    return sorted(found)


def _lone(name: str, groups: set[GroupId]) -> bool:
    return is_group_id(name) and GroupId(name) not in groups


def drop(data: DataDir, subgroup: SubgroupId, last: bool) -> None:
    """Delete outputs of a subgroup. `last`: the group has no other subgroup here, so its logs go, too. Blocks. The
    stager deletes inputs and job directories."""
    remove_tree(data.collected(subgroup, 0).parent)
    if last:
        remove_tree(data.logs(group_of(subgroup)))
