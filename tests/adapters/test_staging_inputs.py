"""Files reach a subgroup's jobs verified, once, from whoever has them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from diana.adapters.staging.limits import StagingLimits
from diana.engine.journal.effects import StageIn
from diana.model.ids import SubgroupId
from tests.adapters.staging_grid import QUICK, SUBGROUP, fetch, fetches, grid, noise, sha, write
from tests.runs import SOAK


async def test_a_dataset_file_of_another_site_is_brought_verified_and_linked(tmp_path: Path) -> None:
    content = noise(3_500_000)
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "sub" / "a.bin", content)
        dataset = await beta.register("events", [tmp_path / "in"])
        done = await alpha.stage(*fetches(dataset.files, "beta"))
        assert (done.error, done.bytes_moved) == ("", len(content))
        assert alpha.staged("dataset", "events", "sub", "a.bin").read_bytes() == content
        cached = alpha.data.cached(sha(content))
        assert cached.stat().st_mode & 0o777 == 0o444
        assert alpha.samples[0][:2] == ("beta", len(content))
        assert alpha.parts_left() == []


async def test_an_own_dataset_file_is_linked_in_place_and_nothing_travels(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, _):
        path = write(tmp_path / "in" / "a.bin", b"here")
        dataset = await alpha.register("events", [path])
        done = await alpha.stage(*fetches(dataset.files, "beta", "alpha"))
        assert (done.error, done.bytes_moved) == ("", 0)
        assert os.readlink(alpha.staged("dataset", "events", "a.bin")) == str(path)


async def test_a_blob_travels_to_another_site_and_is_linked_by_its_hash(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        name = alpha.stager.put_blob_bytes(b"#!/bin/sh\necho hi\n")
        done = await beta.stage(fetch(f"blob:{name}", b"#!/bin/sh\necho hi\n", "alpha"))
        assert done.error == ""
        assert beta.staged("blob", name).read_bytes() == b"#!/bin/sh\necho hi\n"
        own = await alpha.stage(fetch(f"blob:{name}", b"#!/bin/sh\necho hi\n", "alpha"))
        assert own.error == "" and os.readlink(alpha.staged("blob", name)) == str(alpha.data.blob(name))


async def test_what_is_cached_is_not_fetched_again(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "a.bin", b"x" * 1000)
        dataset = await beta.register("events", [tmp_path / "in"])
        assert (await alpha.stage(*fetches(dataset.files, "beta"))).bytes_moved == 1000
        again = await alpha.stage(*fetches(dataset.files, "beta"), subgroup=SubgroupId("alpha-2/0"))
        assert (again.error, again.bytes_moved) == ("", 0)


async def test_the_same_file_wanted_by_many_at_once_is_fetched_once(tmp_path: Path) -> None:
    content = noise(2_000_000)
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "a.bin", content)
        dataset = await beta.register("events", [tmp_path / "in"])
        for number in range(8):
            order = StageIn(
                ticket=number, subgroup=SubgroupId(f"alpha-1/{number}"), files=tuple(fetches(dataset.files, "beta"))
            )
            alpha.stager.stage_in(order)
        ends = [await alpha.done() for _ in range(8)]
        assert {e.error for e in ends} == {""}
        assert sum(e.bytes_moved for e in ends) == len(content)


@pytest.mark.wide
async def test_two_thousand_small_files_come_in_one_stream_quickly(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        for number in range(2000):
            write(tmp_path / "in" / f"f{number}", b"%d" % number)
        dataset = await beta.register("many", [tmp_path / "in"])
        began = time.monotonic()
        done = await alpha.stage(*fetches(dataset.files, "beta"))
        took_s = time.monotonic() - began
        assert done.error == ""
        assert len(list(alpha.staged("dataset", "many").iterdir())) == 2000
        assert alpha.staged("dataset", "many", "f1999").read_bytes() == b"1999"
        assert len(alpha.samples) == 1
        assert not SOAK or took_s < 20.0


async def test_empty_files_arrive_too(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "empty", b"")
        write(tmp_path / "in" / "more", b"1")
        dataset = await beta.register("events", [tmp_path / "in"])
        assert (await alpha.stage(*fetches(dataset.files, "beta"))).error == ""
        assert alpha.staged("dataset", "events", "empty").read_bytes() == b""


async def test_a_source_that_cannot_be_reached_is_passed_over(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta", "gamma") as (alpha, beta, gamma):
        write(tmp_path / "in" / "a.bin", b"abc")
        dataset = await gamma.register("events", [tmp_path / "in"])
        await beta.stop_serving()
        done = await alpha.stage(*fetches(dataset.files, "delta", "beta", "gamma"))
        assert done.error == ""


async def test_when_no_source_has_it_the_error_names_file_and_sites(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, _):
        done = await alpha.stage(fetch("dataset:none/a.bin", b"abc", "beta"))
        assert done.error.startswith("staging in: dataset:none/a.bin: beta: ")
        assert "not registered at site beta" in done.error and "\n" not in done.error
        nowhere = await alpha.stage(fetch("dataset:none/a.bin", b"abc", "alpha"))
        assert "no other site has it" in nowhere.error or "not registered" in nowhere.error
        assert (done.spoilt, nowhere.spoilt) == ("dataset:none/a.bin", "dataset:none/a.bin")


async def test_a_source_that_is_away_has_spoilt_nothing(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        await beta.stop_serving()
        done = await alpha.stage(fetch("dataset:none/a.bin", b"abc", "beta"))
        assert done.error and not done.spoilt


async def test_a_file_changed_since_registration_is_refused_by_name(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        path = write(tmp_path / "in" / "a.bin", b"abc")
        dataset = await beta.register("events", [path])
        path.write_bytes(b"abd")
        done = await alpha.stage(*fetches(dataset.files, "beta"))
        assert "dataset:events/a.bin: beta: changed at site beta" in done.error
        assert not alpha.staged("dataset").exists()


async def test_an_order_without_enough_space_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, _):
        done = await alpha.stage(fetch("dataset:bomb/sparse", b"x", "beta", size_bytes=1 << 60))
        assert "free some space" in done.error and str(1 << 60) in done.error
        assert alpha.samples == []


async def test_cancel_leaves_nothing_and_says_nothing(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        for number in range(40):
            write(tmp_path / "in" / f"f{number}", noise(1 << 20, number))
        dataset = await beta.register("events", [tmp_path / "in"])
        order = StageIn(ticket=7, subgroup=SUBGROUP, files=tuple(fetches(dataset.files, "beta")))
        alpha.stager.stage_in(order)
        while not alpha.parts_left():
            await asyncio.sleep(0.001)
        alpha.stager.cancel(7)
        again = await alpha.stage(*fetches(dataset.files, "beta"))
        assert (again.ticket, again.error) == (1, "")
        assert alpha.events.empty() and alpha.parts_left() == []


async def test_what_exceeds_the_cap_goes_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    limits = StagingLimits(cache_bytes=1500, reserve_bytes=0, patience_s=1.0, retry_first_s=0.02)
    async with grid(tmp_path, "alpha", "beta", limits=limits) as (alpha, beta):
        contents = [noise(1000, number) for number in range(2)]
        for number, content in enumerate(contents):
            write(tmp_path / "in" / f"f{number}", content)
        files = (await beta.register("events", [tmp_path / "in"])).files
        subgroup = SubgroupId("alpha-1/0")
        assert (await alpha.stage(*fetches(files, "beta"), subgroup=subgroup)).error == ""
        assert all(alpha.data.cached(sha(c)).exists() for c in contents)
        alpha.stager.drop_subgroup(subgroup)
        by_s = time.monotonic() + 60.0
        while all(alpha.data.cached(sha(c)).exists() for c in contents):
            assert time.monotonic() < by_s, "nothing was evicted"
            await asyncio.sleep(0.01)
        assert sum(alpha.data.cached(sha(c)).exists() for c in contents) == 1


async def test_what_nobody_pins_is_evicted_least_recently_used_first(tmp_path: Path) -> None:
    limits = StagingLimits(cache_bytes=2500, reserve_bytes=0, patience_s=1.0, retry_first_s=0.02)
    async with grid(tmp_path, "alpha", "beta", limits=limits) as (alpha, beta):
        contents = [noise(1000, number) for number in range(4)]
        for number, content in enumerate(contents):
            write(tmp_path / "in" / f"f{number}", content)
        files = (await beta.register("events", [tmp_path / "in"])).files
        for number in range(3):
            subgroup = SubgroupId(f"alpha-1/{number}")
            assert (await alpha.stage(*fetches(files[number : number + 1], "beta"), subgroup=subgroup)).error == ""
        assert all(alpha.data.cached(sha(c)).exists() for c in contents[:3])
        alpha.stager.drop_subgroup(SubgroupId("alpha-1/0"))
        alpha.stager.drop_subgroup(SubgroupId("alpha-1/1"))
        done = await alpha.stage(*fetches(files[3:], "beta"), subgroup=SubgroupId("alpha-1/3"))
        assert done.error == ""
        # What exceeds the cap goes in the background, one after the other.
        by_s = time.monotonic() + 60.0
        while alpha.data.cached(sha(contents[1])).exists() and time.monotonic() < by_s:
            await asyncio.sleep(0.01)
        assert [alpha.data.cached(sha(c)).exists() for c in contents] == [False, False, True, True]


async def test_a_dropped_subgroup_leaves_no_links_and_no_job_directories(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "a.bin", b"abc")
        dataset = await beta.register("events", [tmp_path / "in"])
        await alpha.stage(*fetches(dataset.files, "beta"))
        locked = write(alpha.data.job(SUBGROUP, 1, 0) / "d" / "file", b"x").parent
        locked.chmod(0)
        alpha.stager.drop_subgroup(SUBGROUP)
        await alpha.stage(subgroup=SUBGROUP)
        assert not alpha.data.jobs(SUBGROUP).exists()
        assert not alpha.staged("dataset").exists()
        assert (tmp_path / "in" / "a.bin").read_bytes() == b"abc"


async def test_a_broken_off_cache_fetch_is_taken_up_after_a_restart_of_the_receiver(tmp_path: Path) -> None:
    content = noise(5 << 20)
    async with grid(tmp_path, "alpha", "beta", limits=QUICK) as (alpha, beta):
        write(tmp_path / "in" / "a.bin", content)
        dataset = await beta.register("events", [tmp_path / "in"])
        part = alpha.data.cached(sha(content)).parent / f".diana-part-{sha(content)}"
        write(part, content[: 3 << 20])
        done = await alpha.stage(*fetches(dataset.files, "beta"))
        assert (done.error, done.bytes_moved) == ("", 2 << 20)
        assert alpha.staged("dataset", "events", "a.bin").read_bytes() == content


async def test_a_left_over_part_with_wrong_bytes_is_thrown_away_and_fetched_anew(tmp_path: Path) -> None:
    content = noise(3 << 20)
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "a.bin", content)
        dataset = await beta.register("events", [tmp_path / "in"])
        write(alpha.data.cached(sha(content)).parent / f".diana-part-{sha(content)}", b"wrong")
        done = await alpha.stage(*fetches(dataset.files, "beta"))
        assert done.error == ""
        assert alpha.staged("dataset", "events", "a.bin").read_bytes() == content


async def test_a_busy_source_makes_others_wait_not_fail(tmp_path: Path) -> None:
    limits = StagingLimits(serving_streams_per_reader=1, streams_per_site=4, reserve_bytes=0, retry_first_s=0.01)
    async with grid(tmp_path, "alpha", "beta", limits=limits) as (alpha, beta):
        for number in range(6):
            write(tmp_path / "in" / f"f{number}", noise(2 << 20, number))
        files = (await beta.register("events", [tmp_path / "in"])).files
        for number in range(6):
            wanted = tuple(fetches(files[number : number + 1], "beta"))
            alpha.stager.stage_in(StageIn(ticket=number, subgroup=SubgroupId(f"alpha-1/{number}"), files=wanted))
        assert {(await alpha.done()).error for _ in range(6)} == {""}


async def test_what_came_before_another_file_failed_is_not_fetched_again(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        write(tmp_path / "in" / "a", b"1234")
        gone = write(tmp_path / "in" / "b", b"5678")
        files = (await beta.register("events", [tmp_path / "in"])).files
        gone.unlink()
        done = await alpha.stage(*fetches(files, "beta"))
        assert "dataset:events/b" in done.error and "site beta" in done.error
        write(tmp_path / "in" / "b", b"5678")
        await beta.stager.register("events", [tmp_path / "in"])
        again = await alpha.stage(*fetches(files, "beta"))
        assert (again.error, again.bytes_moved) == ("", 4)
