"""A data directory that is moved or deleted under its spawner is not made anew at its old path (PROMISES section 6)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from diana.adapters.lrm.local import LocalLrm
from diana.model.layout import DataDir
from tests.contract.lrm_builders import RealSite, _is_spawner, alive, shell


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


async def gone(happened: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.01)


async def test_a_spawner_whose_directory_was_moved_goes_and_the_next_one_adopts_what_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    site = RealSite(old)
    await site.up()
    pids = tmp_path / "pids"
    site.start(shell(f"echo $$ >> {pids}; sleep 3"), 0)
    await gone(lambda: len(pids_in(pids)) == 1)
    spawner = site.spawner_pid()
    await site.lrm.close()
    old.rename(new)
    await gone(lambda: not _is_spawner(spawner))
    assert alive(pids_in(pids)[0])
    site.data, site.slots = DataDir(new), 2
    site.lrm = site._new()
    LocalLrm.launch(site.data)
    await site.lrm.connect()
    assert [run.index for run in site.ready().known] == [0]
    (end,) = await site.ended(1)
    assert end.error == "" or "spawner was lost" in end.error
    site.start(shell("true"), 1)
    await site.ended(2)
    assert not old.exists()
    await site.down()


@pytest.mark.parametrize("busy", [True, False])
async def test_a_node_that_comes_to_the_new_place_at_once_gets_a_spawner_of_that_place(
    tmp_path: Path, busy: bool
) -> None:
    """The old spawner's socket has moved along, and its next look is some time away."""
    old, new = tmp_path / "old", tmp_path / "new"
    site = RealSite(old)
    await site.up()
    if busy:
        site.start(shell("sleep 1"), 5)
        await asyncio.sleep(0.1)
    spawner = site.spawner_pid()
    await site.lrm.close()
    old.rename(new)
    site.data = DataDir(new)
    site.lrm = site._new()
    LocalLrm.launch(site.data)
    await site.lrm.connect()
    site.start(shell("echo here"), 0)
    await site.until(lambda: 0 in site.by_index())
    assert site.log(site.by_index()[0]) == "here\n"
    assert not old.exists() and site.spawner_pid() != spawner
    await site.down()


async def test_a_spawner_whose_directory_was_deleted_ends_its_jobs_and_leaves_nothing(tmp_path: Path) -> None:
    site = RealSite(tmp_path / "data")
    await site.up()
    pids = tmp_path / "pids"
    site.start(shell(f"setsid sleep 60 & echo $! $$ >> {pids}; wait"), *range(6))
    await gone(lambda: len(pids_in(pids)) == 4)
    spawner = site.spawner_pid()
    shutil.rmtree(tmp_path / "data")
    await gone(lambda: not _is_spawner(spawner))
    await gone(lambda: not any(alive(pid) for pid in pids_in(pids)))
    # The node's side tries to have another one, and must not make the directory for it.
    await asyncio.sleep(0.5)
    await site.lrm.close()
    assert os.listdir(tmp_path) == ["pids"]
