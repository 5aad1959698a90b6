"""Each real thing once, for `make smoke`, with the builders of the rooms that try it at length. A program that the
machine lacks fails its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.conftest import clustered, slurm
from tests.e2e.conftest import chance, grid, starts
from tests.real.machines.test_three_machines import Lan
from tests.web.conftest import browser, window

__all__ = ["browser", "chance", "clustered", "grid", "slurm", "starts", "window"]


@pytest.fixture
def lan() -> Iterator[Lan]:
    """Three hosts, and one for a standby."""
    made = Lan(4)
    try:
        yield made
    finally:
        made.close()
