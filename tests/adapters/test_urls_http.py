"""SPEC U8: inputs by http URL. Each site reads them itself, once, whole and unchanged, or says why not."""

from __future__ import annotations

import asyncio
import dataclasses
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from diana.engine.journal.effects import LookUp, StageIn
from diana.engine.journal.events import LookedUp, StageDone
from diana.errors import UsageError
from diana.model.data import DataFile, Fetch
from diana.model.ids import SubgroupId
from diana.model.job.urls import link_name
from tests.adapters.staging_grid import QUICK, TestSite, noise, write
from tests.adapters.url_servers import HttpServer, Page

CONTENT = noise(3_000_000)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    server = HttpServer()
    yield server
    server.close()


@pytest.fixture
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestSite]:
    """A test that meets a stall gives its length as a parameter."""
    site = TestSite("alpha", tmp_path, dataclasses.replace(QUICK, stall_s=getattr(request, "param", QUICK.stall_s)))
    yield site
    await site.close()


async def described(site: TestSite, url: str) -> Fetch:
    return Fetch(await site.stager._urls.describe(url), ())


async def staged(site: TestSite, url: str) -> StageDone:
    return await site.stage(await described(site, url))


def content(site: TestSite, url: str) -> bytes:
    return site.staged("url", link_name(url)).read_bytes()


async def test_a_url_is_read_once_and_linked_for_its_jobs(site: TestSite, server: HttpServer) -> None:
    url = server.put("/a/data.bin", CONTENT)
    done = await staged(site, url)
    assert (done.error, done.bytes_moved) == ("", len(CONTENT))
    assert content(site, url) == CONTENT
    again = await site.stage(await described(site, url), subgroup=SubgroupId("alpha-1/1"))
    assert (again.error, again.bytes_moved) == ("", 0)
    assert len(server.gets()) == 1
    assert site.parts_left() == []


