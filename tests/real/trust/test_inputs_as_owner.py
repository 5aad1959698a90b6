"""Inputs by `file:` are read by a process of their owner's account: the owner's rights decide, no link that somebody
swaps in leads out of what the operator allows, and what one account read is no other's."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.runas.accounts import Accounts
from diana.adapters.staging.urls.owned import OwnedStore, OwnNames
from diana.adapters.staging.urls.stores import Changed, Version
from diana.errors import Unreachable, UsageError
from diana.model.data import Fetch
from diana.model.ids import SubgroupId
from diana.model.job.urls import check_url, link_name
from diana.node.config.running_as import OwnersInputs
from diana.node.config.site_file import Staging, load_config
from diana.node.config.text import write_config
from tests.adapters.staging_grid import QUICK, TestSite, noise
from tests.e2e.grid import Grid, Site, outcomes
from tests.real.accounts import accounts, map_accounts
from tests.real.members import add_member
from tests.real.trust.test_run_as import Made

ANN, BOB = "root@alpha-vo", "bob@alpha-vo"
PATIENT = dataclasses.replace(QUICK, stall_s=5.0)
"""A busy machine is no stopped program."""
BOBS = SubgroupId("alpha-2/0")
REFUSED = "permission denied for account ann-i"


@pytest.fixture(scope="module")
def people() -> Iterator[Made]:
    with accounts("ann-i", "bob-i") as made:
        yield made


@pytest.fixture
def shared(grid: Grid, people: Made) -> Path:
    """A folder that the operator lists, with a file of ann's, one of root's, and a folder of ann's."""
    grid.root.chmod(0o755)
    made = grid.root / "shared"
    made.mkdir()
    for name, uid in (("anns", people["ann-i"].pw_uid), ("roots", 0)):
        (made / name).write_text(f"of {name}")
        (made / name).chmod(0o600)
        os.chown(made / name, uid, -1)
    (made / "folder").mkdir()
    os.chown(made / "folder", people["ann-i"].pw_uid, -1)
    return made


@pytest.fixture
def node(grid: Grid, shared: Path) -> Site:
    """A node of root's; root's jobs run as ann-i."""
    alpha = grid.add("alpha", slots=2)
    map_accounts(grid.root / "libexec", alpha.data, {ANN: "ann-i"})
    allow(alpha, shared)
    grid.join()
    grid.start()
    return alpha


@pytest.fixture
async def site(grid: Grid, shared: Path, tmp_path: Path) -> AsyncIterator[TestSite]:
    """A stager that becomes ann-i for ann and bob-i for bob."""
    program = map_accounts(grid.root / "libexec", grid.add("alpha").data, {ANN: "ann-i", BOB: "bob-i"})
    site = TestSite("alpha", tmp_path / "sites", PATIENT)
    site.data.keys.mkdir(mode=0o700)
    site.stager.allow_urls([f"file://{shared}/"])
    site.stager.read_by(OwnersInputs(Accounts({ANN: "ann-i", BOB: "bob-i"}, str(program))))
    yield site
    await site.close()


def allow(site: Site, shared: Path) -> None:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, staging=Staging(urls=(f"file://{shared}/",))))


async def described(site: TestSite, url: str, owner: str = ANN) -> Fetch:
    return Fetch(await site.stager._urls.describe(url, owner), ())


def job(url: str) -> dict[str, object]:
    return {"group": {"command": ["cat", "in"]}, "inputs": [{"url": url, "path": "in"}]}


# --- a real node ---------------------------------------------------------------------------------------------


