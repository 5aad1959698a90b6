"""The ledger of a cluster: what a batch system was given stands in it first, and the ends as well; no power cut takes
an array or an end away (PROMISES 1.3, 1.5, section 2)."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.batch.fake_pbs import FakePbs
from tests.e2e.grid import REPO, Grid, Starts
from tests.real.durable.calls import in_order
from tests.real.durable.clusters import ENDED, GIVEN
from tests.real.durable.cutting import Node, cut
from tests.real.durable.faulty import FAULTY_LEDGER
from tests.real.durable.recording import Recorded, recorded, stop, tree_with

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

FULL = bool(os.environ.get("DIANA_FULL"))
CUTS = 0 if FULL else 40
GROUPS, JOBS = 2, 4


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePbs]:
    made = FakePbs(tmp_path / "pbs")
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    made.up()
    yield made
    made.close()


def worked(grid: Grid, starts: Starts, pbs: FakePbs, tree: Path = REPO) -> Recorded:
    """A site that has a cluster alone, which ran two groups."""
    assert shutil.which("strace"), "strace is not here; install the package strace"
    alpha = recorded(grid, "alpha", slots=0, tree=tree)
    cluster = ClusterSettings(kind="pbs", config=str(pbs.config), slots=4, look_s=0.1, ask_s=0.5, settle_s=0.5)
    config = load_config(alpha.paths.config)
    write_config(alpha.paths.config, msgspec.structs.replace(config, clusters={"farm": cluster}))
    alpha.begin()
    alpha.start()
    with alpha.client() as client:
        groups = [client.submit(starts.job(JOBS), key=f"key-{k}").group for k in range(GROUPS)]
        for group in groups:
            assert client.wait(group, timeout_s=60).done == JOBS, alpha.story()
        client.status(groups)
    stop(alpha)
    return alpha


def test_a_power_cut_takes_no_array_and_no_end_from_the_ledger(
    grid: Grid, starts: Starts, pbs: FakePbs, chance: random.Random
) -> None:
    alpha = worked(grid, starts, pbs)
    rules = alpha.rules()
    verdict = cut(in_order(alpha.calls()), {0: Node("alpha", "alpha", rules)}, CUTS, chance)
    print(verdict.figures(), rules.figures(), sep="\n")
    assert not rules.breaches, "\n".join(map(str, rules.breaches))
    assert not verdict.lost, verdict.story()
    assert rules.checked[GIVEN] >= GROUPS
    assert rules.checked[ENDED] == GROUPS * JOBS


@pytest.mark.parametrize("fault", FAULTY_LEDGER if FULL else [*FAULTY_LEDGER][-1:])
def test_a_ledger_that_is_late_is_found(grid: Grid, starts: Starts, pbs: FakePbs, tmp_path: Path, fault: str) -> None:
    rules = worked(grid, starts, pbs, tree_with(tmp_path / "tree", FAULTY_LEDGER[fault])).judged()
    print(rules.figures(), *rules.breaches[:3], sep="\n")
    assert rules.breaches, f"nobody noticed that {fault}"