def test_a_node_that_meets_no_url_pays_for_none() -> None:
    """PERFORMANCE P7: neither library nor thread."""
    look = (
        "import sys, diana.adapters.staging.stager; print({'aiohttp', 'fsspec', 's3fs', 'asyncssh'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


async def test_two_orders_at_once_share_one_transfer(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT)
    fetch = await described(site, url)
    for number in range(2):
        site.stager.stage_in(StageIn(ticket=site.ticket(), subgroup=SubgroupId(f"alpha-1/{number}"), files=(fetch,)))
    moved = [(await site.done()).bytes_moved for _ in range(2)]
    assert sorted(moved) == [0, len(CONTENT)] and len(server.gets()) == 1


async def test_an_empty_file_and_one_without_etag_are_files(site: TestSite, server: HttpServer) -> None:
    for path, page in (("/empty", Page(b"")), ("/bare", Page(b"x", etag=""))):
        server.pages[path] = page
        done = await staged(site, server.url(path))
        assert done.error == "" and content(site, server.url(path)) == page.content


async def test_a_server_without_head_is_asked_for_one_byte(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT, head_status=405)
    assert (await staged(site, url)).error == "" and content(site, url) == CONTENT


async def test_a_broken_transfer_goes_on_where_it_stopped(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT, breaks_after=[1_000_000, 1_000_000])
    done = await staged(site, url)
    assert done.error == "" and content(site, url) == CONTENT
    starts = [int(asked[2].removeprefix("bytes=").rstrip("-") or 0) for asked in server.gets()]
    assert len(starts) == 3 and starts == sorted(starts) and starts[2] > 1_000_000
    assert done.bytes_moved == len(CONTENT)


async def test_a_server_without_ranges_is_read_anew_and_nothing_is_doubled(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT, ranges=False, breaks_after=[1_500_000])
    assert (await staged(site, url)).error == "" and content(site, url) == CONTENT


async def test_a_file_that_changes_between_placing_and_staging_is_refused(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT)
    fetch = await described(site, url)
    server.put("/data.bin", CONTENT[::-1], etag='"2"')
    done = await site.stage(fetch)
    assert "data.bin at site alpha: changed" in done.error and done.final
    assert not site.staged("url", link_name(url)).exists() and site.parts_left() == []


async def test_a_file_that_changes_while_it_is_read_is_refused(site: TestSite, server: HttpServer) -> None:
    after = Page(CONTENT[::-1], etag='"2"')
    url = server.put("/data.bin", CONTENT, then=after)
    assert "changed" in (await staged(site, url)).error
    url = server.put("/other.bin", CONTENT, then=after, breaks_after=[1000])
    assert "changed" in (await staged(site, url)).error
    assert site.parts_left() == [] and list(site.data.root.glob("cache/*/*")) == []


@pytest.mark.wide
@pytest.mark.parametrize("site", [1.0], indirect=True)
async def test_a_server_that_stalls_is_given_up_and_its_part_kept_out_of_sight(
    site: TestSite, server: HttpServer
) -> None:
    url = server.put("/data.bin", CONTENT, stalls_after=1_200_000)
    done = await asyncio.wait_for(staged(site, url), 60)
    assert "data.bin at site alpha: " in done.error and "silent" in done.error and not done.final
    assert not site.staged("url", link_name(url)).exists()
    assert len(site.parts_left()) == 1
    server.put("/data.bin", CONTENT)
    done = await staged(site, url)
    assert done.error == "" and content(site, url) == CONTENT and 0 < done.bytes_moved < len(CONTENT)


async def test_a_cancelled_order_leaves_nothing_and_says_nothing(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT, stalls_after=1_200_000)
    fetch = await described(site, url)
    ticket = site.ticket()
    site.stager.stage_in(StageIn(ticket=ticket, subgroup=SubgroupId("alpha-1/0"), files=(fetch,)))
    while not site.parts_left():
        await asyncio.sleep(0.01)
    site.stager.cancel(ticket)
    await asyncio.wait_for(site.idle(), 60)
    assert site.events.empty() and site.parts_left() == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (None, "not there (HTTP 404)"),
        (Page(b"x", status=403), "not readable without an account (HTTP 403)"),
        (Page(b"x", status=500), "HTTP 500"),
        (Page(b"x", sized=False), "does not tell its size"),
    ],
)
async def test_what_cannot_be_read_is_told_at_the_look_up(
    site: TestSite, server: HttpServer, page: Page | None, said: str
) -> None:
    if page is not None:
        server.pages["/data.bin"] = page
    answers: asyncio.Queue[LookedUp] = asyncio.Queue()
    site.stager._emit = answers.put_nowait  # type: ignore[assignment]
    ref = f"url:{server.url('/data.bin')}"
    good = f"url:{server.put('/good', b'good')}"
    site.stager.look_up(LookUp(ticket=7, refs=(good, ref)))
    answer = await asyncio.wait_for(answers.get(), 60)
    assert [file.ref for file in answer.found] == [good] and answer.found[0].size_bytes == 4
    [(failed, why)] = answer.failed
    assert failed == ref and said in why and "data.bin at site alpha" in why and "\n" not in why


async def test_an_unreachable_server_is_one_line(site: TestSite) -> None:
    fetch = Fetch(DataFile("url:http://127.0.0.1:1/data.bin", 5, "0" * 64), ())
    done = await asyncio.wait_for(site.stage(fetch), 60)
    assert "data.bin at site alpha: the server cannot be reached" in done.error


async def test_identities_tell_versions_and_urls_apart(site: TestSite, server: HttpServer) -> None:
    one = await site.stager._urls.describe(server.put("/a", b"1"))
    assert one == DataFile(f"url:{server.url('/a')}", 1, one.sha256) and len(one.sha256) == 64
    assert (await site.stager._urls.describe(server.url("/a"))) == one
    other = await site.stager._urls.describe(server.put("/b", b"1"))
    newer = await site.stager._urls.describe(server.put("/a", b"1", etag='"2"'))
    assert len({one.sha256, other.sha256, newer.sha256}) == 3