def test_a_job_reads_what_its_owner_may_read_and_nothing_that_only_the_node_may(node: Site, shared: Path) -> None:
    with node.client() as client:
        group = client.submit(job(f"file://{shared}/anns")).group
        client.wait(group, timeout_s=40.0)
        assert outcomes(client, group) == {0: "done"}, client.status([group])
        assert b"".join(chunk.data for chunk in client.logs(f"{group}.0")) == b"of anns"
        with pytest.raises(UsageError) as refusal:
            client.submit(job(f"file://{shared}/roots"))
        assert f"file://{shared}/roots at site alpha: {REFUSED}" in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_a_machine_of_the_site_reads_as_the_account_that_its_own_list_says(grid: Grid, shared: Path) -> None:
    root = grid.add("alpha", slots=0)
    map_accounts(grid.root / "libexec", root.data, {ANN: "ann-i"})
    allow(root, shared)
    grid.join()
    root.start()
    member = add_member(grid, root, "m1")
    map_accounts(grid.root / "libexec-m1", member.data, {ANN: "bob-i"})
    member.start()
    (shared / "all").write_text("of all")
    with root.client() as client:
        groups = [client.submit(job(f"file://{shared}/{name}")).group for name in ("all", "anns")]
        for group in groups:
            client.wait(group, timeout_s=40.0)
        assert b"".join(chunk.data for chunk in client.logs(f"{groups[0]}.0")) == b"of all"
        (result,) = client.results(groups[1])
        assert result.outcome == "staging_failed" and "permission denied for account bob-i" in result.error, result


# --- a stager with the real program --------------------------------------------------------------------------


async def test_what_one_account_read_into_the_cache_another_that_may_not_read_it_does_not_get(
    site: TestSite, shared: Path
) -> None:
    url = f"file://{shared}/anns"
    fetch = await described(site, url)
    assert (await site.stage(fetch, owner=ANN)).error == ""
    link = site.staged("url", link_name(url))
    assert link.read_text() == "of anns"
    # Whoever can see the file's size and time knows its identity.
    assert not site.data.cached(fetch.file.sha256).exists()
    done = await site.stage(fetch, subgroup=BOBS, owner=BOB)
    assert "permission denied for account bob-i" in done.error and done.final
    assert not site.staged("url", link_name(url), subgroup=BOBS).exists()
    assert "no account here runs jobs of eve@x" in (await site.stage(fetch, subgroup=BOBS, owner="eve@x")).error
    with pytest.raises(UsageError, match="no account here runs jobs of"):
        await described(site, url, owner="")
    # Once there it is not read again.
    (shared / "anns").unlink()
    again = await site.stage(fetch, subgroup=SubgroupId("alpha-3/0"), owner=ANN)
    assert (again.error, again.bytes_moved) == ("", 0)


def test_names_in_the_cache_are_of_one_account_and_one_node_and_outlive_a_restart(tmp_path: Path) -> None:
    identity = "1" * 64
    first, again, other = OwnNames(tmp_path / "a"), OwnNames(tmp_path / "a"), OwnNames(tmp_path / "b")
    names = {first.name("ann", identity), first.name("bob", identity), other.name("ann", identity), identity}
    assert len(names) == 4 and again.name("ann", identity) in names
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


async def test_no_link_above_the_file_or_in_its_place_is_followed_also_not_to_what_the_owner_may_read(
    site: TestSite, shared: Path
) -> None:
    outside = shared.parent / "outside"
    outside.mkdir()
    (outside / "in").write_text("not listed")
    (shared / "folder" / "in").write_text("listed")
    (shared / "link").symlink_to(outside / "in")
    (shared / "ways").symlink_to(outside)
    os.mkfifo(shared / "fifo")
    for name in ("link", "ways/in", "folder", "fifo"):
        with pytest.raises(UsageError, match="no regular file, or a link on the way"):
            await described(site, f"file://{shared}/{name}")
    (shared / "in").write_text("of another folder")
    with pytest.raises(UsageError, match="not there"):
        await described(site, f"file://{shared}/none/in")
    # Between check and use.
    fetch = await described(site, f"file://{shared}/folder/in")
    (shared / "folder").rename(shared / "was")
    (shared / "folder").symlink_to(outside)
    os.utime(outside / "in", ns=(0, (shared / "was" / "in").stat().st_mtime_ns))
    done = await site.stage(fetch, owner=ANN)
    assert "a link on the way" in done.error and done.final
    site.stager.allow_urls(["file:///"])
    with pytest.raises(UsageError, match="lies in the node's data directory"):
        await described(site, f"file://{site.data.catalogue}")


