"""Bad input (SPEC section 6, J4, J5, D12), on two real nodes: one line that names file and site, tried again where that
helps, told apart from a job that failed, nothing partial taken for whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diana.client import Client
from diana.errors import UsageError
from diana.model.views.group import GroupStatus
from tests.e2e.grid import Grid, Site, until
from tests.real.people.test_urls import allow

pytestmark = pytest.mark.e2e

CANARY = "canary-7d1f0c9e"


def two_sites(grid: Grid) -> tuple[Site, Site]:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    for site in (alpha, beta):
        allow(site, "http://", "s3://")
    grid.start()
    return alpha, beta


def job(source: str, path: str = "in", site: str = "alpha") -> dict[str, object]:
    return {
        "group": {"command": ["sh", "-c", "cat in/* > out.bin || cat in > out.bin"], "sites": [site]},
        "inputs": [{"url": source, "path": path}],
        "outputs": {"collect": ["out.bin"]},
    }


def three_files(folder: Path) -> Path:
    folder.mkdir()
    for k in range(3):
        (folder / f"f{k}").write_bytes(b"%d" % k * 100)
    return folder


def gone(folder: Path) -> None:
    (folder / "f1").unlink()


def changed(folder: Path) -> None:
    (folder / "f1").write_bytes(b"other")


def rotten(folder: Path) -> None:
    """Other bytes, and nothing that tells of it but a checksum."""
    was = os.stat(folder / "f1")
    (folder / "f1").write_bytes(b"x" * 100)
    os.utime(folder / "f1", ns=(was.st_atime_ns, was.st_mtime_ns))


SPOILED = {
    gone: "beta: No such file or directory at site beta",
    changed: "beta: changed at site beta since it was registered",
    rotten: "beta: checksum differs from the one promised; have site beta look through it",
}


def told(client: Client, group: str) -> GroupStatus:
    return client.wait(group, timeout_s=60)


def test_a_replica_that_is_gone_changed_or_rotten_fails_staging_by_name_and_a_mended_one_serves_the_retry(
    grid: Grid,
) -> None:
    alpha, beta = two_sites(grid)
    groups: dict[str, str] = {}
    with beta.client() as client:
        for spoil in SPOILED:
            name = spoil.__name__
            client.add_dataset(name, [three_files(grid.root / name)])
            spoil(grid.root / name)
    with alpha.client() as client:
        until(lambda: len(client.datasets()) == len(SPOILED), "alpha hears of the datasets", 10.0)
        for spoil in SPOILED:
            for source in (f"dataset:{spoil.__name__}", f"dataset:{spoil.__name__}/f1"):
                groups[source] = client.submit(job(source)).group
        for spoil, line in SPOILED.items():
            for source in (f"dataset:{spoil.__name__}", f"dataset:{spoil.__name__}/f1"):
                assert told(client, groups[source]).state == "failed"
                (result,) = client.results(groups[source])
                assert (result.outcome, result.site) == ("staging_failed", "alpha")
                assert f"dataset:{spoil.__name__}/f1: {line}" in result.error and "\n" not in result.error
        assert [path for path in (alpha.data / "staged").rglob("*") if path.name in ("f0", "f1", "f2")] == []
        with beta.client() as mended:
            (grid.root / "changed" / "f1").write_bytes(b"1" * 100)
            mended.add_dataset("changed", [grid.root / "changed"])
        client.retry(groups["dataset:changed"])
        assert told(client, groups["dataset:changed"]).state == "done"


def test_what_cannot_be_had_or_may_not_be_named_is_refused_in_a_line_at_once(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ENDPOINT_URL", "http://127.0.0.1:1"), ("ACCESS_KEY_ID", "k"), ("REGION", "here")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    alpha, beta = two_sites(grid)
    with beta.client() as client:
        client.add_dataset("events", [three_files(grid.root / "events")])
        for folder in (beta.paths.keys, beta.data, grid.root):
            with pytest.raises(UsageError, match=rf"^{folder}: lies in the node's data directory .* or holds it"):
                client.add_dataset("secrets", [folder])
    with alpha.client() as client:
        until(lambda: client.datasets() != (), "alpha hears of the dataset", 10.0)
        for source, path, line in (
            ("dataset:evnets", "in", "dataset evnets: not registered at alpha, beta; did you mean events?"),
            ("dataset:events/../../keys/site.key", "in", "leaves the job's directory"),
            ("dataset:events", "../../in", "leaves the job's directory"),
            ("dataset:events", "/etc/in", "absolute"),
            ("s3://bucket/key", "in", "s3://bucket/key at site alpha: the store cannot be reached"),
            (f"s3://u:{CANARY}@bucket/key", "in", "s3://bucket/key: holds an account or password"),
            ("file:///etc/passwd", "in", "file:///etc/passwd at site alpha: not allowed here"),
        ):
            with pytest.raises(UsageError) as refusal:
                client.submit(job(source, path))
            assert line in str(refusal.value) and "\n" not in str(refusal.value), refusal.value
            assert CANARY not in str(refusal.value)
        assert client.status() == ()
    for site in (alpha, beta):
        files = [path for path in site.data.rglob("*") if path.is_file()]
        assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_outputs_wait_for_room_at_their_destination_and_arrive_whole_once_there_is_some(grid: Grid) -> None:
    alpha, _ = two_sites(grid)
    with small_disk(grid.root / "disk", "4m") as disk, alpha.client() as client:
        command = ["sh", "-c", "head -c 6000000 /dev/zero > big"]
        group = client.submit(
            {
                "group": {"command": command, "sites": ["beta"]},
                "outputs": {"collect": ["big"], "to": str(disk / "out")},
            }
        ).group
        line = f"gathering outputs at site alpha: {disk}/out: 6000000 bytes of outputs, room for "
        until(lambda: line in repr(client.status(group)), lambda: repr(client.status(group)), 20.0)
        assert not (disk / "out" / "0" / "big").exists()
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        status = told(client, group)
        assert (status.state, status.done, status.gathering) == ("done", 1, 0)
        assert [path.stat().st_size for path in disk.rglob("big")] == [6_000_000]


def test_kill_of_a_site_while_inputs_arrive_leaves_nothing_half_and_nothing_nobody_knows_of(
    grid: Grid, chance: random.Random
) -> None:
    alpha, beta = two_sites(grid)
    folder = grid.root / "big"
    folder.mkdir()
    contents = {f"f{k:03}": chance.randbytes(300_000) for k in range(200)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with beta.client() as client:
        client.add_dataset("big", [folder])
    with alpha.client() as client:
        until(lambda: client.datasets() != (), "alpha hears of the dataset", 10.0)
        group = client.submit(job("dataset:big")).group
    sets = alpha.data / "cache" / "sets"
    until(lambda: len(list(sets.glob("*/*/f*"))) >= chance.randrange(1, 100), "files arrive", 20.0, 0.001)
    alpha.kill()
    assert len(list(sets.glob("*/*/f*"))) < len(contents), "killed too late"
    time.sleep(chance.uniform(0.0, 0.5))
    alpha.start()
    with alpha.client() as client:
        status = told(client, group)
        assert (status.state, status.done) == ("done", 1), status
        assert [d.state for d in client.datasets() if d.site == "alpha"] == ["cached"]
        client.fetch(group, grid.root / "fetched")
    (out,) = (grid.root / "fetched").rglob("out.bin")
    assert out.read_bytes() == b"".join(contents[name] for name in sorted(contents))
    assert [path for path in alpha.data.rglob(".diana-part-*")] == []


def test_a_peer_that_stops_mid_transfer_is_waited_for_and_the_transfer_goes_on(
    grid: Grid, chance: random.Random
) -> None:
    alpha, beta = two_sites(grid)
    content = chance.randbytes(200 << 20)
    (grid.root / "one.bin").write_bytes(content)
    with beta.client() as client:
        client.add_dataset("one", [grid.root / "one.bin"])
    with alpha.client() as client:
        until(lambda: client.datasets() != (), "alpha hears of the dataset", 10.0)
        group = client.submit(job("dataset:one/one.bin")).group
        cache = alpha.data / "cache"
        until(lambda: sum(p.stat().st_size for p in cache.glob("*/.diana-part-*")) > 1 << 20, "it begins", 20.0, 0.001)
        assert beta.process is not None
        beta.process.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        assert client.status(group)[0].done == 0
        beta.process.send_signal(signal.SIGCONT)
        status = told(client, group)
        assert (status.state, status.done) == ("done", 1), status
        assert status.bytes_moved < 2 * len(content)


def test_a_node_that_is_told_to_stop_does_so_while_a_huge_file_is_added(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    alpha.start()
    with open(grid.root / "zeros", "wb") as file:
        file.truncate(200 << 30)
    command = [sys.executable, "-m", "diana.cli", "datasets", "--data", str(alpha.data), "add", "zeros"]
    adding = subprocess.Popen([*command, str(grid.root / "zeros")], stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    assert adding.poll() is None
    assert alpha.terminate() == 0
    _, said = adding.communicate(timeout=60.0)
    assert adding.returncode == 4 and said.startswith("diana: ") and said.count("\n") == 1, said
    alpha.start()
    with alpha.client() as client:
        assert client.datasets() == ()
