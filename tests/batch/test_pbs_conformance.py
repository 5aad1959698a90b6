"""A cluster over PBS, which is a fake's: real ones cannot run here."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.pbs import Pbs
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable
from diana.adapters.lrm.software import Software, here
from diana.engine.journal.events import LrmReady
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND
from diana.model.job.spec import GroupSpec, Resources
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.batch.fake_pbs import FakePbs
from tests.contract.lrm_builders import Site, shell

pytestmark = pytest.mark.wide


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePbs]:
    made = FakePbs(tmp_path / "pbs")
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    made.up()
    yield made
    made.close()


@pytest_asyncio.fixture
async def site(pbs: FakePbs, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        settings = ClusterSettings(kind="pbs", config=str(pbs.config), slots=slots, look_s=0.1, ask_s=0.4, settle_s=0.5)
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_jobs_alone_and_tasks_of_one_array_know_their_numbers(site: Site) -> None:
    at = await site(slots=8)
    at.start(shell('echo "$DIANA_INDEX"', resources=Resources(processors=2)), 7)
    await at.ended(1)
    at.start(shell('echo "$DIANA_INDEX"', resources=Resources(processors=2)), 1, 2, 5, 9)
    ends = {end.run.index: end for end in await at.ended(5)}
    assert {i: (end.outcome, at.log(end)) for i, end in ends.items()} == {
        i: (Outcome.DONE, f"{i}\n") for i in (1, 2, 5, 7, 9)
    }


async def test_a_job_it_ended_for_a_limit_is_told_so(site: Site, pbs: FakePbs, tmp_path: Path) -> None:
    at = await site()
    at.start(shell(f"touch {tmp_path}/began; sleep 60"), 0)
    await at.until((tmp_path / "began").exists)
    pbs.ended_by[next(iter(pbs.processes))] = -29
    for process in pbs.processes.values():
        os.killpg(process.pid, signal.SIGKILL)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.TIMED_OUT


async def test_a_server_that_is_away_keeps_what_it_was_given(site: Site, pbs: FakePbs) -> None:
    at = await site()
    at.start(shell("sleep 1"), 0)
    await at.until(lambda: bool(pbs.processes))
    pbs.down = True
    (end,) = await at.ended(1)
    assert (end.outcome, at.losses()) == (Outcome.DONE, 0)


@pytest.mark.parametrize("own", [True, False])
async def test_a_cluster_offers_what_its_own_table_says_and_else_what_the_site_does(
    pbs: FakePbs, tmp_path: Path, own: bool
) -> None:
    greeter = Software(modules={"greeter": "export GREETING=hello"})
    settings = ClusterSettings(
        kind="pbs", config=str(pbs.config), slots=2, look_s=0.1, settle_s=0.5, software=greeter if own else None
    )
    at = ClusterSite(tmp_path / "own", settings)
    await at.up()
    try:
        ready = next(event for event in at.events if isinstance(event, LrmReady))
        always = {"licences", BARRIER, CHECKPOINT, FOUND, here()}
        assert set(ready.software or ()) == ({"module greeter", *always} if own else always)
        # What the site offers from now on does not concern a cluster with a table of its own.
        at.lrm.use(Software(modules={} if own else greeter.modules))
        await at.until(lambda: set(at.ready().software or ()) == {"module greeter", *always})
        at.start(GroupSpec(argv=("/bin/sh", "-c", "echo $GREETING"), modules=("greeter",)), 0)
        (end,) = await at.ended(1)
        assert (end.outcome, at.log(end)) == (Outcome.DONE, "hello\n")
    finally:
        await at.down()


def array(*tasks: int) -> Array:
    return Array(token="a.b", script="/bin/true", tasks=IndexSet.of(tasks), processors=1)


@pytest.mark.parametrize(
    ("settings", "words"), [({"partition": "none"}, "Unknown queue"), ({"account": "nobody"}, "Invalid account")]
)
def test_what_every_job_is_refused_is_told_in_its_own_words(pbs: FakePbs, settings: dict[str, str], words: str) -> None:
    with pytest.raises(BatchRefused, match=words) as refusal:
        Pbs(ClusterSettings(kind="pbs", config=str(pbs.config), **settings)).submit(array(1, 2))
    assert refusal.value.every


def test_its_capacity_is_that_of_machines_that_are_up_and_its_queues_limit(pbs: FakePbs) -> None:
    has = Pbs(ClusterSettings(kind="pbs", config=str(pbs.config), partition="short")).capacity()
    assert (has.version, has.slots, has.widest, has.most_tasks) == ("20.0.1", 8, 8, 500)
    assert (has.memory_bytes, has.time_limit_s) == (2**34, 120.0)
    pbs.down = True
    pbs._write()
    with pytest.raises(BatchUnreachable, match="Connection refused"):
        Pbs(ClusterSettings(kind="pbs", config=str(pbs.config))).listing()


def test_a_configuration_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"config: /no/pbs\.conf: no such file; give the path of a pbs\.conf"):
        Pbs(ClusterSettings(kind="pbs", config="/no/pbs.conf"))
