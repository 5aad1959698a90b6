"""The tests with whole sites, members and standbys share the grid and the seed of those with single nodes."""

from __future__ import annotations

from tests.e2e.conftest import SEED, chance, grid, starts

__all__ = ["chance", "grid", "starts"]


def pytest_report_header() -> str:
    return f"real: DIANA_SEED={SEED}"
