"""Checkpoints and contracts of jobs that run on other machines of a site than the leading one (SPEC G5, G6)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from diana import errors
from tests.e2e.grid import Grid, Site, until
from tests.e2e.test_hold_retry import diana
from tests.real.members import Machine, add_member
from tests.real.running.test_checkpoints import chain_job, serial, slow_job, steps_in

pytestmark = pytest.mark.e2e


def grid_with_a_member(grid: Grid) -> tuple[Site, Machine]:
    """Site alpha, whose only slot is its machine m1's, and beta."""
    alpha, beta = grid.add("alpha", 0), grid.add("beta", 1)
    grid.join()
    for site in (alpha, beta):
        site.start()
    grid.meet()
    member = add_member(grid, alpha, "m1", 1)
    member.start()
    with alpha.client() as client:
        until(lambda: {s.site: s.slots for s in client.sites()} == {"alpha": 1, "beta": 1}, "all are there", 20)
    return alpha, member


def test_a_job_leaves_a_member_from_its_checkpoint_and_comes_back_to_it(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid_with_a_member(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        job = chain_job(tmp_path, 80)
        group = client.submit({**job, "resources": {"work": 20}}).group
        until(lambda: len(steps_in(log)) > 5, lambda: f"{client.explain(group)}\n{grid.story()}", 20)
        first = steps_in(log)[0].site
        for turn, to in enumerate(("beta", "alpha") if first == "alpha" else ("alpha", "beta", "alpha"), 2):
            client.move(group, to)
            until(lambda turn=turn: steps_in(log)[-1].attempt == turn, f"it goes on at {to}\n{grid.story()}", 20)
            assert steps_in(log)[-1].site == to
            time.sleep(0.5)
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran = steps_in(log)
    assert [(step.number, step.chain) for step in ran] == list(enumerate(chain[:16] for chain in serial(80)))


def test_a_job_on_a_member_reports_and_leaves_it_when_it_is_too_slow(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid_with_a_member(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        job = slow_job(tmp_path, 40)
        group = client.submit(job).group
        until(lambda: len(steps_in(log)) > 8, "it runs", 30)
        if steps_in(log)[0].site == "beta":
            client.move(group, "alpha")
            until(lambda: len([s for s in steps_in(log) if s.site == "alpha"]) > 5, "it runs at the member", 30)
        (tmp_path / "log.load.alpha").touch()
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        assert "from a checkpoint: " in diana(alpha, "explain", group), grid.story()
    ran = steps_in(log)
    assert [step.number for step in ran] == list(range(1, 41)), "no iteration is lost or done twice"
    assert ran[-1].site == "beta"


def test_a_drain_saves_what_runs_on_members(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid_with_a_member(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 60)).group
        until(lambda: len(steps_in(log)) > 3, "it runs", 20)
        if steps_in(log)[0].site == "beta":
            client.move(group, "alpha")
            until(lambda: steps_in(log)[-1].site == "alpha", "it runs at the member", 20)
        diana(alpha, "site", "drain", "--reason", "new kernel")
        until(lambda: steps_in(log)[-1].site == "beta", lambda: f"it is saved\n{grid.story()}", 30)
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    assert [step.number for step in steps_in(log)] == list(range(60))


def test_kills_of_member_and_leader_while_it_stops_and_restarts_lose_and_double_nothing(
    grid: Grid, tmp_path: Path, chance: random.Random
) -> None:
    alpha, member = grid_with_a_member(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 200, 0.05)).group
        until(lambda: len(steps_in(log)) > 3, "it runs", 20)
    for turn in range(4):
        to = "alpha" if steps_in(log)[-1].site == "beta" else "beta"
        with alpha.client() as client:
            try:
                client.move(group, to)
            except errors.DianaError as error:
                assert "nothing to move" in str(error) or "does not answer" in str(error), error
        time.sleep(chance.uniform(0.0, 0.6))
        victim = (member, alpha)[turn % 2]
        victim.kill()
        victim.start()
        time.sleep(chance.uniform(0.0, 0.5))
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran, expected = steps_in(log), serial(200)
    assert all(step.chain == expected[step.number][:16] for step in ran)
    assert [step.number for step in ran] == list(range(200)), "each step is done once, whatever was killed"
    assert len({step.attempt for step in ran}) >= 2
