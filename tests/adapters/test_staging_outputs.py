"""Outputs arrive in the group's folder complete or not at all, and nothing beside it is touched."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from diana.adapters.staging.catalogue.holdings import DataReader
from diana.engine.journal.effects import Gather
from diana.model.facts import OutputFile
from tests.adapters.staging_grid import GROUP, collect, facts, facts_key, grid, leftovers, noise, sha, write

OUTPUTS = {"hist/0.json": b'{"n": 1}', "hist/1.json": b'{"n": 2}', "raw.bin": noise(2_500_000)}


def landed(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


async def test_outputs_of_another_site_land_in_the_groups_own_folder(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, OUTPUTS)
        done = await alpha.gather(beta.site, facts_key(), told)
        assert (done.error, done.bytes_moved) == ("", sum(map(len, OUTPUTS.values())))
        assert landed(alpha.data.gathered(GROUP)) == OUTPUTS


async def test_told_twice_nothing_travels_again(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, OUTPUTS)
        await alpha.gather(beta.site, facts_key(), told, tmp_path / "out")
        before = (tmp_path / "out" / "raw.bin").stat()
        again = await alpha.gather(beta.site, facts_key(), told, tmp_path / "out")
        assert (again.error, again.bytes_moved) == ("", 0)
        assert (tmp_path / "out" / "raw.bin").stat().st_ino == before.st_ino


async def test_an_older_file_of_that_name_is_replaced_and_its_hard_links_keep_their_content(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        old = write(tmp_path / "out" / "raw.bin", b"old")
        os.link(old, tmp_path / "precious")
        told = collect(beta, OUTPUTS)
        assert (await alpha.gather(beta.site, facts_key(), told, tmp_path / "out")).error == ""
        assert landed(tmp_path / "out") == OUTPUTS
        assert (tmp_path / "precious").read_bytes() == b"old"


async def test_own_outputs_move_without_copying_and_may_be_told_twice(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        told = collect(alpha, OUTPUTS)
        inode = (alpha.data.collected(facts_key().subgroup, 1) / "raw.bin").stat().st_ino
        done = await alpha.gather(alpha.site, facts_key(), told, tmp_path / "new" / "out")
        assert (done.error, done.bytes_moved) == ("", 0)
        assert (tmp_path / "new" / "out" / "raw.bin").stat().st_ino == inode
        assert (await alpha.gather(alpha.site, facts_key(), told, tmp_path / "new" / "out")).error == ""
        assert landed(tmp_path / "new" / "out") == OUTPUTS


async def test_an_own_output_with_further_hard_links_is_copied(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        told = collect(alpha, {"a": b"abc"})
        os.link(alpha.data.collected(facts_key().subgroup, 1) / "a", tmp_path / "job-still-holds-it")
        assert (await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")).error == ""
        (tmp_path / "job-still-holds-it").write_bytes(b"xyz")
        assert (tmp_path / "out" / "a").read_bytes() == b"abc"


async def test_an_own_output_that_is_gone_is_an_error_with_its_name(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        done = await alpha.gather(alpha.site, facts_key(), facts("alpha", {"a": b"abc"}), tmp_path / "out")
        assert done.error.startswith("gathering outputs: output a: neither collected at site alpha")


@pytest.mark.parametrize("to", ["", "out"])
async def test_what_an_earlier_attempt_left_goes_and_what_its_user_changed_stays(tmp_path: Path, to: str) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        before = collect(beta, {"0/a": b"old a", "0/b": b"old b", "0/c": b"old c", "0/d": b"old d"})
        where = tmp_path / to if to else ""
        assert (await alpha.gather(beta.site, facts_key(), before, where)).error == ""
        root = Path(where) if where else alpha.data.gathered(GROUP)
        (root / "0/c").write_bytes(b"mine")
        (root / "0/d").unlink()
        (root / "0/d").symlink_to("/etc/passwd")
        key = facts_key(epoch=2)
        told = collect(beta, {"0/a": b"new a"}, key)
        assert (await alpha.gather(beta.site, key, told, where, before.outputs)).error == ""
        (root / "0/d").unlink()
        assert landed(root) == {"0/a": b"new a", "0/c": b"mine"}
        assert (await alpha.gather(beta.site, key, facts("beta", {}), where, told.outputs)).error == ""
        assert landed(root) == {"0/c": b"mine"}


async def test_dropped_outputs_are_gone_and_dropping_twice_is_fine(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, OUTPUTS)
        await alpha.gather(beta.site, facts_key(), told)
        for _ in range(2):
            beta.stager.drop_outputs(facts_key(), told)
        beta.stager.drop_subgroup(facts_key().subgroup)
        await beta.stager.close()
        assert not beta.data.collected(facts_key().subgroup, 1).parent.exists()
        assert landed(alpha.data.gathered(GROUP)) == OUTPUTS


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/diana-evil",
        "a/../../evil",
        "a//b",
        "./a",
        "a\0b",
        "a\nb",
        "",
        "x/..",
        ".diana-part-x",
        "a" * 300,
    ],
)
async def test_a_name_that_leaves_its_folder_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = facts("beta", {})
        told.outputs.append(OutputFile(0, "fine", 3, sha(b"abc")))
        told.outputs.append(OutputFile(0, name, 4, sha(b"evil")))
        for source in (alpha.site, beta.site):
            done = await alpha.gather(source, facts_key(), told, tmp_path / "out")
            assert done.error.startswith("gathering outputs: ") and "\n" not in done.error
            assert done.final, "it stays what it is"
        assert not (tmp_path / "out").exists() and not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", ["symlink", "directory link", "fifo", "device", "directory"])
async def test_what_is_no_regular_file_is_never_served(tmp_path: Path, kind: str) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        secret = write(tmp_path / "secret" / "key", b"abc")
        collected = beta.data.collected(facts_key().subgroup, 1)
        collected.mkdir(parents=True)
        name = "a"
        match kind:
            case "symlink":
                (collected / "a").symlink_to(secret)
            case "directory link":
                (collected / "d").symlink_to(secret.parent)
                name = "d/key"
            case "fifo":
                os.mkfifo(collected / "a")
            case "device":
                if os.geteuid() == 0:
                    os.mknod(collected / "a", 0o20600, os.makedev(1, 5))
                else:
                    (collected / "a").symlink_to("/dev/zero")
            case _:
                (collected / "a").mkdir()
        for site in (alpha, beta):
            done = await site.gather(beta.site, facts_key(), facts("beta", {name: b"abc"}), tmp_path / "out")
            assert done.error
        assert landed(tmp_path / "out") == {}


async def test_a_link_in_the_users_folder_is_replaced_not_followed(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        outside = write(tmp_path / "outside", b"precious")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "a").symlink_to(outside)
        assert (await alpha.gather(beta.site, facts_key(), collect(beta, {"a": b"abc"}), tmp_path / "out")).error == ""
        assert outside.read_bytes() == b"precious"
        assert (tmp_path / "out" / "a").read_bytes() == b"abc" and not (tmp_path / "out" / "a").is_symlink()


async def test_a_link_in_place_of_a_sub_folder_is_not_followed(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        (tmp_path / "outside").mkdir()
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "d").symlink_to(tmp_path / "outside")
        for site in (beta, alpha):
            key = facts_key(batch=0 if site is beta else 1)
            told = collect(site, {"d/a": b"abc"}, key)
            done = await alpha.gather(site.site, key, told, tmp_path / "out")
            assert "d/a" in done.error and done.final
        assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("swapped", ["above/out/d", "above/out", "above"])
async def test_a_folder_swapped_for_a_link_while_files_arrive_never_leads_outside(tmp_path: Path, swapped: str) -> None:
    """Below the folder the user named, that one itself, and one on the way to it: a job may own each."""
    outputs = {f"d/{number}": noise(20_000, number) for number in range(300)}
    outside, out, folder = tmp_path / "outside", tmp_path / "above" / "out", tmp_path / swapped
    outside.mkdir()
    (out / "d").mkdir(parents=True)
    stop = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            os.rename(folder, tmp_path / f"aside-{number}")
            with suppress(FileExistsError):
                os.symlink(outside, folder)
                time.sleep(0.001)
                os.unlink(folder)
            with suppress(OSError):
                os.rename(tmp_path / f"aside-{number}", folder)

    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, outputs)
        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for _ in range(3):
                await alpha.gather(beta.site, facts_key(), told, out)
        finally:
            stop.set()
            swapping.join()
        assert list(outside.iterdir()) == []
        assert (await alpha.gather(beta.site, facts_key(), told, out)).error == ""
        assert landed(out) == outputs


@pytest.mark.parametrize("swapped", ["above/out", "above"])
async def test_a_folder_that_becomes_a_link_after_the_first_file_takes_none_of_the_others(
    tmp_path: Path, swapped: str
) -> None:
    outputs = {f"d/{number}": noise(1 << 20, number) for number in range(40)}
    outside, out, folder = tmp_path / "outside", tmp_path / "above" / "out", tmp_path / swapped
    (outside / "out" / "d").mkdir(parents=True)
    (outside / "d").mkdir()
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        alpha.stager.gather(Gather(ticket=9, source=beta.site, key=facts_key(), to=str(out)), collect(beta, outputs))
        while not (out / "d").is_dir():
            await asyncio.sleep(0.001)
        os.rename(folder, tmp_path / "aside")
        os.symlink(outside, folder)
        assert "link" in (await alpha.done()).error
        assert [path for path in outside.rglob("*") if not path.is_dir()] == []


@pytest.mark.parametrize("swapped", ["above/out", "above"])
@pytest.mark.parametrize("own", [True, False], ids=["own outputs", "those of another site"])
async def test_a_link_on_the_way_to_the_users_folder_is_not_followed(tmp_path: Path, swapped: str, own: bool) -> None:
    """A job put it there since the group was submitted: then it was a path without links."""
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        (tmp_path / "outside").mkdir()
        (tmp_path / swapped).parent.mkdir(exist_ok=True)
        (tmp_path / swapped).symlink_to(tmp_path / "outside")
        site = alpha if own else beta
        done = await alpha.gather(site.site, facts_key(), collect(site, {"a": b"abc"}), tmp_path / "above" / "out")
        assert str(tmp_path / "above" / "out") in done.error and "link" in done.error and "\n" not in done.error
        assert done.final
        assert list((tmp_path / "outside").iterdir()) == []


async def test_a_folder_below_others_that_may_only_be_passed_takes_outputs(tmp_path: Path) -> None:
    """No right to list them is needed, but for the folder a new one is made in."""
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        (tmp_path / "home" / "me").mkdir(parents=True)
        (tmp_path / "home").chmod(0o711)
        done = await alpha.gather(beta.site, facts_key(), collect(beta, {"d/a": b"abc"}), tmp_path / "home/me/new/out")
        assert done.error == "" and landed(tmp_path / "home/me/new/out") == {"d/a": b"abc"}


async def test_names_that_differ_in_case_only_are_two_files(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, {"Hist": b"big", "hist": b"small"})
        assert (await alpha.gather(beta.site, facts_key(), told, tmp_path / "out")).error == ""
        assert landed(tmp_path / "out") == {"Hist": b"big", "hist": b"small"}


async def test_content_that_differs_from_its_checksum_never_gets_its_name(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, {"a": b"abc", "b": b"good"})
        write(beta.data.collected(facts_key().subgroup, 1) / "a", b"abd")
        done = await alpha.gather(beta.site, facts_key(), told, tmp_path / "out")
        assert "checksum" in done.error and "site beta" in done.error and "/a" in done.error
        assert not (tmp_path / "out" / "a").exists() and leftovers(tmp_path / "out") == []


async def test_a_file_longer_or_shorter_than_promised_is_refused(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        for content in (b"abcdef", b"ab"):
            collect(beta, {"a": content})
            done = await alpha.gather(beta.site, facts_key(), facts("beta", {"a": b"abc"}), tmp_path / "out")
            assert "promised" in done.error
            assert landed(tmp_path / "out") == {}


async def test_only_the_origin_of_a_group_may_read_its_outputs_and_logs(tmp_path: Path) -> None:
    async with grid(tmp_path, "gamma", "beta") as (gamma, beta):
        told = collect(beta, {"a": b"abc"})
        write(beta.data.logs(GROUP) / "s0", b"log text")
        for reader in (("site", "gamma"), ("user", "alpha"), ("", ""), ("site", "alpha-1")):
            beta.reader = partial(DataReader, *reader)
            done = await gamma.gather(beta.site, facts_key(), told, tmp_path / "out")
            assert "may not read" in done.error
            with pytest.raises(Exception, match="may not read"):
                [chunk async for chunk in gamma.stager.read(beta.site, f"log:{GROUP}/s0")]


async def test_a_stretch_of_a_log_is_read_from_here_and_from_there(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        text = noise(3_000_000)
        write(beta.data.logs(GROUP) / "s0", text)
        for site in (alpha, beta):
            got = [c async for c in site.stager.read(beta.site, f"log:{GROUP}/s0", 1000, 2_000_000)]
            assert b"".join(got) == text[1000:2_001_000]
            rest = [c async for c in site.stager.read(beta.site, f"log:{GROUP}/s0", 2_999_000)]
            assert b"".join(rest) == text[2_999_000:]


async def test_an_output_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        blocked = write(tmp_path / "file", b"")
        told = collect(beta, {"a": b"abc"})
        for to in (blocked / "out", "relative/out"):
            done = await alpha.gather(beta.site, facts_key(), told, to)
            assert str(to) in done.error and "\n" not in done.error
            assert done.final


async def test_a_cancelled_gather_leaves_no_unfinished_file(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        outputs = {f"f{n}": noise(1 << 20, n) for n in range(40)}
        told = collect(beta, outputs)
        order = Gather(ticket=9, source=beta.site, key=facts_key(), to=str(tmp_path / "out"))
        alpha.stager.gather(order, told)
        while not leftovers(tmp_path / "out"):
            await asyncio.sleep(0.001)
        alpha.stager.cancel(9)
        await alpha.stager.close()
        assert leftovers(tmp_path / "out") == [] and alpha.events.empty()
        for path in (tmp_path / "out").iterdir():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == sha(outputs[path.name])
