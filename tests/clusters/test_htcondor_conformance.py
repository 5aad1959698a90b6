"""A cluster over HTCondor."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.htcondor import HTCondor
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, Stage
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.clusters.condor_site import HTCondorSite
from tests.contract.lrm_builders import Site, shell

# Its programs are of a later Debian than a machine may reach, and it takes minutes.
pytestmark = pytest.mark.wide


@pytest_asyncio.fixture
async def site(htcondor: HTCondorSite, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        settings = ClusterSettings(
            kind="htcondor", config=str(htcondor.config), slots=slots, look_s=0.2, ask_s=0.5, settle_s=2.0
        )
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_a_job_that_asks_for_processors_memory_and_gpus_has_them(site: Site) -> None:
    at = await site(slots=8)
    wants = Resources(processors=3, memory_bytes=100 << 20, gpus=1, time_limit_s=50.0)
    at.start(shell('echo "$OMP_NUM_THREADS $CUDA_VISIBLE_DEVICES"', resources=wants), 0)
    (end,) = await at.ended(1)
    processors, _, gpus = at.log(end).strip().partition(" ")
    assert (end.outcome, processors) == (Outcome.DONE, "3")
    assert gpus in ("CUDA0", "CUDA1")


def ours(htcondor: HTCondorSite) -> str:
    return htcondor.run("condor_q", "-constraint", "DianaToken =!= undefined", "-af", "JobStatus").strip()


async def test_a_job_that_is_evicted_is_told_so_and_does_not_begin_anew(
    site: Site, htcondor: HTCondorSite, tmp_path: Path
) -> None:
    at = await site()
    began = tmp_path / "began"
    at.start(shell(f"echo >> {began}; sleep 60"), 0)
    await at.until(began.exists)
    htcondor.run("condor_vacate_job", "-constraint", "DianaToken =!= undefined")
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.INTERRUPTED
    assert "htcondor lost it on " in end.error and "evicted from slot1_" in end.error
    await at.until(lambda: not ours(htcondor))
    assert began.read_text() == "\n"


async def test_a_job_that_is_held_while_it_runs_is_over_with_the_reason(
    site: Site, htcondor: HTCondorSite, tmp_path: Path
) -> None:
    at = await site()
    at.start(shell(f"touch {tmp_path}/began; sleep 60"), 0)
    await at.until((tmp_path / "began").exists)
    htcondor.run("condor_hold", "-reason", "too greedy", "-constraint", "DianaToken =!= undefined")
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.UNKNOWN
    assert "told no end (too greedy (by user someone))" in end.error
    await at.until(lambda: not ours(htcondor))


async def test_a_schedd_that_is_killed_comes_back_to_jobs_that_ran_on(
    site: Site, htcondor: HTCondorSite, tmp_path: Path
) -> None:
    at = await site()
    at.start(shell(f"echo $DIANA_INDEX >> {tmp_path}/began; sleep 6"), 0, 1, 2)
    await at.until((tmp_path / "began").exists)
    htcondor.kill_schedd()
    ends = await at.ended(3)
    assert ({end.outcome for end in ends}, at.losses()) == ({Outcome.DONE}, 0)
    assert sorted((tmp_path / "began").read_text().split()) == ["0", "1", "2"]


async def test_what_is_over_is_in_its_history(site: Site, htcondor: HTCondorSite) -> None:
    at = await site()
    at.start(shell("exit 3"), 0, 4)
    await at.ended(2)
    await at.until(lambda: not ours(htcondor))
    job = htcondor.run("condor_history", "-limit", "1", "-af", "ClusterId").strip()
    system = HTCondor(ClusterSettings(kind="htcondor", config=str(htcondor.config)))
    assert {(seen.job, str(seen.tasks), seen.why) for seen in system.past([job], 0.0)} == {(job, "0-1", "exit code 3")}


def made(htcondor: HTCondorSite, **settings: object) -> HTCondor:
    return HTCondor(ClusterSettings(kind="htcondor", config=str(htcondor.config), **settings))  # type: ignore[arg-type]


def array(script: Path, *tasks: int) -> Array:
    return Array(token="a.b", script=str(script), tasks=IndexSet.of(tasks), processors=1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partition": "nowhere"}, "unknown host nowhere"),
        ({"options": ("requirements = (((",)}, "Parse error"),
    ],
)
def test_what_every_job_is_refused_is_told_in_its_own_words(
    htcondor: HTCondorSite, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(BatchRefused, match=words) as refusal:
        made(htcondor, **settings).submit(array(Path("/bin/true"), 0))
    assert refusal.value.every


def test_more_jobs_than_it_takes_of_one_owner_wait(htcondor: HTCondorSite) -> None:
    with pytest.raises(BatchUnreachable, match="MAX_JOBS_PER_OWNER"):
        made(htcondor).submit(array(Path("/bin/true"), *range(3001)))


def test_the_operators_lines_and_any_path_reach_it_and_tasks_are_cancelled_by_number(
    htcondor: HTCondorSite, tmp_path: Path
) -> None:
    script = tmp_path / "a $(HOME) 'b'" / "script"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho > $DIANA_TASK\nsleep 30\n")
    script.chmod(0o755)
    system = made(htcondor, account="physics.cms", partition="someone@" + host(htcondor), options=('+Queue = "long"',))
    job = system.submit(array(script, 3, 5, 6, 9))
    until_s = time.monotonic() + 60
    while len(list(script.parent.iterdir())) < 5 and time.monotonic() < until_s:
        time.sleep(0.1)
    assert {path.name for path in script.parent.iterdir()} == {"script", "3", "5", "6", "9"}
    said = htcondor.run("condor_q", job, "-af", "AcctGroup", "Queue", "JobBatchName", "DianaTask").splitlines()
    assert sorted(said) == [f"physics.cms long diana.a.b {task}" for task in (3, 5, 6, 9)]
    system.cancel(job, IndexSet.of([3, 4, 5]))
    while len((seen := system.listing())[0].tasks) > 2 and time.monotonic() < until_s:
        time.sleep(0.1)
    assert [(each.job, each.token, str(each.tasks), each.stage) for each in seen] == [
        (job, "a.b", "6,9", Stage.RUNNING)
    ]
    system.cancel(job, IndexSet.of([6, 9]))
    while system.listing() and time.monotonic() < until_s:
        time.sleep(0.1)
    system.cancel(job, IndexSet.of([6, 9]))
    assert {(str(seen.tasks), seen.why) for seen in system.past([job], 0.0)} == {
        ("3,5-6,9", "via condor_rm (by user someone)")
    }


def host(htcondor: HTCondorSite) -> str:
    return htcondor.run("condor_status", "-schedd", "-af", "Machine").strip()


def test_machines_that_do_not_share_the_file_system_are_not_ours(htcondor: HTCondorSite, tmp_path: Path) -> None:
    config = tmp_path / "condor_config"
    config.write_text(f"include : {htcondor.config}\nFILESYSTEM_DOMAIN = elsewhere\n")
    with pytest.raises(
        BatchRefused, match=r"no machine of the pool is of this one's FILESYSTEM_DOMAIN, elsewhere; set it"
    ):
        HTCondor(ClusterSettings(kind="htcondor", config=str(config))).capacity()
    options = ("should_transfer_files = IF_NEEDED",)
    assert HTCondor(ClusterSettings(kind="htcondor", config=str(config), options=options)).capacity().slots == 8


def test_its_capacity_is_the_pools(htcondor: HTCondorSite) -> None:
    has = HTCondor(ClusterSettings(kind="htcondor", config=str(htcondor.config))).capacity()
    assert (has.slots, has.widest, has.memory_bytes, has.gpus, has.all_gpus) == (8, 8, 8192 << 20, 2, 2)
    assert (has.most_tasks, has.most_jobs) == (3000, 3000)
