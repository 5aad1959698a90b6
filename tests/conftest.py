"""Shared by all tests: fresh names for data directories, hypothesis without time limits, one test of N."""

from __future__ import annotations

import gc
import os
import zlib

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="run one test of N, drawn by DIANA_SEED")


def pytest_report_header(config: pytest.Config) -> str:
    one_in = config.getoption("--one-in")
    drawn = f", one test of {one_in} drawn by it" if one_in > 1 else ""
    told = f"DIANA_SEED={SEED}" if SOAK else "written seeds"
    return f"{told}{drawn}"


def drawn(names: list[str], one_in: int, seed: str) -> set[str]:
    """Return about one name of `one_in`: those that the seed draws, wherever the others stand."""
    return {name for name in names if zlib.crc32(f"{seed} {name}".encode()) % one_in == 0}


# Thousands of modules and tests that live to the end: no collection of garbage is to look at them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (one_in := config.getoption("--one-in")) > 1:
        some = drawn([one.nodeid for one in items], one_in, str(SEED))
        config.hook.pytest_deselected(items=[one for one in items if one.nodeid not in some])
        items[:] = [one for one in items if one.nodeid in some]


@pytest.fixture(autouse=True)
def no_data_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test may touch the ~/.diana of whoever runs it."""
    monkeypatch.delenv("DIANA_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))
