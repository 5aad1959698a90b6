"""A cluster over HTCondor, which is a fake's; `tests/clusters` asks the same of a real one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.model.facts import Outcome
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.batch.fake_htcondor import FakeHTCondor
from tests.contract.lrm_builders import Site, shell

pytestmark = pytest.mark.wide


@pytest.fixture
def condor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHTCondor]:
    made = FakeHTCondor(tmp_path / "condor")
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    made.up()
    yield made
    made.close()


@pytest_asyncio.fixture
async def site(condor: FakeHTCondor, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        settings = ClusterSettings(
            kind="htcondor", config=str(condor.config), slots=slots, look_s=0.1, ask_s=0.4, settle_s=0.5
        )
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def running(site: Site, condor: FakeHTCondor, tmp_path: Path) -> ClusterSite:
    at: ClusterSite = await site()  # type: ignore[assignment]
    at.start(shell(f"echo >> {tmp_path}/began; sleep 60"), 0)
    await at.until(lambda: (tmp_path / "began").exists() and (tmp_path / "began").read_text() == "\n")
    return at


@pytest.mark.parametrize(
    ("code", "reason", "outcome"),
    [
        (46, "The job exceeded allowed job duration of 01:00", Outcome.TIMED_OUT),
        (34, "Job has gone over cgroup memory limit of 128 megabytes", Outcome.FAILED),
        (1, "via condor_hold (by user someone)", Outcome.UNKNOWN),
    ],
)
async def test_a_job_that_is_held_while_it_runs_is_over_with_the_reason_and_leaves_the_queue(
    site: Site, condor: FakeHTCondor, tmp_path: Path, code: int, reason: str, outcome: Outcome
) -> None:
    at = await running(site, condor, tmp_path)
    condor.hold(next(iter(condor.running)), code, reason)
    (end,) = await at.ended(1)
    assert end.outcome is outcome
    assert reason in end.error or outcome is Outcome.TIMED_OUT
    await at.until(lambda: not condor.queue)


async def test_a_job_that_is_evicted_is_told_so_and_does_not_begin_anew(
    site: Site, condor: FakeHTCondor, tmp_path: Path
) -> None:
    at = await running(site, condor, tmp_path)
    condor.evict(next(iter(condor.running)))
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.INTERRUPTED
    assert "evicted from slot1_1@head.lab" in end.error
    await at.until(lambda: not condor.queue)
    assert (tmp_path / "began").read_text() == "\n"


async def test_a_schedd_that_is_away_keeps_what_it_was_given(site: Site, condor: FakeHTCondor) -> None:
    at = await site()
    at.start(shell("sleep 1"), 0)
    await at.until(lambda: bool(condor.running))
    condor.down = True
    (end,) = await at.ended(1)
    assert (end.outcome, at.losses()) == (Outcome.DONE, 0)
