"""The client against real nodes: both ways in, everything a user does with a group, and what others may not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from diana import errors
from diana.client import AsyncClient, Client
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

WRITES = 'echo "value $2" > out.txt; echo "job $1 says $2"'


def a_sweep(to: str = "") -> dict[str, object]:
    """Six jobs that write a file and a line each, over whichever sites there are."""
    return {
        "group": {
            "name": "sweep",
            "command": [
                "sh",
                "-c",
                "cp out.txt out-$1.txt 2>/dev/null; " + WRITES + "; mv out.txt out-$1.txt",
                "job",
                "{index}",
                "{x}",
            ],
        },
        "sweep": {"x": [10, 20, 30, 40, 50, 60]},
        "resources": {"work": 5},
        "outputs": {"collect": ["out-{index}.txt"], **({"to": to} if to else {})},
    }


def contents(paths: list[Path]) -> dict[str, str]:
    return {path.name: path.read_text() for path in paths}


WANTED = {f"out-{index}.txt": f"value {10 * (index + 1)}\n" for index in range(6)}


def two_sites(grid: Grid) -> Site:
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    return alpha


def test_a_user_submits_waits_reads_logs_and_fetches(grid: Grid, tmp_path: Path) -> None:
    alpha = two_sites(grid)
    with alpha.client() as client:
        group = client.submit(a_sweep()).group
        seen = list(client.watch(group, timeout_s=60))
        assert seen[-1].state == "done" and seen[-1].done == 6, seen[-1]
        rows = {row.index: row for row in client.results(group)}
        assert sorted(rows) == list(range(6)) and all(row.done for row in rows.values())
        assert {row.outputs[0].name for row in rows.values()} == set(WANTED)
        logs = {chunk.job: chunk.data for chunk in client.logs(group) if chunk.data}
        assert logs == {f"{group}.{k}": f"job {k} says {10 * (k + 1)}\n".encode() for k in range(6)}
        assert b"".join(chunk.data for chunk in client.logs(f"{group}.4")) == b"job 4 says 50\n"
        assert contents(client.fetch(group, tmp_path / "out")) == WANTED
        assert list(contents(client.fetch(group, tmp_path / "one", "out-3.*"))) == ["out-3.txt"]
        explained = client.explain(group)
        assert explained.decisions[0].parts and explained.achieved_s > 0
        assert [status.group for status in client.status(mine=True)] == [group]
        assert client.status(active=True) == ()


def test_outputs_in_a_folder_of_the_users_own_can_be_fetched_too(grid: Grid, tmp_path: Path) -> None:
    alpha = two_sites(grid)
    with alpha.client() as client:
        group = client.submit(a_sweep(str(tmp_path / "mine"))).group
        assert client.wait(group, timeout_s=60).state == "done"
        assert contents(list((tmp_path / "mine").iterdir())) == WANTED
        assert contents(client.fetch(group, tmp_path / "copy")) == WANTED


def test_results_are_followed_while_the_group_runs(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["sleep", "0.3"]}, "sweep": {"x": "1-8"}}).group
        first = None
        indices = []
        for row in client.results(group, follow=True):
            first = first or client.status(group)[0]
            indices.append(row.index)
        assert sorted(indices) == list(range(8))
        assert first is not None and not first.final


def test_cancelled_jobs_end_and_the_others_go_on(grid: Grid) -> None:
    alpha = grid.add("alpha", 4)
    grid.start()
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["sleep", "{x}"]}, "sweep": {"x": [600, 600, 0, 0]}}).group
        until(lambda: client.status(group)[0].done == 2, "the short jobs end")
        assert client.cancel(f"{group}.[0-1]") == 2
        status = client.wait(group, timeout_s=60)
        assert (status.done, status.cancelled, status.state) == (2, 2, "cancelled"), status
        assert client.cancel(group) == 0
    assert not alpha.jobs_alive()


def test_local_files_travel_with_the_job(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    (tmp_path / "words.txt").write_text("hello there\n" * 200_000)
    (tmp_path / "count.sh").write_text("#!/bin/sh\nwc -l < words.txt\n")
    (tmp_path / "count.sh").chmod(0o755)
    job = tmp_path / "job.toml"
    job.write_text('inputs = ["words.txt", "count.sh"]\n[group]\ncommand = "./count.sh"\n')
    with alpha.client() as client:
        group = client.submit(job).group
        status = client.wait(group, timeout_s=60)
        assert status.state == "done", (status, list(client.logs(group)))
        assert b"".join(chunk.data for chunk in client.logs(f"{group}.0")).strip() == b"200000"


def test_a_wait_that_times_out_and_as_completed(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        long = client.submit({"group": {"command": ["sleep", "600"]}}).group
        short = client.submit({"group": {"command": ["sleep", "0.2"]}}).group
        with pytest.raises(errors.WaitTimedOut):
            client.wait(long, timeout_s=0.3)
        ended = client.as_completed([long, short], timeout_s=60)
        assert next(ended).group == short
        client.cancel(long)
        assert [status.group for status in ended] == [long]


def test_remote_users_work_over_tls_each_with_their_own_groups(grid: Grid, tmp_path: Path) -> None:
    """SPEC U4: `Client` from elsewhere, over TLS."""
    alpha = two_sites(grid)
    for name in ("ann", "ben"):
        init_user(alpha.data, name, tmp_path / name)
    asyncio.run(_remotely(tmp_path))
    with alpha.client() as operator:
        assert {status.owner.partition("@")[0] for status in operator.status()} == {"ann"}


async def _remotely(tmp_path: Path) -> None:
    async with AsyncClient(credential=tmp_path / "ann") as ann, AsyncClient(credential=tmp_path / "ben") as ben:
        (tmp_path / "job.toml").write_text('inputs = ["in.txt"]\n[group]\ncommand = "cat in.txt"\n')
        (tmp_path / "in.txt").write_text("from far away\n")
        small = (await ann.submit(tmp_path / "job.toml")).group
        group = (await ann.submit(a_sweep())).group
        assert {s.state async for s in ann.as_completed([group, small], timeout_s=60)} == {"done"}
        assert b"".join([chunk.data async for chunk in ann.logs(f"{small}.0")]) == b"from far away\n"
        assert len([row async for row in ann.results(group)]) == 6
        assert contents(await ann.fetch(group, tmp_path / "out")) == WANTED
        assert await ben.status() == ()
        assert (await ben.info()).principal.startswith("ben@")
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: ben.status([group]),
            lambda: ben.wait(group),
            lambda: ben.cancel(group),
            lambda: ben.explain(group),
            lambda: ben.fetch(group, tmp_path / "no"),
            lambda: anext(ben.results(group)),
            lambda: anext(ben.logs(group)),
        ]
        for attempt in attempts:
            # Not even that the group exists is told.
            with pytest.raises(errors.UsageError, match=f"no group {group} of yours"):
                await attempt()
        with pytest.raises(errors.Denied):
            await ben.stop()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another account")
def test_local_accounts_see_only_groups_of_their_own(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["true"]}}).group
        client.wait(group, timeout_s=60)
    # What an operator would do to let accounts in.
    grid.root.chmod(0o711)
    alpha.data.chmod(0o711)
    alpha.paths.control.chmod(0o755)
    alpha.paths.socket.chmod(0o666)
    assert as_nobody(alpha, "status") == "()\n"
    assert "nobody@" in as_nobody(alpha, "info")
    for method in ("status", "watch", "wait", "results", "logs", "cancel", "explain"):
        assert as_nobody(alpha, method, group).startswith(f"UsageError: no group {group} of yours"), method
    assert as_nobody(alpha, "fetch", group, str(grid.root / "out")).startswith("UsageError: no group")
    assert as_nobody(alpha, "stop").startswith("Denied")
    with alpha.client() as client:
        assert client.status(group)[0].state == "done"


AS_NOBODY = """
import os, sys
from diana import errors
from diana.client import Client, fetching
client = Client(sys.argv[1])
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    got = getattr(client, sys.argv[2])(*sys.argv[3:])
    print(next(got) if hasattr(got, "__next__") else got)
except errors.DianaError as error:
    print(f"{type(error).__name__}: {error}")
"""


def as_nobody(site: Site, *words: str) -> str:
    """The outcome of a client's call for the account `nobody`: the answer's text, or the error. The process changes its
    uid itself, because `nobody` need not be allowed to start this interpreter."""
    command = [sys.executable, "-c", AS_NOBODY, str(site.data), *words]
    ran = subprocess.run(command, env=site.environment(), text=True, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_client_says_who_is_not_there(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    with alpha.client() as client:
        client.stop()
        assert alpha.process is not None
        assert alpha.process.wait(60) == 0
        with pytest.raises(errors.Unreachable, match=f"start one with: diana node --data {alpha.data}"):
            client.info()


def test_a_wait_whose_node_is_killed_says_so(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["sleep", "600"]}}).group
        statuses = client.watch(group)
        next(statuses)
        alpha.kill()
        with pytest.raises(errors.Unreachable, match="went away"):
            for _ in statuses:
                pass
    alpha.start()
    with Client(alpha.data) as client:
        client.cancel(group)
        assert client.wait(group, timeout_s=60).state == "cancelled"
