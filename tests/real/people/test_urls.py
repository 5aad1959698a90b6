"""SPEC U8, J5 on real nodes: a group over two sites reads http and s3 inputs itself and leaves its outputs at URLs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from diana.errors import Unplaceable, UsageError
from diana.node.config.site_file import Staging, load_config
from diana.node.config.text import write_config
from tests.adapters.staging_grid import noise
from tests.adapters.url_servers import S3, HttpServer, SftpServer, s3_environment, s3_server
from tests.e2e.grid import Grid, Site, Starts, outcomes, timely

pytestmark = pytest.mark.e2e

JOBS = 12


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def http() -> Iterator[HttpServer]:
    server = HttpServer()
    yield server
    server.close()


def allow(site: Site, *prefixes: str) -> None:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, staging=Staging(urls=prefixes)))


def two_sites(grid: Grid, *prefixes: str) -> tuple[Site, Site]:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    for site in (alpha, beta):
        allow(site, "http://", *prefixes)
    grid.start()
    return alpha, beta


def job(starts: Starts, common: str, part: str, to: str) -> dict[str, object]:
    return {
        **starts.job(
            JOBS, then=["sh", "-c", "sleep 0.2; cat common part > out-$DIANA_INDEX.bin"], max_subgroup=JOBS // 2
        ),
        "inputs": [{"url": common, "path": "common"}, {"url": part, "path": "part"}],
        "outputs": {"collect": ["out-{array}.bin"], "to": to, "merge": ["sh", "-c", "cat out-*.bin > all.bin"]},
    }


def check(grid: Grid, alpha: Site, submitted: dict[str, object], read: Callable[[str], bytes], what: bytes) -> None:
    with alpha.client() as client:
        group = client.submit(submitted).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", JOBS, 0), status
        assert set(outcomes(client, group).values()) == {"done"}
        for k in range(JOBS):
            assert read(f"out-{k}.bin") == what + b"part-%d" % k
        fetched = grid.root / "fetched"
        client.fetch(group, fetched)
        assert (fetched / "out-3.bin").read_bytes() == what + b"part-3"
        assert len((fetched / "all.bin").read_bytes()) == sum(len(what) + len(f"part-{k}") for k in range(JOBS))


def test_http_and_s3_inputs_and_s3_outputs(
    grid: Grid, starts: Starts, http: HttpServer, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    s3 = S3(endpoint)
    bucket = s3.bucket("results")
    what = noise(500_000)
    # Longer than a placement waits for quotes.
    common = http.put("/common.bin", what, delay_s=2.5)
    for k in range(JOBS):
        s3.put(bucket, f"in/part-{k}", b"part-%d" % k)
    alpha, _ = two_sites(grid, f"s3://{bucket}/")
    submitted = job(starts, common, f"s3://{bucket}/in/part-{{array}}", f"s3://{bucket}/out")
    check(grid, alpha, submitted, lambda name: s3.get(bucket, f"out/{name}"), what)
    assert starts.sites() == {"alpha", "beta"}
    # Once at each site, however many jobs read it.
    assert len(http.gets()) == 2


def test_sftp_inputs_and_outputs(
    grid: Grid, starts: Starts, http: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sftp = SftpServer(tmp_path / "remote", tmp_path / "home")
    monkeypatch.setenv("HOME", str(sftp.home))
    what = noise(100_000)
    try:
        for k in range(JOBS):
            (sftp.root / f"part-{k}").write_bytes(b"part-%d" % k)
        alpha, _ = two_sites(grid, sftp.url("/"))
        submitted = job(starts, http.put("/common", what), sftp.url("/part-{array}"), sftp.url("/out"))
        check(grid, alpha, submitted, lambda name: (sftp.root / "out" / name).read_bytes(), what)
    finally:
        sftp.close()


def test_what_one_site_does_not_allow_is_refused_there_and_then_done_by_another(
    grid: Grid, starts: Starts, http: HttpServer, tmp_path: Path, chance: random.Random
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "common").write_bytes(b"common")
    alpha, beta = two_sites(grid, f"file://{shared}/")
    allow(beta, "http://")
    beta.kill()
    beta.start()
    grid.meet()
    part = http.put("/part", b"part")
    with alpha.client() as client:
        for url, said in (
            (f"file://{tmp_path}/other", "not allowed here"),
            (http.url("/missing"), "not there"),
            ("http://127.0.0.1:1/x", "cannot be reached"),
        ):
            with pytest.raises(UsageError, match=said) as refusal:
                client.submit(job(starts, url, part, str(tmp_path / "out")))
            assert f"{url} at site alpha" in str(refusal.value)
        with pytest.raises(UsageError, match="not allowed here"):
            client.submit(job(starts, part, part, f"file://{tmp_path}/other"))
        there = job(starts, f"file://{shared}/common", part, f"file://{shared}/out")
        there["group"] = {**there["group"], "sites": ["beta"]}  # type: ignore[dict-item]
        with pytest.raises(Unplaceable, match=f"beta: its operator does not allow file://{shared}/common"):
            client.submit(there)
        assert starts.count() == 0
        there["group"] = {**there["group"], "sites": ["alpha", "beta"]}  # type: ignore[dict-item]
        group = client.submit(there).group
        status = client.wait(group, timeout_s=60)
        assert status.state == "done", status
    assert starts.sites() == {"alpha"}


def test_what_turns_out_not_to_be_allowed_fails_staging_at_once_and_not_after_five_tries(
    grid: Grid, starts: Starts, http: HttpServer, tmp_path: Path
) -> None:
    alpha, beta = two_sites(grid)
    elsewhere = HttpServer()
    try:
        moved = http.put("/moved", b"", status=302, location=elsewhere.put("/there", b"there"))
        beta.kill()
        allow(beta, http.url("/"))
        beta.start()
        grid.meet()
        with alpha.client() as client:
            there = job(starts, moved, http.put("/part", b"part"), str(tmp_path / "out"))
            there["group"] = {**there["group"], "sites": ["beta"]}  # type: ignore[dict-item]
            began_s = time.monotonic()
            group = client.submit(there).group
            status = client.wait(group, timeout_s=60)
            assert status.state == "failed", status
            results = list(client.results(group))
            assert {result.outcome for result in results} == {"staging_failed"}
            assert all("moved at site beta: not allowed here" in result.error for result in results)
        looks = [path for _, path, _ in http.asked].count("/moved")
        assert 0 < looks < len(results), "a look where it is placed, and one try for all that it stages together"
        # Five tries would pause for 15 s.
        timely(time.monotonic() - began_s, 10.0, "the refusal")
    finally:
        elsewhere.close()
    assert starts.count() == 0
