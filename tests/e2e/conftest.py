"""Fixtures of the tests with real nodes: a grid that cleans up after itself, and one seed for all random moments."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, Starts

# Left in the environment, so that all workers of one run draw from the same.
SEED = int(os.environ.setdefault("DIANA_SEED", str(time.time_ns() % 1_000_000)))


def pytest_report_header() -> str:
    return f"e2e: DIANA_SEED={SEED}"


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The same draws for the same DIANA_SEED, whichever tests run."""
    print(f"DIANA_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def grid() -> Iterator[Grid]:
    made = Grid()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def starts(grid: Grid) -> Starts:
    return Starts(grid)
