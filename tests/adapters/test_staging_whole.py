"""Whole datasets as one unit of data: SPEC D12, J4, K3, U8 (streaming). Lists, replicas, versions, eviction."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.catalogue.manifests import find
from diana.adapters.staging.catalogue.wholes import FEW
from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.trees import remove_tree
from diana.engine.journal.effects import StageIn
from diana.errors import UsageError
from diana.model.data import DataFile, Fetch
from diana.model.ids import SiteId, SubgroupId
from tests.adapters.staging_grid import QUICK, SUBGROUP, TestSite, fetches, grid, leftovers, noise, sha, write
from tests.adapters.test_staging_faults import PATIENT, serving, small_disk
from tests.runs import SOAK


def whole(unit: DataFile, *sources: str) -> Fetch:
    return Fetch(unit, tuple(SiteId(s) for s in sources))


def fill(folder: Path, files: int, size_bytes: int = 100) -> dict[str, bytes]:
    contents = {f"d{n % 3}/f{n:05}": noise(size_bytes, n) for n in range(files)}
    for name, content in contents.items():
        write(folder / name, content)
    return contents


def tree(folder: Path) -> dict[str, bytes]:
    out = {}
    for at, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = Path(at, name)
            out[str(path.relative_to(folder))] = path.read_bytes()
    return out


async def test_a_whole_dataset_of_another_site_comes_with_its_list_and_is_one_link(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", FEW + 200)
        dataset = await beta.stager.register("many", [tmp_path / "in"])
        done = await alpha.stage(whole(dataset.unit, "beta"))
        list_bytes = alpha.data.manifest(dataset.digest).stat().st_size
        assert (done.error, done.bytes_moved) == ("", dataset.size_bytes + list_bytes)
        assert sha(alpha.data.manifest(dataset.digest).read_bytes()) == dataset.digest
        assert alpha.staged("dataset", "many").is_symlink()
        assert tree(alpha.staged("dataset", "many")) == contents
        assert alpha.parts_left() == []
        again = await alpha.stage(whole(dataset.unit, "beta"), subgroup=SubgroupId("alpha-2/0"))
        assert (again.error, again.bytes_moved) == ("", 0)


async def test_an_own_dataset_is_linked_in_place_by_folder_or_by_file(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        few, many = fill(tmp_path / "few", 5), fill(tmp_path / "many", FEW + 1)
        one = await alpha.stager.register("few", [tmp_path / "few"])
        other = await alpha.stager.register("many", [tmp_path / "many"])
        write(tmp_path / "few" / "later", b"not of the dataset")
        done = await alpha.stage(whole(one.unit, "alpha"), whole(other.unit))
        assert (done.error, done.bytes_moved) == ("", 0)
        assert tree(alpha.staged("dataset", "few")) == few
        assert os.readlink(alpha.staged("dataset", "many")) == str(tmp_path / "many")
        assert tree(alpha.staged("dataset", "many")) == many


async def test_files_and_the_whole_of_one_dataset_may_be_wanted_together_in_any_order(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", 4)
        held = await beta.register("few", [tmp_path / "in"])
        some, all_of_it = fetches(held.files[:2], "beta"), whole(held.dataset.unit, "beta")
        first = await alpha.stage(*some)
        second = await alpha.stage(all_of_it)
        assert (first.error, second.error) == ("", "")
        assert tree(alpha.staged("dataset", "few")) == contents
        other = SubgroupId("alpha-2/0")
        for order in ([all_of_it], some, [*some, all_of_it]):
            assert (await alpha.stage(*order, subgroup=other)).error == ""
        assert tree(alpha.staged("dataset", "few", subgroup=other)) == contents


async def test_what_was_fetched_file_by_file_does_not_travel_again_with_the_whole(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        fill(tmp_path / "in", 10, 1000)
        held = await beta.register("few", [tmp_path / "in"])
        assert (await alpha.stage(*fetches(held.files[:4], "beta"))).bytes_moved == 4000
        done = await alpha.stage(whole(held.dataset.unit, "beta"), subgroup=SubgroupId("alpha-2/0"))
        list_bytes = alpha.data.manifest(held.dataset.digest).stat().st_size
        assert (done.error, done.bytes_moved) == ("", 6000 + list_bytes)


async def test_a_file_of_a_dataset_that_is_here_as_a_whole_does_not_travel(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", 10)
        held = await beta.register("few", [tmp_path / "in"])
        await alpha.stage(whole(held.dataset.unit, "beta"))
        other = SubgroupId("alpha-2/0")
        done = await alpha.stage(*fetches(held.files[3:4], "beta"), subgroup=other)
        assert (done.error, done.bytes_moved) == ("", 0)
        name = held.files[3].ref.partition("/")[2]
        assert alpha.staged("dataset", "few", name, subgroup=other).read_bytes() == contents[name]


async def test_replicas_are_told_in_a_look_up_and_serve_a_third_site_when_the_first_is_gone(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta", "gamma") as (alpha, beta, gamma):
        contents = fill(tmp_path / "in", 300)
        held = await beta.register("few", [tmp_path / "in"])
        unit, one = held.dataset.unit, held.files[7]
        assert (await alpha.look_up(unit.ref, one.ref)).cached == ()
        await alpha.stage(whole(unit, "beta"))
        told = await alpha.look_up(unit.ref, one.ref, "dataset:few/none")
        assert (told.found, told.cached, told.unknown) == ((), (unit, one), ())
        await beta.stop_serving()
        done = await gamma.stage(whole(unit, "beta", "alpha"))
        assert done.error == "" and tree(gamma.staged("dataset", "few")) == contents
        assert {site for site, _, _ in gamma.samples} == {"alpha"}


async def test_a_cached_file_is_told_and_serves_and_vanishes_when_evicted(tmp_path: Path) -> None:
    limits = StagingLimits(cache_bytes=150, reserve_bytes=0, patience_s=0.5, retry_first_s=0.02)
    async with grid(tmp_path, "alpha", "beta", "gamma", limits=limits) as (alpha, beta, gamma):
        fill(tmp_path / "in", 3)
        files = (await beta.register("few", [tmp_path / "in"])).files
        await alpha.stage(*fetches(files[:1], "beta"))
        assert (await alpha.look_up(files[0].ref)).cached == (files[0],)
        await beta.stop_serving()
        assert (await gamma.stage(*fetches(files[:1], "alpha"))).error == ""
        await beta.serve(beta.port)
        alpha.stager.drop_subgroup(SUBGROUP)
        done = await alpha.stage(*fetches(files[1:2], "beta"), subgroup=SubgroupId("alpha-2/0"))
        assert done.error == ""
        # What exceeds the cap goes in the background.
        by_s = time.monotonic() + 60.0
        while files[0] in (await alpha.look_up(files[0].ref)).cached and time.monotonic() < by_s:
            await asyncio.sleep(0.01)
        assert (await alpha.look_up(*(f.ref for f in files))).cached == (files[1],)


async def test_a_whole_dataset_nobody_reads_is_evicted_with_all_its_files(tmp_path: Path) -> None:
    limits = StagingLimits(cache_bytes=1500, reserve_bytes=0, patience_s=0.5, retry_first_s=0.02)
    async with grid(tmp_path, "alpha", "beta", limits=limits) as (alpha, beta):
        units = []
        for name in ("one", "two"):
            fill(tmp_path / name, 10)
            write(tmp_path / name / "own", name.encode())
            units.append((await beta.stager.register(name, [tmp_path / name])).unit)
        await alpha.stage(whole(units[0], "beta"))
        alpha.stager.drop_subgroup(SUBGROUP)
        assert (await alpha.stage(whole(units[1], "beta"), subgroup=SubgroupId("alpha-2/0"))).error == ""
        assert (await alpha.look_up(*(u.ref for u in units))).cached == (units[1],)
        assert not alpha.data.replica(units[0].sha256).exists()
        assert not alpha.data.manifest(units[0].sha256).exists()


async def test_an_interrupted_whole_goes_on_where_it_was(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", 50, 1000)
        gone = sorted(contents)[40]
        dataset = await beta.stager.register("few", [tmp_path / "in"])
        aside = (tmp_path / "in" / gone).rename(tmp_path / "aside")
        done = await alpha.stage(whole(dataset.unit, "beta"))
        assert f"dataset:few/{gone}" in done.error and "site beta" in done.error and "\n" not in done.error
        assert not alpha.staged("dataset", "few").exists()
        assert (await alpha.look_up(dataset.unit.ref)).cached == ()
        aside.rename(tmp_path / "in" / gone)
        again = await alpha.stage(whole(dataset.unit, "beta"))
        assert (again.error, again.bytes_moved) == ("", 1000)
        assert tree(alpha.staged("dataset", "few")) == contents


async def test_a_dataset_that_changed_at_its_site_is_refused_by_the_files_name(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        fill(tmp_path / "in", 5)
        dataset = await alpha.stager.register("few", [tmp_path / "in"])
        write(tmp_path / "in" / "d0" / "f00000", b"other")
        done = await alpha.stage(whole(dataset.unit, "alpha"))
        assert "dataset:few/d0/f00000: changed at site alpha" in done.error


async def test_a_dataset_larger_than_the_room_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, _):
        done = await alpha.stage(whole(DataFile("dataset:bomb", 1 << 60, sha(b"")), "beta"))
        assert "free some space" in done.error and "dataset:bomb" in done.error and alpha.samples == []


async def test_a_new_version_gets_the_name_and_the_old_one_keeps_its_number(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        old, new = fill(tmp_path / "v1", 5), fill(tmp_path / "v2", 6)
        first = await beta.stager.register("events", [tmp_path / "v1"])
        with pytest.raises(UsageError, match="--new-version"):
            await beta.stager.register("events", [tmp_path / "v2"])
        second = await beta.stager.register("events", [tmp_path / "v2"], new_version=True)
        assert (first.version, second.version) == (1, 2)
        assert await beta.stager.register("events", [tmp_path / "v2"]) == second
        told = await beta.look_up("dataset:events", "dataset:events@1", "dataset:events@2", "dataset:events@3")
        assert [unit.sha256 for unit in told.found] == [second.digest, first.digest, second.digest]
        inside = await beta.look_up("dataset:events/d2/f00005", "dataset:events@1/d2/f00005")
        assert [unit.ref for unit in inside.found] == ["dataset:events/d2/f00005"]
        assert inside.unknown == ("dataset:events@1/d2/f00005",)
        # Placed before the new version came: what was placed counts, not what the name means by now.
        assert (await alpha.stage(whole(first.unit, "beta"), whole(told.found[2], "beta"))).error == ""
        assert tree(alpha.staged("dataset", "events")) == old
        assert tree(alpha.staged("dataset", "events@2")) == new


async def test_a_registration_that_broke_off_goes_on_and_never_shows_half(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        fill(tmp_path / "in", 300)
        os.mkfifo(tmp_path / "in" / "zz")
        with pytest.raises(UsageError, match="regular files only"):
            await alpha.stager.register("many", [tmp_path / "in"])
        assert (await alpha.look_up("dataset:many", "dataset:many/d0/f00000")).found == ()
        (tmp_path / "in" / "zz").unlink()
        dataset = await alpha.stager.register("many", [tmp_path / "in"])
        assert dataset.files == 300
        await alpha.idle()
        again = await alpha.stager.register("many", [tmp_path / "in"])
        assert again == dataset
        await alpha.idle()
    catalogue = Catalogue(alpha.data.catalogue)
    with catalogue.read() as db:
        assert db.execute("SELECT count(*) FROM files").fetchone() == (300,)
        assert db.execute("SELECT count(*) FROM datasets").fetchone() == (1,)
    catalogue.close()


async def test_progress_is_told_while_a_dataset_is_registered(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        fill(tmp_path / "in", 100)
        told: list[tuple[int, int]] = []
        await alpha.stager.register("many", [tmp_path / "in"], tell=lambda files, size: told.append((files, size)))
        assert told[-1] == (100, 10_000)


async def test_a_list_that_is_not_what_its_digest_says_is_not_taken(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        fill(tmp_path / "in", 5)
        dataset = await beta.stager.register("few", [tmp_path / "in"])
        done = await alpha.stage(whole(DataFile("dataset:few", dataset.size_bytes, sha(b"else")), "beta"))
        assert "dataset:few (list of its files): beta:" in done.error
        # Sizes that do not add up: the peer that quoted and the one that sends tell different stories.
        small = await alpha.stage(whole(DataFile("dataset:few", 10, dataset.digest), "beta"))
        assert "larger than the 10 bytes" in small.error


async def test_a_name_is_found_in_a_list_by_bisection(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", 333)
        dataset = await beta.stager.register("many", [tmp_path / "in"])
        await alpha.stage(whole(dataset.unit, "beta"))
        path = alpha.data.manifest(dataset.digest)
        for name, content in contents.items():
            entry = find(path, name)
            assert entry and (entry.size_bytes, entry.sha256) == (len(content), sha(content))
        assert [find(path, name) for name in ("", "a", "d0", "d0/f00001x", "d1/f99999", "zz")] == [None] * 6


async def test_thousands_of_refs_are_looked_up_in_a_few_queries(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        fill(tmp_path / "in", 200)
        held = await alpha.register("many", [tmp_path / "in"])
        refs = [f.ref for f in held.files] + [f"dataset:many/none{n}" for n in range(9000)] + ["dataset:other"]
        told = await alpha.look_up(*refs)
        assert told.found == held.files and len(told.unknown) == 9000


async def test_a_cap_on_the_rate_holds_for_all_streams_together(tmp_path: Path) -> None:
    fast = StagingLimits(**{**QUICK.__dict__, "rate_bytes_per_s": 4 << 20})
    async with grid(tmp_path, "beta") as (beta,):
        alpha = TestSite("alpha", tmp_path, fast)
        alpha.knows(beta)
        try:
            write(tmp_path / "in" / "a", noise(2 << 20, 1))
            write(tmp_path / "in" / "b", noise(2 << 20, 2))
            files = (await beta.register("few", [tmp_path / "in"])).files
            began = time.monotonic()
            assert (await alpha.stage(*fetches(files, "beta"))).error == ""
            took_s = time.monotonic() - began
            assert took_s > 0.8 and (not SOAK or took_s < 5.0)
        finally:
            await alpha.close()


async def begun(site: TestSite, digest: str, files: int) -> None:
    """Until so many files of the whole are here."""
    root = site.data.replica(digest)
    while sum(len(names) for _, _, names in os.walk(root)) - len(leftovers(root)) < files:
        await asyncio.sleep(0.001)


async def test_a_site_that_stops_amid_a_whole_dataset_is_replaced_and_nothing_travels_twice(tmp_path: Path) -> None:
    contents = fill(tmp_path / "in", 40, 1 << 20)
    for name in ("beta", "gamma"):
        site = TestSite(name, tmp_path)
        dataset = await site.stager.register("big", [tmp_path / "in"])
        await site.close()
    async with grid(tmp_path, "alpha", limits=PATIENT) as (alpha,):
        with serving(tmp_path, "beta", "gamma") as servers:
            for server in servers:
                alpha.ways[SiteId(server.site)] = f"127.0.0.1:{server.port}"
            wanted = (whole(dataset.unit, "beta", "gamma"),)
            alpha.stager.stage_in(StageIn(ticket=1, subgroup=SUBGROUP, files=wanted))
            await begun(alpha, dataset.digest, 3)
            servers[0].process.send_signal(signal.SIGSTOP)
            done = await alpha.done()
    assert done.error == "" and tree(alpha.staged("dataset", "big")) == contents
    # What the stopped one had on the wire may be asked of the next again, no more.
    assert done.bytes_moved < dataset.size_bytes + (8 << 20)


async def test_a_cancelled_whole_leaves_nothing_unfinished_and_its_files_count_next_time(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        fill(tmp_path / "in", 60, 1 << 20)
        dataset = await beta.stager.register("big", [tmp_path / "in"])
        alpha.stager.stage_in(StageIn(ticket=77, subgroup=SUBGROUP, files=(whole(dataset.unit, "beta"),)))
        await begun(alpha, dataset.digest, 2)
        alpha.stager.cancel(77)
        await alpha.idle()
        assert alpha.events.empty() and alpha.parts_left() == []
        assert (await alpha.look_up(dataset.unit.ref)).cached == ()
        again = await alpha.stage(whole(dataset.unit, "beta"))
        assert again.error == "" and again.bytes_moved < dataset.size_bytes


async def test_a_disk_that_fills_up_amid_a_whole_dataset_is_told_and_nothing_is_taken_for_whole(tmp_path: Path) -> None:
    contents = fill(tmp_path / "in", 20, 1 << 20)
    async with grid(tmp_path, "beta") as (beta,):
        dataset = await beta.stager.register("big", [tmp_path / "in"])
        with small_disk(30) as disk:
            if disk is None:
                pytest.fail("this machine mounts no file system for the test")
            alpha = TestSite("alpha", disk)
            alpha.knows(beta)
            try:
                ballast = disk / "ballast"
                alpha.stager.stage_in(StageIn(ticket=1, subgroup=SUBGROUP, files=(whole(dataset.unit, "beta"),)))
                while not alpha.data.manifest(dataset.digest).exists():
                    await asyncio.sleep(0)
                fill_up(ballast)
                done = await alpha.done()
                assert "make room" in done.error and "dataset:big/" in done.error
                assert alpha.parts_left() == []
                assert (await alpha.look_up(dataset.unit.ref)).cached == ()
                ballast.unlink()
                assert (await alpha.stage(whole(dataset.unit, "beta"))).error == ""
                assert tree(alpha.staged("dataset", "big")) == contents
            finally:
                await alpha.close()


def fill_up(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        try:
            for _ in range(25):
                file.write(b"x" * (1 << 20))
        except OSError:
            return


async def test_a_replica_that_was_deleted_under_us_is_fetched_again(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", 5)
        dataset = await beta.stager.register("few", [tmp_path / "in"])
        await alpha.stage(whole(dataset.unit, "beta"))
        gone = alpha.data.replica(dataset.digest) / "d0" / "f00000"
        gone.unlink()
        other = SubgroupId("alpha-2/0")
        assert (await alpha.stage(whole(dataset.unit, "beta"), subgroup=other)).error == ""
        assert tree(alpha.staged("dataset", "few", subgroup=other)) == contents


async def test_a_replica_that_a_job_wrote_to_comes_anew_although_it_was_found_whole_just_now(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        contents = fill(tmp_path / "in", FEW + 20)
        dataset = await beta.stager.register("many", [tmp_path / "in"])
        for number in (1, 2, 3):
            done = await alpha.stage(whole(dataset.unit, "beta"), subgroup=SubgroupId(f"alpha-{number}/0"))
            assert done.error == ""
        remove_tree(alpha.data.replica(dataset.digest))
        alpha.data.changed_inputs.touch()
        last = SubgroupId("alpha-4/0")
        again = await alpha.stage(whole(dataset.unit, "beta"), subgroup=last)
        assert (again.error, again.bytes_moved) == ("", dataset.size_bytes)
        assert tree(alpha.staged("dataset", "many", subgroup=last)) == contents


async def test_an_own_dataset_that_a_job_wrote_to_is_refused_although_it_was_found_unchanged_just_now(
    tmp_path: Path,
) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        fill(tmp_path / "many", FEW + 20)
        dataset = await alpha.stager.register("many", [tmp_path / "many"])
        assert (await alpha.stage(whole(dataset.unit))).error == ""
        write(tmp_path / "many" / "d0" / "f00000", b"dirt")
        alpha.data.changed_inputs.touch()
        done = await alpha.stage(whole(dataset.unit), subgroup=SubgroupId("alpha-2/0"))
        assert "dataset:many/d0/f00000: changed at site alpha since it was registered" in done.error
