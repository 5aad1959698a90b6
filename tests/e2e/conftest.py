"""Fixtures of the tests with real nodes: a grid that cleans up after itself, and one seed for all random moments."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, Starts
from tests.runs import SEED


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
