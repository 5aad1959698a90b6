"""Fixtures of the tests with real nodes: a grid that cleans up after itself, and one seed for all random moments."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """The data directory of a node that runs; the same for all tests of a file, since none of them changes it."""
    made = Grid()
    try:
        alpha = made.add("alpha", 2)
        alpha.start()
        yield alpha.data
    finally:
        made.close()


@pytest.fixture
def starts(grid: Grid) -> Starts:
    return Starts(grid)
