"""An LRM's dealings with processes, files and logs: promises that the simulator cannot keep, for its jobs have none of
these. They concern commands, environments, directories, checkpoints of several files and a process that is stopped;
what both can obey is in `test_lrm_conformance.py`, `test_lrm_barrier.py` and `test_lrm_of_machine.py`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from diana.engine.journal.events import JobsEnded
from diana.model import kept_log
from diana.model.facts import Outcome
from diana.model.job.software import BARRIER
from diana.model.job.spec import CheckpointSpec, GroupSpec, Outputs, Resources
from tests.contract.lrm_builders import SUBGROUP, RealSite, Site, shell


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made: list[RealSite] = []

    async def make(slots: int = 2) -> RealSite:
        made.append(RealSite(tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_the_log_of_a_run_is_shown_while_it_runs(site: Site, tmp_path: Path) -> None:
    at, go = await site(), tmp_path / "go"
    at.start(shell(f"echo begun; echo and >&2; until [ -e {go} ]; do sleep 0.05; done"), 0)
    await at.shows(0, lambda log: log.stand == kept_log.RUNS and log.data == b"begun\nand\n")
    assert (await at.log_of(0, start=6)).data == b"and\n"
    last = await at.log_of(0, start=-3, most=2)
    assert (last.start, last.data, last.size) == (7, b"nd", 10)
    go.touch()
    await at.ended(1)
    await at.shows(0, lambda log: log.stand == kept_log.ENDED)


async def test_a_later_attempt_has_its_directory_though_the_first_was_given_back(site: Site, tmp_path: Path) -> None:
    at, go = await site(slots=1), tmp_path / "go"
    spec = shell(f"until [ -e {go} ]; do sleep 0.02; done; echo ok > out", outputs=Outputs(collect=("out",)))
    at.start(spec, 0, 1)
    at.recall(1)
    await at.until(lambda: 1 in at.by_index())
    go.touch()
    at.forget(at.by_index()[1])
    at.start(spec, 1, attempt=2)
    await at.until(lambda: sum(end.outcome is Outcome.DONE for end in at.ends()) == 2)
    assert {(end.run.index, end.run.attempt) for end in at.ends() if end.outcome is Outcome.DONE} == {(0, 1), (1, 2)}


SAVES = """
trap 'echo $n >state; [ -e "$0/half.$DIANA_INDEX" ] || : >whole; exit 85' USR1
: >"$0/begun.$DIANA_INDEX"
n=0; while [ ! -e "$0/end" ]; do n=$((n + 1)); sleep 0.1; done
"""


def saving(folder: Path, script: str = SAVES, **more: Any) -> GroupSpec:
    spec = shell(script, checkpoint=CheckpointSpec(paths=("state", "whole")), **more)
    return msgspec.structs.replace(spec, argv=(*spec.argv, str(folder)))


async def begun(at: RealSite, folder: Path, *indices: int) -> None:
    await at.until(lambda: all((folder / f"begun.{index}").exists() for index in indices))


async def test_a_checkpoint_is_whole_or_none(site: Site, tmp_path: Path) -> None:
    at = await site(4)
    at.start(saving(tmp_path), 0, 1)
    await begun(at, tmp_path, 0, 1)
    (tmp_path / "half.1").touch()
    at.save(0, 1)
    ends = {end.run.index: end for end in await at.ended(2)}
    assert {index: (end.outcome, end.exit_code) for index, end in ends.items()} == {
        0: (Outcome.CHECKPOINTED, 85),
        1: (Outcome.CHECKPOINTED, 85),
    }
    assert at.saved() == {0: [".checkpoint/0/1/state", ".checkpoint/0/1/whole"]}
    assert "whole is missing" in ends[1].error


async def test_a_run_within_a_shell_is_asked_to_save(site: Site, tmp_path: Path) -> None:
    at = await site(4)
    (tmp_path / "inner").write_text(SAVES)
    inner = 'sh -c "$(cat "$0/inner")" "$0"; exit $?'
    at.start(saving(tmp_path, inner, resources=Resources(time_limit_s=600.0)), 0)
    await begun(at, tmp_path, 0)
    at.save(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CHECKPOINTED


@pytest.mark.parametrize("more", [(), (("SLURM_JOB_ID", "{group}.{index}"),)], ids=["alike", "by job"])
async def test_a_script_for_slurm_goes_to_its_own_directory_and_its_two_outputs_are_one_file(
    site: Site, more: tuple[tuple[str, str], ...]
) -> None:
    at = await site()
    goes = 'cd /; cd "$SLURM_SUBMIT_DIR" && [ "$SLURM_SUBMIT_DIR" = "$PWD" ] || exit 3; echo x > made'
    spec = shell(
        f"{goes}; echo out; echo err >&2",
        environment=(("SLURM_SUBMIT_DIR", "."), *more),
        outputs=Outputs(collect=("made",)),
        stdout="log-{index}.txt",
        stderr="log-{index}.txt",
    )
    at.start(spec, 2, 5)
    ends = await at.ended(2)
    assert {end.outcome for end in ends} == {Outcome.DONE}
    names = [file.name for event in at.events if isinstance(event, JobsEnded) for file in event.facts.outputs]
    assert sorted(names) == ["2/made", "5/made", "log-2.txt", "log-5.txt"]
    kept = at.data.collected(SUBGROUP, 1)
    assert [(kept / name).read_text() for name in sorted(names)] == ["x\n", "x\n", "out\nerr\n", "out\nerr\n"]


async def test_a_script_for_slurm_without_a_directory_of_its_own_goes_to_where_it_began(site: Site) -> None:
    at = await site()
    goes = 'here=$PWD; cd /; cd "$SLURM_SUBMIT_DIR" && echo $here $PWD'
    at.start(shell(goes, environment=(("SLURM_SUBMIT_DIR", "."),)), 0)
    (end,) = await at.ended(1)
    one, other = at.log(end).split()
    assert one == other != "/"


# --- at the barrier ----------------------------------------------------------------------------------------


async def test_jobs_that_are_let_go_find_what_they_are_told(site: Site, tmp_path: Path) -> None:
    at = await site()
    assert BARRIER in (at.ready().software or at.lrm.offered())
    marks = tmp_path / "marks"
    spec = shell(f"echo $DIANA_GANG_RANK/$DIANA_GANG_SIZE $MASTER_ADDR >> {marks}")
    at.start(spec, 4, 5, barrier_s=at.now_s() + 600.0)
    await at.until(lambda: at.at_barrier() == {4, 5})
    at.go(4, 5, environment=(("MASTER_ADDR", "ten"),), size=3)
    await at.ended(2)
    assert sorted(marks.read_text().splitlines()) == ["1/3 ten", "2/3 ten"]


async def test_a_command_that_is_not_there_is_found_out_before_others_rely_on_it(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=("no-such-program",)), 0, barrier_s=at.now_s() + 600.0)
    at.start(GroupSpec(argv=("/no/such/program",)), 1, barrier_s=at.now_s() + 600.0)
    ends = await at.ended(2)
    assert {end.outcome for end in ends} == {Outcome.NOT_STARTED} and not at.at_barrier()
    assert all("not found" in end.error for end in ends)


async def test_a_file_that_is_no_program_is_found_out_before_others_rely_on_it(site: Site, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("#!/bin/sh\n")
    at = await site()
    at.start(GroupSpec(argv=(f"{tmp_path}/notes",)), 0, barrier_s=at.now_s() + 600.0)
    at.start(GroupSpec(argv=(str(tmp_path),)), 1, barrier_s=at.now_s() + 600.0)
    await at.until(lambda: len(at.ends()) == 2 or bool(at.at_barrier()))
    assert {end.outcome for end in at.ends()} == {Outcome.NOT_STARTED} and not at.at_barrier()
    assert all("may not be executed" in end.error for end in at.ends())


async def test_a_spawner_that_was_stopped_beyond_the_barrier_lets_nothing_go(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    at.start(shell(f"touch {marks}"), 0, barrier_s=at.now_s() + 0.6)
    # On a busy machine it may be over before it is held.
    await at.until(lambda: at.at_barrier() == {0} or bool(at.ends()))
    os.kill(at.spawner_pid(), signal.SIGSTOP)
    at.go(0)
    await asyncio.sleep(0.8)
    os.kill(at.spawner_pid(), signal.SIGCONT)
    assert [end.outcome for end in await at.ended(1)] == [Outcome.UNBEGUN]
    assert not marks.exists()
