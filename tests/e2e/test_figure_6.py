"""SPEC D4's table from a real node that has no free slot: the paper's figure 6, read as any user reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.client import Client
from diana.node.config.setup import init_user
from diana.node.config.site_file import load_config
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

ARRIVALS = [("ann", 1), ("ann", 5), ("ben", 1)]
TABLE = [
    {("ann", 1): (1.0, 0.0, "Q2")},
    {("ann", 1): (6.0, 0.666667, "Q1"), ("ann", 5): (1.2, -0.4, "Q3")},
    {
        ("ann", 1): (3.694444, 0.458647, "Q2"),
        ("ann", 5): (0.738889, -0.630556, "Q4"),
        ("ben", 1): (3.305556, 0.697479, "Q1"),
    },
]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[Grid, Site]]:
    """A site in the paper's mode whose five slots, and the one job claimed ahead, are held by its operator's jobs."""
    grid = Grid()
    try:
        site = grid.add("alpha", 5)
        vo = load_config(site.paths.config).vo
        for name in ("ann", "ben"):
            init_user(site.data, name, tmp_path / name)
        grid.settings(priority_mode="paper", claim_ahead=1, quotas={f"ann@{vo}": 1900.0, f"ben@{vo}": 1700.0})
        site.start()
        yield grid, site
    finally:
        grid.close()


def _is_full(client: Client) -> bool:
    queue = client.queue()
    return queue.running >= 5 and not queue.classes


def job(jobs: int, processors: int = 1) -> dict[str, object]:
    return {
        "group": {"command": ["sleep", "600"]},
        "resources": {"processors": processors},
        "sweep": {"array": f"0-{jobs - 1}"},
    }


def test_a_node_without_a_free_slot_shows_figure_6(full: tuple[Grid, Site], tmp_path: Path) -> None:
    grid, site = full
    with site.client() as operator:
        operator.submit(job(6))
        until(lambda: _is_full(operator), lambda: f"five run, one is claimed: {operator.queue()}")
        for (user, processors), wanted in zip(ARRIVALS, TABLE, strict=True):
            with Client(credential=tmp_path / user) as client:
                client.submit(job(1, processors))
            rows = {
                (row.user.partition("@")[0], row.processors): (
                    round(row.allowance, 6),
                    round(row.priority, 6),
                    row.level,
                )
                for row in operator.queue().classes
            }
            assert rows == wanted
    printed = json.loads(grid.run(site, "queue", "--data", str(site.data), "--json").stdout)
    assert {round(row["priority"], 6) for row in printed["classes"]} == {0.458647, -0.630556, 0.697479}
