"""The order of what a node, its spawner and its jobs put on the disk and say, under a recorder of system calls. Power
cuts, clusters, standbys and faulty versions are tried at length in `tests/real/durable`."""

from __future__ import annotations

import pytest

from tests.e2e.grid import Grid, Starts
from tests.real.durable.test_sync_order import test_what_leaves_a_node_rests_on_synced_records as judged

pytestmark = pytest.mark.e2e


def test_what_a_node_says_and_starts_rests_on_synced_records(grid: Grid, starts: Starts) -> None:
    judged(grid, starts)
