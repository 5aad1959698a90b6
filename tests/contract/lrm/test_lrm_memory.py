"""Memory of jobs: a limit on what a job and all its children use together, and the most that they used."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.engine.journal.events import JobsEnded
from diana.model.facts import Outcome, was_out_of_memory
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import RealSite
from tests.runs import SOAK

MIB = 1 << 20

FILL = "b = bytes(range(256)) * (%d << 12); import os, sys, time; "


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    made = RealSite(tmp_path / "data", slots=2)
    await made.up()
    yield made
    await made.down()


def python(code: str, memory_bytes: int = 0) -> GroupSpec:
    return GroupSpec(argv=(sys.executable, "-c", code), resources=Resources(memory_bytes=memory_bytes))


def peak_bytes(site: RealSite, index: int) -> int:
    ended = [event.facts for event in site.events if isinstance(event, JobsEnded)]
    return next(f.max_rss_bytes[f.indices.index(index)] for f in ended if index in f.indices)


CHILDREN = f"""
import subprocess, sys
code = {FILL % 60 + "time.sleep(60)"!r}
children = [subprocess.Popen([sys.executable, "-c", code], start_new_session=k == 1) for k in range(3)]
children[0].wait()
"""


async def test_a_job_whose_children_together_use_too_much_is_ended_and_told_apart(site: RealSite) -> None:
    site.start(python(CHILDREN, 150 * MIB), 0)
    (end,) = await site.ended(1, 60.0)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 137)
    assert was_out_of_memory(end.outcome, end.error) and end.error.startswith("alpha-1.0: out of memory: it used ")
    assert "with its children, memory is 150 MiB; diana retry --memory 2x alpha-1 gives such jobs" in end.error
    # Exactly that, where the kernel holds it.
    assert 150 * MIB <= peak_bytes(site, 0) < 400 * MIB


@pytest.mark.wide
async def test_a_job_with_a_limit_is_looked_at_soon_also_beside_one_without(site: RealSite) -> None:
    site.start(python("import time; time.sleep(2)"), 0)
    await asyncio.sleep(0.5)
    site.start(python(FILL % 100 + f"time.sleep({0.9 if SOAK else 600})", 50 * MIB), 1)
    await site.ended(2, 60.0)
    end = site.by_index()[1]
    assert was_out_of_memory(end.outcome, end.error), end


async def test_what_is_only_reserved_and_what_is_shared_does_not_count_twice(site: RealSite) -> None:
    reserves = "import mmap, time; m = mmap.mmap(-1, 1 << 31, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); time.sleep(1)"
    shares = FILL % 80 + "pids = [os.fork() for _ in range(2)]; time.sleep(1)"
    site.start(python(reserves, 100 * MIB), 0)
    site.start(python(shares, 150 * MIB), 1)
    ends = await site.ended(2, 60.0)
    assert {end.outcome for end in ends} == {Outcome.DONE}


async def test_the_peak_is_the_jobs_own(site: RealSite) -> None:
    site.start(GroupSpec(argv=("/bin/true",)), 0)
    site.start(python(FILL % 120 + "time.sleep(2.5); del b; time.sleep(0.1)"), 1)
    await site.ended(2, 60.0)
    assert peak_bytes(site, 0) < 5 * MIB
    assert 120 * MIB < peak_bytes(site, 1) < 160 * MIB


async def test_the_kernel_is_told_to_end_jobs_before_the_node(site: RealSite) -> None:
    script = "until [ $(cat /proc/self/oom_score_adj) = 500 ]; do sleep 0.02; done"
    site.start(GroupSpec(argv=("/bin/sh", "-c", script), resources=Resources(time_limit_s=20.0)), 0)
    (end,) = await site.ended(1, 60.0)
    assert end.outcome is Outcome.DONE


async def test_the_limit_holds_under_the_next_spawner_too(site: RealSite, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = f"import os, time\nprint(1, flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
    site.start(python(code + FILL % 200 + "time.sleep(60)", 100 * MIB), 0)
    await site.shows(0, lambda log: log.data == b"1\n")
    await site.lose_lrm()
    go.touch()
    (end,) = await site.ended(1, 60.0)
    assert end.outcome is Outcome.FAILED and was_out_of_memory(end.outcome, end.error)
