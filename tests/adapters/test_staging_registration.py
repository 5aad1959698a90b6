"""A dataset is what was there, by name and hash, and never changes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from diana.adapters.staging.catalogue.catalogue import Catalogue, LocalFile
from diana.errors import DianaError, StoreNewer, Unreachable, UsageError
from diana.model.ids import GroupId, SubgroupId
from tests.adapters.staging_grid import GROUP, TestSite, facts_key, grid, leftovers, sha, write
from tests.runs import SOAK


async def test_directories_are_taken_with_all_below_them_and_files_sorted_by_name(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        write(tmp_path / "in" / "z", b"1")
        write(tmp_path / "in" / "sub" / "deep" / "a", b"22")
        single = write(tmp_path / "single.bin", b"333")
        dataset = await alpha.register("events", [tmp_path / "in", single])
        assert [f.ref for f in dataset.files] == [
            "dataset:events/single.bin",
            "dataset:events/sub/deep/a",
            "dataset:events/z",
        ]
        assert [f.size_bytes for f in dataset.files] == [3, 2, 1]
        assert dataset.files[0].sha256 == sha(b"333")
        assert (alpha.data.catalogue.stat().st_mode & 0o777) == 0o600


async def test_registering_again_is_fine_with_the_same_content_and_refused_with_other(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        path = write(tmp_path / "in" / "a", b"1")
        first = await alpha.stager.register("events", [path])
        os.utime(path, ns=(1, 1))
        assert await alpha.stager.register("events", [tmp_path / "in"]) == first
        assert (await alpha.stage()).error == ""
        got = [c async for c in alpha.stager.read(alpha.site, "dataset:events/a")]
        assert got == [b"1"]
        write(path, b"2")
        with pytest.raises(UsageError, match="use a new name"):
            await alpha.stager.register("events", [path])


async def refused(alpha: TestSite, *paths: Path, name: str = "events") -> str:
    with pytest.raises(UsageError) as caught:
        await alpha.stager.register(name, list(paths))
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_bad_names_missing_paths_and_empty_sets_are_the_users_mistake(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        good = write(tmp_path / "in" / "a", b"1")
        assert "No such file" in await refused(alpha, good, tmp_path / "none")
        (tmp_path / "empty").mkdir()
        assert "no files" in await refused(alpha, tmp_path / "empty")
        assert "no files" in await refused(alpha)
        for name in ("", "../x", "a/b", ".hidden", "a b", "x" * 200, "a\n"):
            assert "dataset name" in await refused(alpha, good, name=name)
        other = write(tmp_path / "other" / "a", b"2")
        assert "must differ" in await refused(alpha, good, other)
        write(tmp_path / "odd" / "a\nb", b"2")
        assert "control character" in await refused(alpha, tmp_path / "odd")
        assert (await alpha.stager.register("events", [good])).files


async def test_links_and_special_files_within_a_directory_are_refused(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        target = write(tmp_path / "elsewhere", b"1")
        makes: list[Callable[[Path], None]] = [lambda p: p.symlink_to(target), os.mkfifo]
        for number, make in enumerate(makes):
            folder = tmp_path / f"in{number}"
            folder.mkdir()
            make(folder / "a")
            assert "regular files only" in await refused(alpha, folder)
        assert "neither a regular file nor a directory" in await refused(alpha, tmp_path / "in1" / "a")
        (tmp_path / "link").symlink_to(target)
        dataset = await alpha.register("named", [tmp_path / "link"])
        assert dataset.files[0].ref == "dataset:named/elsewhere"


async def test_a_directory_swapped_for_a_link_after_registration_is_not_followed(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        path = write(tmp_path / "in" / "d" / "a", b"1")
        await alpha.stager.register("events", [tmp_path / "in"])
        os.rename(path.parent, tmp_path / "aside")
        path.parent.symlink_to(tmp_path / "aside")
        with pytest.raises(DianaError, match="at site alpha"):
            [c async for c in alpha.stager.read(alpha.site, "dataset:events/d/a")]


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_an_uploaded_blob_is_kept_under_its_hash_when_the_hash_is_right(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        name = sha(b"abcdef")
        assert not alpha.stager.has_blob(name)
        assert await alpha.stager.write_blob(name, chunks(b"abc", b"", b"def")) == 6
        assert alpha.stager.has_blob(name) and alpha.stager.blob_path(name).read_bytes() == b"abcdef"
        assert await alpha.stager.write_blob(name, chunks(b"abcdef")) == 6
        assert await alpha.stager.write_blob(sha(b""), chunks()) == 0
        assert alpha.stager.put_blob_bytes(b"") == sha(b"")
        with pytest.raises(UsageError, match="another SHA-256"):
            await alpha.stager.write_blob(sha(b"x"), chunks(b"y"))
        assert not alpha.stager.has_blob(sha(b"x")) and leftovers(alpha.data.root) == []
        with pytest.raises(UsageError, match="64 lower-case hex"):
            alpha.stager.has_blob("../../x")


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"abc"
        raise ConnectionResetError

    async with grid(tmp_path, "alpha") as (alpha,):
        with pytest.raises(ConnectionResetError):
            await alpha.stager.write_blob(sha(b"abcdef"), broken())
        assert not alpha.stager.has_blob(sha(b"abcdef")) and leftovers(alpha.data.root) == []


async def test_an_expired_group_loses_logs_and_old_blobs_that_no_other_group_uses(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        other = GroupId("alpha-2")
        own, shared, fresh = (alpha.stager.put_blob_bytes(c) for c in (b"own", b"shared", b"fresh"))
        await alpha.stager.use_blobs(GROUP, [own, shared, fresh])
        await alpha.stager.use_blobs(other, [shared])
        for name in (own, shared):
            os.utime(alpha.data.blob(name), (1, 1))
        for group in (GROUP, other, GroupId("alpha-12")):
            write(alpha.data.logs(group) / "s0", b"log")
        kept = write(alpha.data.gathered(GROUP) / "a", b"1")
        left = write(alpha.data.collected(facts_key().subgroup, 1) / "a", b"1")
        neighbour = write(alpha.data.collected(SubgroupId("alpha-12/0"), 1) / "a", b"1")
        alpha.stager.drop_group(GROUP)
        await alpha.stager.close()
        assert [alpha.data.blob(n).exists() for n in (own, shared, fresh)] == [False, True, True]
        assert not alpha.data.logs(GROUP).exists() and alpha.data.logs(GroupId("alpha-12")).exists()
        assert kept.exists() and neighbour.exists() and not left.exists()


async def test_a_blob_that_was_too_young_to_go_with_its_group_goes_at_a_later_start(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        young = alpha.stager.put_blob_bytes(b"young")
        await alpha.stager.use_blobs(GROUP, [young])
        alpha.stager.drop_group(GROUP)
        await alpha.stager.close()
        assert alpha.data.blob(young).exists()
    async with grid(tmp_path, "alpha") as (alpha,):
        os.utime(alpha.data.blob(young), (1, 1))
        alpha.stager.take_up_drops()
        await alpha.stager.close()
        assert not alpha.data.blob(young).exists()


async def test_a_blob_of_a_dropped_group_that_another_reads_by_then_stays(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        shared = alpha.stager.put_blob_bytes(b"shared")
        await alpha.stager.use_blobs(GROUP, [shared])
        alpha.stager.drop_group(GROUP)
        await alpha.stager.use_blobs(GroupId("alpha-2"), [shared])
        os.utime(alpha.data.blob(shared), (1, 1))
        alpha.stager.take_up_drops()
        await alpha.stager.close()
        assert alpha.data.blob(shared).exists()


async def test_a_group_that_goes_costs_no_look_at_what_others_left_that_went_just_before(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        young, own = alpha.stager.put_blob_bytes(b"young"), alpha.stager.put_blob_bytes(b"own")
        await alpha.stager.use_blobs(GROUP, [young])
        await alpha.stager.use_blobs(GroupId("alpha-2"), [own])
        alpha.stager.drop_group(GROUP)
        await asyncio.gather(*alpha.stager._drops)
        for name in (young, own):
            os.utime(alpha.data.blob(name), (1, 1))
        alpha.stager.drop_group(GroupId("alpha-2"))
        await asyncio.gather(*alpha.stager._drops)
        assert alpha.data.blob(young).exists() and not alpha.data.blob(own).exists()
        alpha.stager.take_up_drops()
        await alpha.stager.close()
        assert not alpha.data.blob(young).exists()


async def test_outputs_that_were_dropped_go_also_where_a_kill_broke_that_off(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        dropped = write(alpha.data.gathered(GROUP) / "a", b"1")
        other = write(alpha.data.gathered(GroupId("alpha-12")) / "a", b"1")
        broken_off = write(alpha.data.groups_root / ".dropped-alpha-7" / "outputs" / "a", b"1")
        alpha.stager.drop_group(GROUP, outputs=True)
        await alpha.stager.close()
        assert not dropped.exists() and other.exists() and not broken_off.exists()
    async with grid(tmp_path, "alpha") as (alpha,):
        again = write(alpha.data.groups_root / ".dropped-alpha-8" / "outputs" / "a", b"1")
        alpha.stager.take_up_drops()
        await alpha.stager.close()
        assert not again.exists() and other.exists()


async def test_outputs_that_cannot_be_deleted_keep_no_others_and_a_link_goes_without_what_it_leads_to(
    tmp_path: Path,
) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        elsewhere = write(tmp_path / "elsewhere" / "outputs" / "a", b"1")
        root = alpha.data.groups_root
        root.mkdir(parents=True, exist_ok=True)
        (root / GROUP).symlink_to(tmp_path / "elsewhere")
        # No folder, so that it stays, and before the others.
        write(root / ".dropped-alpha-0", b"1")
        broken_off = write(root / ".dropped-alpha-7" / "outputs" / "a", b"1")
        young = alpha.stager.put_blob_bytes(b"young")
        await alpha.stager.use_blobs(GROUP, [young])
        os.utime(alpha.data.blob(young), (1, 1))
        alpha.stager.drop_group(GROUP, outputs=True)
        await alpha.stager.close()
        assert elsewhere.exists() and not broken_off.exists() and not alpha.data.blob(young).exists()
        assert [path.name for path in root.iterdir()] == [".dropped-alpha-0"]


@pytest.mark.parametrize("alone", [True, False])
async def test_outputs_stay_when_their_group_is_dropped_for_as_long_as_a_dataset_has_them(
    tmp_path: Path, alone: bool
) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        kept = write(alpha.data.gathered(GROUP) / "sub" / "a", b"1")
        beside = write(tmp_path / "beside" / "b", b"2")
        await alpha.stager.register("made", [kept.parent, *([] if alone else [beside])])
        alpha.stager.drop_group(GROUP, outputs=True)
        await alpha.stager.close()
        assert kept.exists()
    async with grid(tmp_path, "alpha") as (alpha,):
        await alpha.stager.remove_dataset("made")
        alpha.stager.drop_group(GROUP, outputs=True)
        await alpha.stager.close()
        assert not kept.exists() and beside.exists()


def test_a_catalogue_of_a_newer_release_is_refused_in_one_line(tmp_path: Path) -> None:
    Catalogue(tmp_path / "catalogue.db").close()
    with sqlite3.connect(tmp_path / "catalogue.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreNewer, match="newer diana"):
        Catalogue(tmp_path / "catalogue.db")


def test_a_catalogue_reads_the_same_after_it_was_closed(tmp_path: Path) -> None:
    first = Catalogue(tmp_path / "catalogue.db")
    files = [LocalFile(f"f{n}", "/data", n, 7, sha(b"%d" % n)) for n in range(100)]
    building = first.begin("events", 0.0)
    first.put(building, files)
    added = first.finish(building, folder="", new_version=False, wall_s=0.0)
    first.close()
    second = Catalogue(tmp_path / "catalogue.db")
    assert second.dataset("events") == added and [v.dataset for v in second.versions()] == [added]
    assert second.file("events", "f7") == files[7] and second.file("events", "f100") is None
    second.close()


async def test_a_node_that_stops_does_not_wait_for_a_huge_file_to_be_hashed(tmp_path: Path) -> None:
    with open(tmp_path / "zeros", "wb") as file:
        file.truncate(40 << 30)
    site = TestSite("alpha", tmp_path)
    adding = asyncio.create_task(site.register("zeros", [tmp_path / "zeros"]))
    async with asyncio.timeout(60):
        while not any(path.resolve() == tmp_path / "zeros" for path in Path("/proc/self/fd").iterdir()):
            await asyncio.sleep(0.01)
    began_s = time.monotonic()
    await site.close()
    assert not SOAK or time.monotonic() - began_s < 2.0
    with pytest.raises(Unreachable, match="zeros: the node stops while it is read"):
        await adding
