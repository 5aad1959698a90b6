"""Trees that are deeper than a stack, a path or the open files of a process reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diana.adapters.deep_trees import remove_deep
from diana.adapters.lrm.spawner.processes import Scratch, remove
from diana.adapters.staging.trees import remove_tree

LEVELS = 3000


def deep(path: Path) -> Path:
    """A tree of so many levels, with files, a link and folders beside at some."""
    path.mkdir()
    at = os.open(path, os.O_RDONLY)
    for level in range(LEVELS):
        if level % 1000 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
            os.symlink("/etc", "link", dir_fd=at)
            os.mkdir("beside", dir_fd=at)
        os.mkdir("down", dir_fd=at)
        further = os.open("down", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = further
    os.close(at)
    return path


@pytest.mark.parametrize("way", [remove_deep, remove, remove_tree])
def test_a_tree_of_any_depth_is_deleted(tmp_path: Path, way: object) -> None:
    assert callable(way)
    path = deep(tmp_path / "tree")
    way(path if way is remove_tree else str(path))
    assert os.listdir(tmp_path) == []


def test_a_slot_is_empty_for_its_next_job_however_deep_the_last_one_went(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    deep(Path(scratch.path(0), "tree"))
    assert not scratch.empty(0)
    assert os.listdir(scratch.path(0)) == []


def test_links_and_what_they_lead_to_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a/link").symlink_to(tmp_path / "kept")
    remove_deep(str(tree))
    assert not tree.exists() and (tmp_path / "kept/file").read_text() == "kept"
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="link"):
        remove_deep(str(tmp_path / "link"))
    assert (tmp_path / "kept/file").read_text() == "kept"


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to root")
def test_folders_that_are_closed_to_their_owner_go_too(tmp_path: Path) -> None:
    for name, mode in (("closed", 0), ("read", 0o500), ("passed", 0o100)):
        folder = tmp_path / "tree" / name
        (folder / "a").mkdir(parents=True)
        (folder / "file").write_text("x")
        folder.chmod(mode)
    remove_deep(str(tmp_path / "tree"))
    assert os.listdir(tmp_path) == []
