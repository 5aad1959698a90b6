"""The whole path with real nodes: submit, place, hand over, run, results; cancel; the promises of `submit` itself."""

from __future__ import annotations

import os

import pytest

from diana.errors import UsageError
from tests.e2e.grid import Grid, Starts, outcomes, until

pytestmark = pytest.mark.e2e


def test_five_jobs_over_two_sites_have_their_results_once(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    with alpha.client() as client:
        accepted = client.submit(
            {
                "group": {"command": ["sh", "-c", "echo job {x} of {group}; exit $(({x} == 3))"]},
                "sweep": {"x": "0-4"},
                "resources": {"work": 5},
            }
        )
        status = client.wait(accepted.group, timeout_s=60)
        assert (status.state, status.done, status.failed) == ("failed", 4, 1), status
        assert outcomes(client, accepted.group) == {0: "done", 1: "done", 2: "done", 3: "failed", 4: "done"}
        assert {share.site for share in status.shares} == {alpha.name, beta.name}
        logs: dict[str, bytes] = {}
        for chunk in client.logs(accepted.group):
            assert not chunk.error, chunk
            logs[chunk.job] = logs.get(chunk.job, b"") + chunk.data
        assert logs == {f"{accepted.group}.{i}": f"job {i} of {accepted.group}\n".encode() for i in range(5)}


def test_a_group_that_was_accepted_survives_a_kill_at_the_moment_submit_returned(grid: Grid, starts: Starts) -> None:
    alpha, _ = grid.add("alpha"), grid.add("beta")
    grid.join()
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(50)).group
        alpha.kill()
    alpha.start()
    with alpha.client() as client:
        assert [status.group for status in client.status()] == [group]
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 50), status
        assert outcomes(client, group) == dict.fromkeys(range(50), "done")
    assert len(starts.all()) == 50 and not starts.doubled()


def test_the_same_key_gives_one_group_also_across_a_kill(grid: Grid, starts: Starts) -> None:
    alpha = grid.add("alpha")
    grid.start()
    job = starts.job(20)
    with alpha.client() as client:
        group = client.submit(job, key="nightly").group
        assert client.submit(job, key="nightly").group == group
        alpha.kill()
    alpha.start()
    with alpha.client() as client:
        assert client.submit(job, key="nightly").group == group
        with pytest.raises(UsageError, match="nightly"):
            client.submit(starts.job(21), key="nightly")
        assert client.wait(group, timeout_s=60).done == 20
        assert client.submit(job, key="nightly").group == group
        assert len(client.status()) == 1
    assert len(starts.all()) == 20 and not starts.doubled()


def test_cancelling_a_running_group_ends_its_processes_at_every_site(grid: Grid, starts: Starts) -> None:
    alpha = grid.add("alpha")
    grid.add("beta")
    grid.add("gamma")
    grid.join()
    grid.start()
    job = starts.job(300, then=["sleep", "300"])
    job["resources"] = {"work": 300}
    with alpha.client() as client:
        group = client.submit(job).group
        starts.wait_for(12)
        assert starts.sites() == {"alpha", "beta", "gamma"}
        # Of a process that becomes another one, no environment can be read for a moment.
        until(lambda: sum(len(site.jobs_alive()) for site in grid.sites.values()) == 12, "twelve run")
        assert client.cancel(group) == 300
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.cancelled, status.done) == ("cancelled", 300, 0), status
    sites = grid.sites.values()
    until(lambda: not any(site.jobs_alive() for site in sites), "no job is left anywhere")
    assert len(starts.all()) == 12


def test_a_graceful_stop_leaves_jobs_running_and_a_restart_takes_them_up_again(grid: Grid, starts: Starts) -> None:
    alpha, beta = grid.add("alpha"), grid.add("beta")
    grid.join()
    grid.start()
    # They end when nobody holds the pipe for writing, and those that begin later at once.
    pipe = grid.root / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)
    job = starts.job(12, then=["cat", str(pipe)])
    job["resources"] = {"work": 600}
    with alpha.client() as client:
        group = client.submit(job).group
        starts.wait_for(8)

    def alive() -> dict[str, list[int]]:
        return {site.name: site.jobs_alive() for site in grid.sites.values()}

    until(lambda: all(len(pids) == 4 for pids in alive().values()), lambda: f"four run at each: {alive()}")
    before = alive()
    spawners = {site.name: site.spawner_pid() for site in grid.sites.values()}
    for site in (beta, alpha):
        assert site.terminate() == 0
    assert alive() == before
    grid.start()
    assert {site.name: site.spawner_pid() for site in grid.sites.values()} == spawners
    (grid.root / "empty").touch()
    os.replace(grid.root / "empty", pipe)
    os.close(held)
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 12), status
        assert outcomes(client, group) == dict.fromkeys(range(12), "done")
    assert len(starts.all()) == 12 and not starts.doubled()
