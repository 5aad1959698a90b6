"""Promises of every LocalResourceManager to the engine, kept by a simulated site behind a batch system."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.contract.lrm import test_lrm_barrier as barrier
from tests.contract.lrm import test_lrm_conformance as conformance
from tests.contract.lrm.test_lrm_conformance import Site
from tests.contract.lrm_simulated import SimulatedCluster

for suite in (conformance, barrier):
    globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async def make(slots: int = 2) -> SimulatedCluster:
        made = SimulatedCluster(tmp_path, slots)
        await made.up()
        return made

    yield make
