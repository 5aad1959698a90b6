"""Where outputs may be gathered is asked before anything runs (SPEC J5)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import DianaError, UsageError
from diana.model.job.spec import GroupSpec, Outputs
from diana.model.layout import DataDir
from diana.node.api import fetch
from diana.node.api.submit import with_output_folder
from diana.wire.client import messages as wire


def asked(data: Path, to: str) -> str:
    """Where they are gathered then."""
    stager = SimpleNamespace(check_url=lambda url: None, delivery=None)
    desk: Any = SimpleNamespace(data=DataDir(data), stager=stager)
    return with_output_folder(desk, GroupSpec(outputs=Outputs(collect=("{index}",), to=to)), "ann@lab").outputs.to


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_that_cannot_be_made_or_lies_in_the_data_directory_is_refused_as_path_and_as_url(
    tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "file").write_text("")
    for folder, line in (
        ("file/below", "is no folder; choose another"),
        ("data/in", "lies in the node's data directory"),
    ):
        with pytest.raises(UsageError, match=line):
            asked(tmp_path / "data", f"{scheme}{tmp_path}/{folder}")
    asked(tmp_path / "data", f"{scheme}{tmp_path}/new/folder")
    assert not (tmp_path / "new").exists()


def test_a_folder_behind_a_link_is_kept_by_the_path_it_has_now(tmp_path: Path) -> None:
    """Whatever becomes of the link while the jobs run."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    assert asked(tmp_path / "data", f"{tmp_path}/home/new/out/") == f"{tmp_path}/disk/new/out"
    url = f"file://{tmp_path}/home/out"
    assert asked(tmp_path / "data", url) == url
    (tmp_path / "disk" / "own").symlink_to(tmp_path / "data")
    (tmp_path / "data").mkdir()
    with pytest.raises(UsageError, match="lies in the node's data directory"):
        asked(tmp_path / "data", f"{tmp_path}/home/own/keys")


def test_a_folder_that_became_a_link_is_not_read_for_whoever_fetches(tmp_path: Path) -> None:
    """A job could have the node's account read what its user may not."""
    desk: Any = SimpleNamespace(data=DataDir(tmp_path / "data"), stager=SimpleNamespace(delivery=None))
    view: Any = SimpleNamespace(group="alpha-1", outputs_to=f"{tmp_path}/home/out")
    (tmp_path / "home" / "out").mkdir(parents=True)
    (tmp_path / "home" / "out" / "a").write_text("mine")
    folder, own = fetch.where(desk, view)
    assert not own
    with open(fetch.open_below(folder, "a")) as file:
        assert file.read() == "mine"
    (tmp_path / "home").rename(tmp_path / "keys")
    (tmp_path / "home").symlink_to(tmp_path / "keys")
    with pytest.raises(DianaError, match="is a link"):
        fetch.open_below(folder, "a")


@pytest.mark.parametrize(
    ("view", "pattern", "line"),
    [
        ({}, "", "; a job file names them under outputs.collect; diana logs has what jobs printed"),
        ({"failed": 1}, "", "; a job file names them under outputs.collect; diana logs has what jobs printed"),
        ({"leaves": True}, "", ": its jobs left none of what they were to leave"),
        (
            {"leaves": True, "failed": 1},
            "",
            ": its jobs left none of what they were to leave; 1 job of it failed: diana logs --failed alpha-1",
        ),
        (
            {"leaves": True, "cancelled": 2},
            "",
            ": its jobs left none of what they were to leave; 2 jobs of it cancelled",
        ),
        (
            {"leaves": True, "failed": 2},
            "*.csv",
            " that match '*.csv'; 2 jobs of it failed: diana logs --failed alpha-1",
        ),
        ({"leaves": True}, "*.csv", " that match '*.csv'"),
        ({"final": False, "failed": 1}, "", " yet; `diana wait` for it first"),
    ],
)
def test_a_group_without_outputs_says_where_they_might_be(view: dict[str, Any], pattern: str, line: str) -> None:
    shown: Any = SimpleNamespace(**{"final": True, "leaves": False, "failed": 0, "cancelled": 0, **view})
    request = wire.FetchRequest(group="alpha-1", pattern=pattern)
    assert fetch._nothing(request, shown) == f"group alpha-1: no outputs{line}"
