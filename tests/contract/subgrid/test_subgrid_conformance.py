"""Promises of every LocalResourceManager to the engine, kept by a member machine at the other end of a stream (D8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from tests.contract.lrm import test_lrm_barrier as barrier
from tests.contract.lrm import test_lrm_conformance as conformance
from tests.contract.lrm import test_lrm_processes as processes
from tests.contract.subgrid_builders import SubGridSite

for suite in (conformance, barrier, processes):
    globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})

Site = Callable[..., Awaitable[SubGridSite]]


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made: list[SubGridSite] = []

    async def make(slots: int = 2) -> SubGridSite:
        made.append(SubGridSite(tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()
