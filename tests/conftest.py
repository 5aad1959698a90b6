"""Shared by all tests: fresh names for data directories, and hypothesis without time limits on a busy machine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A neighbour's load must not make a test of rules fail; how long things take is what benchmarks/ measures.
settings.register_profile("diana", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("diana")


@pytest.fixture(autouse=True)
def no_data_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test may touch the ~/.diana of whoever runs it."""
    monkeypatch.delenv("DIANA_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))
