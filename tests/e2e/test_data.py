"""Data on real nodes: inputs that live at two sites, outputs gathered at a third, merged once, whatever is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, Starts, outcomes, until

pytestmark = pytest.mark.e2e

PARTS = 40
MERGE = "echo merged >> ../merges; cat out-*.bin > all.bin"


def with_datasets(grid: Grid, chance: random.Random) -> tuple[Site, dict[str, bytes], Path]:
    """Three sites, `left` at beta and `right` at gamma; what the group should leave, and where."""
    alpha, beta, gamma = grid.add("alpha", 2), grid.add("beta"), grid.add("gamma")
    grid.join()
    expected: dict[str, bytes] = {}
    for k in range(PARTS):
        parts = []
        for name in ("left", "right"):
            folder = grid.root / name
            folder.mkdir(exist_ok=True)
            content = chance.randbytes(chance.randrange(1, 200_000))
            (folder / f"part-{k}.bin").write_bytes(content)
            parts.append(content)
        expected[f"out-{k}.bin"] = b"".join(parts)
    grid.start()
    for site, name in ((beta, "left"), (gamma, "right")):
        with site.client() as client:
            assert client.add_dataset(name, [grid.root / name]).files == PARTS
    with alpha.client() as client:
        until(lambda: {d.name for d in client.datasets()} >= {"left", "right"}, "alpha knows the datasets", 10.0)
    (grid.root / "gathered").mkdir()
    return alpha, expected, grid.root / "gathered" / "out"


def join_job(starts: Starts, to: Path) -> dict[str, object]:
    job = starts.job(PARTS, then=["sh", "-c", "sleep 0.1; cat left.bin right.bin > out-$DIANA_INDEX.bin"])
    job["inputs"] = [
        {"url": "dataset:left/part-{array}.bin", "path": "left.bin"},
        {"url": "dataset:right/part-{array}.bin", "path": "right.bin"},
    ]
    job["outputs"] = {"collect": ["out-{array}.bin"], "to": str(to), "merge": ["sh", "-c", MERGE]}
    return job


def check(expected: dict[str, bytes], to: Path) -> None:
    merged = b"".join(expected[name] for name in sorted(expected))
    found = {path.name: path.read_bytes() for path in to.iterdir()}
    assert sorted(found) == sorted([*expected, "all.bin"])
    assert [name for name, content in expected.items() if found[name] != content] == []
    assert found["all.bin"] == merged
    assert (to.parent / "merges").read_text() == "merged\n"


def test_inputs_of_two_sites_are_staged_and_outputs_gathered_and_merged_once(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
        assert status.bytes_moved > 0
        found = outcomes(client, group)
        assert {index: found[index] for index in range(PARTS)} == dict.fromkeys(range(PARTS), "DONE")
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()


def test_kill_of_the_origin_while_outputs_are_gathered_loses_none(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
    some = chance.randrange(1, PARTS // 2)
    until(lambda: to.exists() and len(list(to.glob("out-*"))) >= some, f"{some} outputs are there", 30.0, 0.002)
    alpha.kill()
    alpha.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()


def test_kill_of_a_site_that_holds_inputs_and_runs_jobs_loses_no_output(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, expected, to = with_datasets(grid, chance)
    with alpha.client() as client:
        group = client.submit(join_job(starts, to)).group
    starts.wait_for(chance.randrange(PARTS // 2))
    time.sleep(chance.uniform(0.0, 0.3))
    victim = grid.sites[chance.choice(["beta", "gamma"])]
    victim.kill()
    time.sleep(chance.uniform(0.0, 1.0))
    victim.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.gathering) == ("done", PARTS, 0), status
    check(expected, to)
    assert len(starts.all()) == PARTS and not starts.doubled()
