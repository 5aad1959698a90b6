"""Nothing leaves a real node, and no job is started, before the records it rests on are on the disk: node, spawner and
jobs run under strace, and what they did is judged call by call (`rules.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from diana.adapters.lrm.spawner.claims import claimlog
from diana.adapters.lrm.spawner.claims.records import Claimed
from tests.e2e.grid import REPO, Grid, Starts, until
from tests.real.durable.faulty import FAULTY, STARTED_UNSYNCED, Changes, slow_syncer
from tests.real.durable.recording import Recorded, recorded, stop, tree_with
from tests.real.durable.rules import SiteRules

pytestmark = pytest.mark.e2e

GROUPS = 4
JOBS = 6


def worked(grid: Grid, starts: Starts, tree: Path = REPO) -> SiteRules:
    """The verdict on a node of that source that took some groups, ran them, answered, and was stopped."""
    assert shutil.which("strace"), "strace is not here; install the package strace"
    alpha = recorded(grid, "alpha", tree=tree)
    alpha.start()
    with alpha.client() as client:
        groups = [client.submit(starts.job(JOBS), key=f"key-{k}").group for k in range(GROUPS)]
        for group in groups:
            client.wait(group, timeout_s=60)
        client.status(groups)
    stop(alpha)
    return alpha.judged()


def claims(site: Recorded) -> int:
    records = claimlog.read(site.paths.spawner / claimlog.NAME)
    return sum(isinstance(record, Claimed) for record in records)


def test_what_leaves_a_node_rests_on_synced_records(grid: Grid, starts: Starts) -> None:
    rules = worked(grid, starts)
    print(rules.figures())
    assert not rules.breaches, "\n".join(map(str, rules.breaches))
    assert rules.checked["a job is started after its claim"] == GROUPS * JOBS
    assert rules.checked["an order to the spawner follows its record"] == GROUPS * JOBS
    assert rules.checked["an answer names a group"] >= GROUPS
    assert rules.checked["an answer counts what is done"] >= GROUPS
    assert rules.checked["the mark follows the journal"] >= GROUPS
    assert rules.checked["a name is given to what is on the disk"] >= 1


@pytest.mark.parametrize("fault", FAULTY)
def test_a_node_that_speaks_too_early_is_found(grid: Grid, starts: Starts, tmp_path: Path, fault: str) -> None:
    rules = worked(grid, starts, tree_with(tmp_path, FAULTY[fault]))
    print(rules.figures(), *rules.breaches[:3], sep="\n")
    assert rules.breaches, f"nobody noticed that {fault}"


@pytest.mark.parametrize("changes", [{}, STARTED_UNSYNCED], ids=["ours", "faulty"])
def test_a_job_whose_turn_comes_while_its_claim_is_synced_waits_for_that(
    grid: Grid, starts: Starts, tmp_path: Path, changes: Changes
) -> None:
    syncing, go = tmp_path / "syncing", tmp_path / "go"
    alpha = recorded(grid, "alpha", slots=8, tree=tree_with(tmp_path / "tree", {**slow_syncer(syncing), **changes}))
    alpha.start()
    with alpha.client() as client:
        wide = starts.job(1, then=["sh", "-c", f"until test -e {go}; do sleep 0.1; done"])
        wide["resources"] = {"processors": 8}
        groups = [client.submit(wide).group]
        starts.wait_for(1)
        groups.append(client.submit(starts.job(1)).group)
        until(lambda: claims(alpha) == 2, "the next job is claimed")
        # Not at once, for a job with a durable claim goes before it.
        groups.append(client.submit(starts.job(1)).group)
        until(syncing.exists, "the claim after it is being synced")
        go.touch()
        for group in groups:
            client.wait(group, timeout_s=60)
    stop(alpha)
    rules = alpha.judged()
    assert rules.checked["a job is started after its claim"] == 3
    assert bool(rules.breaches) == bool(changes), "\n".join(map(str, rules.breaches))
