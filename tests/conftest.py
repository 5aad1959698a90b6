"""Shared by all tests: hypothesis without time limits, names of tests that passed late, homes of their own."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.runs import SEED, SOAK

# A neighbour's load must not make a test of rules fail; how long things take is what benchmarks/ measures.
# DIANA_EXAMPLES: cases of each property that names no number.
cases = int(os.environ.get("DIANA_EXAMPLES", "40"))
settings.register_profile(
    "diana",
    deadline=None,
    derandomize=not SOAK,
    database=None,
    max_examples=cases,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("diana")

# Sites that tests make as root run their jobs as root; who makes one elsewhere is to say so.
os.environ.setdefault("DIANA_ROOT_JOBS", "true")


def pytest_report_header() -> str:
    return f"DIANA_SEED={SEED}" if SOAK else "written seeds"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why tests failed that passed when they were run once more, and name them."""
    passed = {report.nodeid for report in terminalreporter.stats.get("passed", ())}
    late = [report for report in terminalreporter.stats.get("rerun", ()) if report.nodeid in passed]
    for report in late:
        terminalreporter.write_line(report.longreprtext[-4000:])
    for name in sorted({report.nodeid for report in late}):
        terminalreporter.write_line(f"FLAKY: {name}")


# Thousands of modules and tests that live to the end: no collection of garbage is to look at them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_data_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test may touch the ~/.diana of whoever runs it."""
    monkeypatch.delenv("DIANA_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))
