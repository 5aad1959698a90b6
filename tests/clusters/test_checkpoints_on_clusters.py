"""Jobs that a real batch system runs are stopped at a checkpoint, leave it, and come back to it (SPEC G5, G6)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.clusters.conftest import Clustered
from tests.e2e.grid import Grid, Site, until
from tests.e2e.test_hold_retry import diana
from tests.real.running.test_checkpoints import chain_job, serial, slow_job, steps_in


@pytest.fixture(params=["slurm", "gridengine"])
def pair(request: pytest.FixtureRequest, grid: Grid, clustered: Clustered) -> tuple[Site, Site]:
    """Site alpha before a cluster, and beta of one slot."""
    alpha, beta = clustered("alpha", request.getfixturevalue(request.param)), grid.add("beta", 1)
    grid.join()
    grid.start()
    grid.meet()
    with alpha.client() as client:
        until(lambda: all(s.slots > 0 for s in client.sites() if s.site == "alpha"), "the cluster is there", 30)
    return alpha, beta


def test_a_job_leaves_a_cluster_from_its_checkpoint_and_comes_back_and_a_killed_node_loses_nothing(
    grid: Grid, pair: tuple[Site, Site], tmp_path: Path
) -> None:
    alpha, _ = pair
    log = tmp_path / "log"
    with alpha.client() as client:
        job = chain_job(tmp_path, 150)
        group = client.submit(job).group
        until(lambda: len(steps_in(log)) > 5, lambda: f"{client.explain(group)}\n{grid.story()}", 40)
        if steps_in(log)[0].site == "beta":
            client.move(group, "alpha")
            until(lambda: steps_in(log)[-1].site == "alpha", f"it goes on in the cluster\n{grid.story()}", 40)
        client.move(group, "beta")
    time.sleep(0.3)
    alpha.kill()
    alpha.start()
    until(lambda: steps_in(log)[-1].site == "beta", lambda: f"it goes on at beta\n{grid.story()}", 40)
    with alpha.client() as client:
        client.move(group, "alpha")
        until(lambda: steps_in(log)[-1].site == "alpha", lambda: f"it comes back\n{grid.story()}", 40)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran = steps_in(log)
    assert [(step.number, step.chain) for step in ran] == list(enumerate(chain[:16] for chain in serial(150)))


def test_a_job_in_a_cluster_reports_and_leaves_it_when_it_is_too_slow(
    grid: Grid, pair: tuple[Site, Site], tmp_path: Path
) -> None:
    alpha, _ = pair
    log = tmp_path / "log"
    with alpha.client() as client:
        group = client.submit(slow_job(tmp_path, 60)).group
        until(lambda: len(steps_in(log)) > 5, lambda: f"{client.explain(group)}\n{grid.story()}", 40)
        if steps_in(log)[0].site == "beta":
            client.move(group, "alpha")
        until(lambda: len([s for s in steps_in(log) if s.site == "alpha"]) > 5, "it runs in the cluster", 40)
        (tmp_path / "log.load.alpha").touch()
        until(
            lambda: any(row.state == "slow" for row in client.explain(group).contracts),
            lambda: f"it is told to be slow: {client.explain(group).contracts}\n{grid.story()}",
            60,
        )
        status = client.wait(group, timeout_s=120)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        assert "from a checkpoint: " in diana(alpha, "explain", group), grid.story()
    assert [step.number for step in steps_in(log)] == list(range(1, 61)), "no iteration is lost or done twice"
    assert steps_in(log)[-1].site == "beta"