async def test_nobodys_account_goes_along(site: TestSite, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = write(site.data.root / "netrc", b"machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert (await staged(site, server.put("/data.bin", b"x"))).error == ""
    assert all("Authorization" not in headers and "Cookie" not in headers for headers in server.headers)


async def test_a_proxy_of_the_nodes_environment_is_used(
    site: TestSite, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://far.example/data.bin"
    server.pages[url] = Page(b"far")
    monkeypatch.setenv("http_proxy", server.url(""))
    assert (await staged(site, url)).error == "" and content(site, url) == b"far"
    assert {asked[1] for asked in server.asked} == {url}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert (await staged(site, server.put("/near", b"near"))).error == ""


async def test_redirects_are_followed_only_to_what_is_allowed(site: TestSite, server: HttpServer) -> None:
    server.put("/real", b"real")
    url = server.put("/moved", b"", status=302, location="/real")
    assert (await staged(site, url)).error == "" and content(site, url) == b"real"
    site.stager.allow_urls([server.url("/moved")])
    with pytest.raises(UsageError, match="not allowed here"):
        await described(site, url)
    site.stager.allow_urls(["http://"])
    loop = server.put("/loop", b"", status=302, location="/loop")
    with pytest.raises(UsageError, match="sent on more than"):
        await described(site, loop)
    away = server.put("/away", b"", status=302, location="file:///etc/passwd")
    with pytest.raises(UsageError, match="not followed"):
        await described(site, away)


async def test_a_url_the_operator_did_not_list_is_a_staging_error_with_its_mend(
    site: TestSite, server: HttpServer
) -> None:
    fetch = await described(site, server.put("/data.bin", b"x"))
    site.stager.allow_urls(["https://"])
    done = await site.stage(fetch)
    assert f"{server.url('/data.bin')} at site alpha: not allowed here" in done.error
    assert 'may add "http://127.0.0.1' in done.error and "staging.urls" in done.error
    assert done.final, "nobody needs to ask again"


async def test_more_bytes_than_promised_never_get_a_name(site: TestSite, server: HttpServer) -> None:
    fetch = await described(site, server.put("/data.bin", b"12345"))
    short = msgspec.structs.replace(fetch, file=msgspec.structs.replace(fetch.file, size_bytes=3))
    assert "more than the promised 3 bytes" in (await site.stage(short)).error
    assert site.parts_left() == []


async def test_transfers_are_bounded_in_number_and_rate(tmp_path: Path, server: HttpServer) -> None:
    limits = dataclasses.replace(QUICK, url_streams=2, rate_bytes_per_s=2_000_000)
    site = TestSite("alpha", tmp_path, limits)
    try:
        urls = [server.put(f"/{n}", noise(200_000, n)) for n in range(6)]
        fetches = [await described(site, url) for url in urls]
        began = asyncio.get_running_loop().time()
        done = await site.stage(*fetches)
        took_s = asyncio.get_running_loop().time() - began
        assert done.error == "" and done.bytes_moved == 1_200_000
        assert took_s > 0.4 and server.most_at_once <= 2
    finally:
        await site.close()


async def test_a_full_disk_names_file_and_site(tmp_path: Path, server: HttpServer) -> None:
    site = TestSite("alpha", tmp_path)
    try:
        url = server.put("/data.bin", CONTENT)
        fetch = await described(site, url)
        huge = msgspec.structs.replace(fetch, file=msgspec.structs.replace(fetch.file, size_bytes=1 << 60))
        done = await site.stage(huge)
        assert url in done.error and "at site alpha" in done.error and "free some space" in done.error
    finally:
        await site.close()


async def test_a_disk_that_fills_up_meanwhile_leaves_nothing_under_a_name(site: TestSite, server: HttpServer) -> None:
    url = server.put("/data.bin", CONTENT)
    fetch = await described(site, url)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, hard))
    try:
        done = await site.stage(fetch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert f"{url}: cannot be written below {site.data.root}" in done.error and "make room" in done.error
    assert not site.staged("url", link_name(url)).exists()
    assert site.parts_left() == [], "on a full disk an unfinished file is in the way"
    assert (await site.stage(fetch)).error == "" and content(site, url) == CONTENT


async def test_urls_are_read_on_a_thread_of_their_own_that_ends_with_the_node(
    tmp_path: Path, server: HttpServer
) -> None:
    def threads() -> int:
        return sum(thread.name == "diana-urls" for thread in threading.enumerate())

    site = TestSite("alpha", tmp_path)
    assert threads() == 0
    assert (await staged(site, server.put("/data.bin", CONTENT))).error == ""
    assert threads() == 1
    await site.close()
    assert threads() == 0
