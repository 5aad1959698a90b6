"""The tests with whole sites, members and standbys share the grid and the seed of those with single nodes."""

from __future__ import annotations

from tests.e2e.conftest import chance, grid, starts

__all__ = ["chance", "grid", "starts"]
