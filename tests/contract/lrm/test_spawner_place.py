"""A data directory that is moved or deleted under its spawner is not made anew at its old path (PROMISES section 3),
and a disk that gives odd answers for a while costs no run its end."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.spawner.place import CERTAIN_S, LOOKS, NotInPlace, Place
from diana.model.facts import Outcome
from diana.model.layout import DataDir
from tests.contract.lrm_builders import RealSite, _is_spawner, alive, shell


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def until_told(tmp_path: Path) -> str:
    return f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"


async def gone(happened: Callable[[], bool], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.01)


async def test_a_spawner_whose_directory_was_moved_goes_and_the_next_one_adopts_what_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    site = RealSite(old)
    await site.up()
    pids = tmp_path / "pids"
    site.start(shell(f"echo $$ >> {pids}; {until_told(tmp_path)}"), 0)
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
    (tmp_path / "go").touch()
    (end,) = await site.ended(1)
    assert end.error == "" or "spawner was lost" in end.error
    site.start(shell("true"), 1)
    await site.ended(2)
    assert not old.exists()
    await site.down()


@pytest.mark.wide
@pytest.mark.parametrize("busy", [True, False])
async def test_a_node_that_comes_to_the_new_place_at_once_gets_a_spawner_of_that_place(
    tmp_path: Path, busy: bool
) -> None:
    """The old spawner's socket has moved along, and what is not in its place may yet be back in a moment."""
    old, new = tmp_path / "old", tmp_path / "new"
    site = RealSite(old)
    await site.up()
    if busy:
        site.start(shell(f"touch {tmp_path}/runs; exec sleep 60"), 5)
        await gone((tmp_path / "runs").exists)
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


def hide(folder: Path, trouble: str) -> Path:
    """As its path may look for a while; where it is meanwhile."""
    away = folder.with_name("away")
    folder.rename(away)
    if trouble == "odd":
        folder.symlink_to(folder)
    elif trouble == "another":
        (folder / "data" / "spawner").mkdir(parents=True)
    return away


@pytest.mark.parametrize("trouble", ["odd", "absent", "another"])
async def test_a_directory_that_cannot_be_seen_for_a_while_costs_no_end_and_nothing_is_made_meanwhile(
    tmp_path: Path, trouble: str
) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        if await hidden_for_a_while(tmp_path / str(number), trouble):
            return
    raise AssertionError("no ends came while it was hidden")


async def hidden_for_a_while(tmp_path: Path, trouble: str) -> bool:
    """False: for so long, on a busy machine, that the spawner has to take it for gone."""
    home = tmp_path / "home"
    site = RealSite(home / "data")
    await site.up()
    script = f"ls; touch {tmp_path}/$DIANA_INDEX; {until_told(tmp_path)}; touch left; exit 3"
    site.start(shell(script), *range(3))
    spawner, slots = site.spawner_pid(), site.data.root / "slots"
    await gone(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    began_s = time.monotonic()
    away = hide(home, trouble)
    (tmp_path / "go").touch()
    try:
        ends = await site.ended(2, CERTAIN_S)
    except AssertionError:
        await site.lrm.close()
        return False
    await asyncio.sleep(0.3)
    assert {(end.run.index, end.outcome, end.exit_code) for end in ends} == {(i, Outcome.FAILED, 3) for i in (0, 1)}
    assert len(site.ends()) == 2 and len(list(away.glob("data/logs/*/*"))) == 2
    if trouble == "another":
        assert [path.name for path in home.rglob("*")] == ["data", "spawner"]
        shutil.rmtree(home)
    elif trouble == "odd":
        home.unlink()
    away.rename(home)
    if time.monotonic() - began_s >= CERTAIN_S:
        await site.lrm.close()
        return False
    await site.ended(3)
    assert (site.log(site.by_index()[2]), site.spawner_pid(), site.readies()) == ("", spawner, 1)
    assert not list(slots.glob("*/*"))
    await site.down()
    return True


async def test_ends_that_came_while_nobody_knew_whether_it_was_moved_are_told_at_the_new_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    site = RealSite(old)
    await site.up()
    site.start(shell(f"touch {tmp_path}/$DIANA_INDEX; {until_told(tmp_path)}; exit 3"), 0, 1)
    await gone(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    spawner = site.spawner_pid()
    await site.lrm.close()
    old.rename(new)
    (tmp_path / "go").touch()
    await gone(lambda: not _is_spawner(spawner))
    site.data = DataDir(new)
    site.lrm = site._new()
    LocalLrm.launch(site.data)
    await site.lrm.connect()
    assert {(end.outcome, end.exit_code) for end in await site.ended(2)} == {(Outcome.FAILED, 3)}
    await site.down()


class Look:
    """One place and a clock that goes from look to look."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 100.0
        self.place = Place(folder, lambda: self.now_s)

    def __call__(self) -> bool:
        self.now_s = max(self.now_s + 0.01, self.place.again_s)
        return self.place.look()

    def until_sure(self) -> tuple[int, float]:
        """Looks and seconds until it counts as moved."""
        began_s, looks = self.now_s, 0
        with pytest.raises(NotInPlace):
            while True:
                looks += 1
                assert not self()
        return looks, self.now_s - began_s


def test_only_what_stays_away_for_several_looks_and_seconds_was_moved(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    look = Look(home / "data")
    assert look() and not look.place.again_s
    away = hide(home, "absent")
    assert not any(look() for _ in range(LOOKS - 1))
    away.rename(home)
    assert look() and look() and not look.place.again_s
    hide(home, "absent")
    look.now_s += 3600.0
    looks, took_s = look.until_sure()
    assert looks >= LOOKS and took_s >= CERTAIN_S
    assert not look.place.deleted


def test_an_answer_that_says_nothing_of_where_it_lies_is_no_move_however_long_it_lasts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    look = Look(home / "data")
    away = hide(home, "odd")
    assert not any(look() for _ in range(100)) and look.place.again_s
    home.unlink()
    away.rename(home)
    assert look()


def test_a_file_system_that_counts_no_links_never_makes_a_directory_count_as_deleted(tmp_path: Path) -> None:
    for links in (True, False):
        folder = tmp_path / "data"
        folder.mkdir()
        fd = os.open(folder, os.O_PATH)
        if not links:
            folder.rmdir()
        look = Look(Path(f"/proc/self/fd/{fd}"))
        assert look() and not look.place.deleted
        if links:
            folder.rmdir()
        os.close(fd)
        look.until_sure()
        assert look.place.deleted == links