async def test_a_folder_swapped_for_a_link_at_any_moment_never_leads_outside(site: TestSite, shared: Path) -> None:
    outside, folder, was = shared.parent / "outside", shared / "folder", shared / "was"
    outside.mkdir()
    (folder / "in").write_bytes(noise(100_000, 1))
    (outside / "in").write_bytes(noise(100_000, 2))
    for path in (folder / "in", outside / "in"):
        os.utime(path, ns=(0, 0))
    fetch = await described(site, f"file://{folder}/in")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            folder.rename(was)
            folder.symlink_to(outside)
            folder.unlink()
            was.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(12):
            part = SubgroupId(f"alpha-1/{number}")
            done = await site.stage(fetch, subgroup=part, owner=ANN)
            link = site.staged("url", link_name(f"file://{folder}/in"), subgroup=part)
            assert done.error or link.read_bytes() == noise(100_000, 1)
            if not done.error:
                os.unlink(os.path.realpath(link))
    finally:
        over.set()
        swapping.join()


async def test_a_large_file_comes_whole_and_one_that_changed_does_not(site: TestSite, shared: Path) -> None:
    path = shared / "folder" / "large"
    path.write_bytes(noise(5_000_000))
    fetch = await described(site, f"file://{path}")
    done = await site.stage(fetch, owner=ANN)
    assert (done.error, done.bytes_moved) == ("", 5_000_000)
    assert site.staged("url", link_name(f"file://{path}")).read_bytes() == noise(5_000_000)
    path.write_bytes(noise(5_000_000, 2))
    other = msgspec.structs.replace(fetch.file, sha256="1" * 64)
    assert "changed while it was read" in (await site.stage(Fetch(other, ()), owner=ANN)).error
    assert site.stager._urls.owners is not None
    store = OwnedStore(site.stager._urls.owners, "ann-i", site.data.root)
    url = check_url(f"file://{path}")
    version = await store.look(url)
    rest = [chunk async for chunk in store.read(url, version, 4_000_000)]
    assert b"".join(rest) == noise(5_000_000, 2)[4_000_000:]
    with pytest.raises(Changed):
        await anext(store.read(url, Version(version.size_bytes, "0"), 0))
    (shared / "folder" / "empty").write_bytes(b"")
    empty = await described(site, f"file://{shared}/folder/empty")
    assert (await site.stage(empty, owner=ANN)).error == ""


async def test_an_account_that_stops_its_readers_holds_up_nobody_else(
    site: TestSite, shared: Path, tmp_path: Path
) -> None:
    """The account's jobs may signal whatever runs as it."""
    (shared / "anns").chmod(0o644)
    program = tmp_path / "program"
    real = shared.parent / "libexec" / "diana-run-as"
    program.write_text(f'#!/bin/sh\n[ "$2" = ann-i ] && kill -STOP $$\nexec {real} "$@"\n')
    program.chmod(0o755)
    site.stager.read_by(OwnersInputs(Accounts({ANN: "ann-i", BOB: "bob-i"}, str(program))))
    url = f"file://{shared}/anns"
    anns = [asyncio.create_task(site.stager._urls.describe(url, ANN)) for _ in range(20)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(PATIENT.stall_s * 0.8):
        assert (await site.stager._urls.describe(url, BOB)).size_bytes == len("of anns")
    with pytest.raises(Unreachable, match="the server fell silent"):
        await anns[0]
    for task in anns:
        task.cancel()
    await asyncio.gather(*anns, return_exceptions=True)
    left = subprocess.run(["pgrep", "-f", f"{program} get"], capture_output=True, check=False)
    assert left.stdout == b""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'diana-run-as: usage: diana-run-as check|run ACCOUNT' >&2; exit 125", "is of an older release"),
        ("echo 'sudo: a password is required' >&2; exit 1", "a password is required"),
        ('echo \'{"size": "x", "mtime_ns": 1}\'', "ended with 0"),
        ("echo no line of json; exit 3", "ended with 3"),
        ("yes | head -c 3000000 | tr -d '\\n'", "ended with"),
    ],
)
async def test_a_program_that_does_not_do_it_is_told_in_one_line(
    site: TestSite, shared: Path, tmp_path: Path, text: str, said: str
) -> None:
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\n[ "$1" = check ] && exit 0\n{text}\n')
    program.chmod(0o755)
    site.stager.read_by(OwnersInputs(Accounts({ANN: "ann-i"}, str(program))))
    (found,) = (await site.look_up(f"url:file://{shared}/anns", owner=ANN)).failed
    assert said in found[1] and "\n" not in found[1], found
