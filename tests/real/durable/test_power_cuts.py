"""A power cut at any moment of a recorded run leaves files that the real readers read, and in them all that was
answered, sent or started before (PROMISES 1.1, 1.3, 1.5)."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.e2e.grid import REPO, Grid, Starts
from tests.real.durable.calls import in_order
from tests.real.durable.cutting import Node, cut
from tests.real.durable.faulty import FAULTY_FILES
from tests.real.durable.recording import Recorded, recorded, stop, tree_with

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

FULL = bool(os.environ.get("DIANA_FULL"))
CUTS = 0 if FULL else 60
"""0: at each sync, each write, and whenever something leaves or starts."""
FAULTY_CUTS = 200 if FULL else 60
GROUPS = 4 if FULL else 3
JOBS = 16 if FULL else 8


def worked(grid: Grid, starts: Starts, tree: Path = REPO) -> Recorded:
    """A node that took a dataset, an upload and some groups, ran them, and was stopped."""
    assert shutil.which("strace"), "strace is not here; install the package strace"
    alpha = recorded(grid, "alpha", tree=tree)
    (grid.root / "file").write_text("content\n")
    alpha.start()
    with alpha.client() as client:
        client.add_dataset("readings", [grid.root / "file"])
        reading = starts.job(JOBS)
        reading["inputs"] = [{"url": str(grid.root / "file"), "path": "in"}]
        jobs = [reading, *(starts.job(JOBS) for _ in range(GROUPS - 1))]
        groups = [client.submit(job, key=f"key-{k}").group for k, job in enumerate(jobs)]
        for group in groups:
            client.wait(group, timeout_s=60)
        client.status(groups)
    stop(alpha)
    return alpha


def test_a_power_cut_at_any_moment_loses_nothing_that_was_said_or_begun(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha = worked(grid, starts)
    rules = alpha.rules()
    verdict = cut(in_order(alpha.calls()), {0: Node("alpha", "alpha", rules)}, CUTS, chance)
    print(verdict.figures(), rules.figures(), sep="\n")
    assert not verdict.lost, verdict.story()
    assert verdict.images >= min(40, CUTS or 400)
    assert rules.told_datasets == {"readings"} and len(rules.told_groups) == GROUPS


@pytest.mark.parametrize("fault", FAULTY_FILES if FULL else [*FAULTY_FILES][:1])
def test_a_node_whose_files_a_power_cut_harms_is_found(
    grid: Grid, starts: Starts, chance: random.Random, tmp_path: Path, fault: str
) -> None:
    alpha = worked(grid, starts, tree_with(tmp_path / "tree", FAULTY_FILES[fault]))
    rules = alpha.rules()
    verdict = cut(in_order(alpha.calls()), {0: Node("alpha", "alpha", rules)}, FAULTY_CUTS, chance)
    print(verdict.figures(), *rules.breaches[:2], verdict.story()[:600], sep="\n")
    assert rules.breaches or verdict.lost, f"nobody noticed that {fault}"
