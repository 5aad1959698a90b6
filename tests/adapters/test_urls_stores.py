"""SPEC U8, J5: inputs from and outputs to s3, sftp and file URLs, against real servers on loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.staging.urls.s3 import S3Store
from diana.adapters.staging.urls.stores import StoreUpload
from diana.engine.journal.effects import Gather
from diana.errors import Unreachable, UsageError
from diana.model.data import Fetch
from diana.model.indexset import IndexSet
from diana.model.job.urls import check_url, link_name
from tests.adapters.staging_grid import QUICK, TestSite, collect, facts_key, noise, write
from tests.adapters.url_servers import S3, SftpServer, s3_environment, s3_server

CONTENT = noise(2_500_000)
PATIENT = dataclasses.replace(QUICK, stall_s=60.0, patience_s=1.0)
"""A busy machine is no stalled server."""
OUTPUTS = {"a.txt": b"a", "deep/b.bin": noise(1_300_000, 2), "empty": b""}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in s3_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    return S3(endpoint)


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SftpServer]:
    server = SftpServer(tmp_path / "remote", tmp_path / "home")
    monkeypatch.setenv("HOME", str(server.home))
    yield server
    server.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[TestSite]:
    site = TestSite("alpha", tmp_path / "sites", PATIENT)
    site.stager.allow_urls(["s3://", "sftp://", f"file://{tmp_path}/shared/"])
    yield site
    await site.close()


async def described(site: TestSite, url: str) -> Fetch:
    return Fetch(await site.stager._urls.describe(url), ())


def content(site: TestSite, url: str) -> bytes:
    return site.staged("url", link_name(url)).read_bytes()


async def check_input(site: TestSite, url: str, change: Callable[[], object]) -> None:
    """Whole; then changed since it was placed; then gone."""
    fetch = await described(site, url)
    done = await site.stage(fetch)
    assert (done.error, done.bytes_moved) == ("", len(CONTENT)) and content(site, url) == CONTENT
    change()
    newer = await described(site, url)
    assert newer.file.sha256 != fetch.file.sha256
    other = msgspec.structs.replace(fetch.file, sha256="1" * 64)
    assert "changed" in (await site.stage(Fetch(other, ()))).error
    with pytest.raises(UsageError, match=r"missing at site alpha: not there"):
        await described(site, url + "missing")
    assert site.parts_left() == []


async def check_outputs(site: TestSite, to: str, read: Callable[[str], bytes]) -> None:
    """Gathered here and sent on; told again nothing changes, and only what counts is sent."""
    key = facts_key()
    told = collect(site, OUTPUTS)
    done = await site.gather(site.site, key, told, to)
    assert done.error == ""
    assert {name: read(name) for name in OUTPUTS} == OUTPUTS
    own = site.data.gathered(key.group)
    assert {name: (own / name).read_bytes() for name in OUTPUTS} == OUTPUTS
    again = await site.gather(site.site, key, told, to)
    assert again.error == "" and {name: read(name) for name in OUTPUTS} == OUTPUTS


async def test_an_s3_object_is_an_input(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("inputs")
    url = s3.put(bucket, "folder/data.bin", CONTENT)
    await check_input(site, url, lambda: s3.put(bucket, "folder/data.bin", CONTENT[::-1]))


async def test_s3_outputs_are_whole_objects_and_a_second_upload_moves_nothing(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("outputs")
    await check_outputs(site, f"s3://{bucket}/run/", lambda name: s3.get(bucket, f"run/{name}"))
    assert s3.keys(bucket) == sorted(f"run/{name}" for name in OUTPUTS)
    before = s3.client.head_object(Bucket=bucket, Key="run/a.txt")["LastModified"]
    again = await site.gather(site.site, facts_key(), collect(site, {}), f"s3://{bucket}/run")
    assert again.error == "" and again.bytes_moved == 0
    assert s3.client.head_object(Bucket=bucket, Key="run/a.txt")["LastModified"] == before


@pytest.mark.wide
async def test_a_large_output_goes_up_in_parts(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("large")
    big = noise(40 << 20)
    done = await site.gather(site.site, facts_key(), collect(site, {"big": big}), f"s3://{bucket}")
    assert done.error == "" and s3.get(bucket, "big") == big


@pytest.mark.wide
async def test_an_upload_that_is_cancelled_leaves_nothing_behind(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("cancelled")
    told = collect(site, {"big": noise(100 << 20)})
    ticket = site.ticket()
    site.stager.gather(Gather(ticket=ticket, source=site.site, key=facts_key(), to=f"s3://{bucket}"), told)
    begun: object = None
    while not begun:
        answer = await asyncio.to_thread(s3.client.list_multipart_uploads, Bucket=bucket)
        begun = answer.get("Uploads")
    site.stager.cancel(ticket)
    await asyncio.wait_for(site.idle(), 60)
    assert s3.keys(bucket) == [] and not s3.client.list_multipart_uploads(Bucket=bucket).get("Uploads")
    assert site.events.empty()


@pytest.mark.wide
async def test_an_upload_that_is_cancelled_before_the_store_answered_leaves_nothing_behind(
    s3: S3, tmp_path: Path
) -> None:
    bucket, store = s3.bucket("unanswered"), S3Store(10.0)
    path = tmp_path / "big"
    path.write_bytes(noise(17 << 20))
    asked, begun = store._files._call_s3, asyncio.Event()

    async def late(method: str, *args: object, **more: object) -> object:
        answer = await asked(method, *args, **more)
        if method == "create_multipart_upload":
            begun.set()
            await asyncio.sleep(0.2)
        return answer

    store._files._call_s3 = late
    writing = asyncio.create_task(store.write(check_url(f"s3://{bucket}/big"), StoreUpload(path, 17 << 20, "0" * 64)))
    await begun.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert not s3.client.list_multipart_uploads(Bucket=bucket).get("Uploads")
    await store.close()


async def test_an_output_that_changed_since_it_was_gathered_is_not_put_there(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("tampered")
    told = collect(site, {"a": b"good"})
    assert (await site.gather(site.site, facts_key(), told)).error == ""
    upload = StoreUpload(write(site.data.root / "x", b"evil"), 4, told.outputs[0].sha256)
    with pytest.raises(UsageError, match=rf"s3://{bucket}/a at site alpha: .*/x: changed since it was gathered"):
        await site.stager._urls.write(f"s3://{bucket}", [("a", upload)])
    assert s3.keys(bucket) == []


async def test_a_retried_jobs_outputs_are_not_sent(site: TestSite, s3: S3) -> None:
    bucket = s3.bucket("retried")
    told = collect(site, {"old.txt": b"old"})
    order = Gather(
        ticket=site.ticket(),
        source=site.site,
        key=facts_key(),
        to=f"s3://{bucket}",
        skip=IndexSet.span(0, 1),
    )
    site.stager.gather(order, told)
    assert (await site.done()).error == "" and s3.keys(bucket) == []


async def test_a_bucket_that_is_not_there_or_not_reachable_is_one_line(
    site: TestSite, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await site.gather(site.site, facts_key(), collect(site, {"a": b"a"}), "s3://nobodys-bucket/x")
    assert "s3://nobodys-bucket/x/a at site alpha: no such bucket" in done.error
    assert (site.data.gathered(facts_key().group) / "a").read_bytes() == b"a"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    other = TestSite("beta", site.data.root.parent, PATIENT)
    other.stager.allow_urls(["s3://"])
    try:
        with pytest.raises(Unreachable, match=r"s3://inputs/a at site beta: the store cannot be reached"):
            await described(other, "s3://inputs/a")
    finally:
        await other.close()


async def test_a_node_without_credentials_says_so(site: TestSite, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UsageError, match=r"s3://inputs/a at site alpha: the node has no credentials"):
        await described(site, "s3://inputs/a")


async def test_a_file_of_an_sftp_host_is_an_input(site: TestSite, sftp: SftpServer) -> None:
    path = write(sftp.root / "data/in put.bin", CONTENT)

    def change() -> None:
        path.write_bytes(CONTENT[::-1])
        os.utime(path, (1, 1))

    await check_input(site, sftp.url("/data/in put.bin"), change)


async def test_sftp_outputs_appear_under_their_final_names_only(site: TestSite, sftp: SftpServer) -> None:
    write(sftp.root / "out/a.txt", b"what stood there before")
    await check_outputs(site, sftp.url("/out"), lambda name: (sftp.root / "out" / name).read_bytes())
    left = [path for path in sftp.root.rglob("*") if path.is_file()]
    assert sorted(path.relative_to(sftp.root / "out").as_posix() for path in left) == sorted(OUTPUTS)


async def test_an_sftp_host_nobody_knows_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SftpServer(tmp_path / "remote", tmp_path / "home", known=False)
    monkeypatch.setenv("HOME", str(server.home))
    write(server.root / "a", b"a")
    site = TestSite("alpha", tmp_path / "sites")
    site.stager.allow_urls(["sftp://"])
    try:
        with pytest.raises(UsageError, match=r"the server's host key is not known here"):
            await described(site, server.url("/a"))
    finally:
        await site.close()
        server.close()


async def test_what_the_account_may_not_read_is_denied(site: TestSite, sftp: SftpServer) -> None:
    write(sftp.root / "locked/a", b"a")
    with pytest.raises(UsageError, match=r"/locked/a at site alpha: permission denied"):
        await described(site, sftp.url("/locked/a"))
    with pytest.raises(UsageError, match="no regular file"):
        await described(site, sftp.url("/locked"))


@pytest.mark.wide
async def test_an_sftp_host_that_goes_away_is_met_again_when_it_is_back(site: TestSite, sftp: SftpServer) -> None:
    write(sftp.root / "a", b"a")
    fetch = await described(site, sftp.url("/a"))
    sftp.close()
    done = await site.stage(fetch)
    assert "/a at site alpha: " in done.error and "server" in done.error
    sftp.start()
    assert (await site.stage(fetch)).error == "" and content(site, sftp.url("/a")) == b"a"


@pytest.mark.wide
async def test_an_sftp_host_that_stalls_is_given_up(site: TestSite, sftp: SftpServer, tmp_path: Path) -> None:
    write(sftp.root / "a", b"a")
    fetch = await described(site, sftp.url("/a"))
    hasty = TestSite("beta", tmp_path / "sites", dataclasses.replace(QUICK, stall_s=1.0))
    hasty.stager.allow_urls(["sftp://"])
    sftp.pause()
    try:
        done = await asyncio.wait_for(hasty.stage(fetch), 60)
        assert "/a at site beta: the server" in done.error
    finally:
        await hasty.close()


async def test_a_shared_folder_gives_inputs_and_takes_outputs(site: TestSite, tmp_path: Path) -> None:
    path = write(tmp_path / "shared/in/data.bin", CONTENT)
    await check_input(site, f"file://{path}", lambda: path.write_bytes(CONTENT[::-1]))
    out = tmp_path / "shared/out"
    await check_outputs(site, f"file://{out}", lambda name: (out / name).read_bytes())
    assert stat.S_IMODE((out / "a.txt").stat().st_mode) == 0o644


async def test_no_link_and_no_way_round_leads_out_of_an_allowed_folder(site: TestSite, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret/key", b"key")
    shared = write(tmp_path / "shared/a", b"a").parent
    (shared / "link").symlink_to(secret)
    (shared / "folder").symlink_to(secret.parent)
    for name in ("link", "folder/key"):
        with pytest.raises(UsageError, match="a link on the way"):
            await described(site, f"file://{shared}/{name}")
    for url in (f"file://{secret}", f"file://{shared}/../secret/key", f"file://{shared}-other/a"):
        with pytest.raises(UsageError):
            await described(site, url)
    done = await site.gather(site.site, facts_key(), collect(site, {"new": b"x"}), f"file://{shared}/folder")
    assert "a link on the way" in done.error and not (secret.parent / "new").exists()
    site.stager.allow_urls(["file:///"])
    with pytest.raises(UsageError, match="lies in the node's data directory"):
        await described(site, f"file://{site.data.catalogue}")


async def test_outputs_to_a_place_not_listed_stay_gathered_and_say_so(site: TestSite, tmp_path: Path) -> None:
    done = await site.gather(site.site, facts_key(), collect(site, {"a": b"a"}), f"file://{tmp_path}/elsewhere")
    assert "at site alpha: not allowed here" in done.error and "staging.urls" in done.error
    assert (site.data.gathered(facts_key().group) / "a").read_bytes() == b"a"
