"""Promises of every LocalResourceManager to the engine (`ports.LocalResourceManager`)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from diana.model import kept_log
from diana.model.facts import Outcome
from diana.model.job.spec import CheckpointSpec, ContractSpec, GroupSpec, Outputs, Resources
from tests.contract.lrm_builders import RealSite, shell

TRUE = GroupSpec(argv=("/bin/true",))
Site = Callable[..., Awaitable[RealSite]]


@pytest_asyncio.fixture(params=["real"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[RealSite] = []

    async def make(slots: int = 2) -> RealSite:
        made.append(RealSite(tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_all_jobs_run_and_each_end_is_told_once_when_it_is_forgotten_at_once(site: Site) -> None:
    at = await site()
    at.start(TRUE, *range(50))
    ends = await at.ended(50)
    at.forget(*ends)
    assert Counter(end.run.index for end in at.ends()) == Counter(range(50))
    assert {end.outcome for end in ends} == {Outcome.DONE}


async def test_an_end_is_told_again_after_a_restart_until_it_is_forgotten(site: Site) -> None:
    at = await site()
    at.start(TRUE, 0, 1)
    first = await at.ended(2)
    await at.restart_node()
    await at.until(lambda: len(at.ends()) == 4)
    assert {run.index for run in at.ready().known} == {0, 1}
    at.forget(*first)
    await at.restart_node()
    assert at.ready().known == ()


async def test_the_exit_code_is_told(site: Site) -> None:
    at = await site()
    at.start(shell("exit 3"), 0)
    at.start(shell("kill -9 $$"), 1)
    await at.ended(2)
    assert (at.by_index()[0].outcome, at.by_index()[0].exit_code) == (Outcome.FAILED, 3)
    assert (at.by_index()[1].outcome, at.by_index()[1].exit_code) == (Outcome.FAILED, 137)


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


async def test_a_run_ordered_twice_is_started_once(site: Site, tmp_path: Path) -> None:
    at = await site()
    marks = tmp_path / "marks"
    spec = shell(f"echo $DIANA_INDEX >> {marks}; sleep 0.1")
    at.start(spec, 0, 1)
    at.start(spec, 0, 1, 2)
    await at.ended(3)
    at.start(spec, 0, 1, 2)
    await at.restart_node()
    at.start(spec, 0, 1, 2)
    at.start(TRUE, 3)
    await at.ended(4)
    assert sorted(marks.read_text().split()) == ["0", "1", "2"]


async def test_an_order_of_an_older_session_is_dropped(site: Site) -> None:
    at = await site()
    old = at.ready().session
    await at.lose_lrm()
    at.start(TRUE, 0, session=old)
    at.start(TRUE, 1)
    await at.ended(1)
    assert {end.run.index for end in at.ends()} == {1}


async def test_a_time_limit_ends_a_job(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=("/bin/sleep", "30"), resources=Resources(time_limit_s=0.2)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.TIMED_OUT


async def test_cancelled_jobs_say_so_whether_they_ran_or_waited(site: Site) -> None:
    at = await site(slots=1)
    at.start(GroupSpec(argv=("/bin/sleep", "30")), 0, 1, 2)
    at.kill(0, 2)
    await at.ended(2)
    assert {i: end.outcome for i, end in at.by_index().items()} == {0: Outcome.CANCELLED, 2: Outcome.CANCELLED}
    at.kill(1)
    await at.ended(3)


def until_told(tmp_path: Path) -> str:
    return f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"


async def test_a_restarted_node_finds_its_jobs_running(site: Site) -> None:
    at = await site()
    at.start(shell("sleep 0.4"), *range(3))
    await at.restart_node()
    assert {run.index for run in at.ready().known} == {0, 1, 2}
    assert {end.outcome for end in await at.ended(3)} == {Outcome.DONE}
    assert at.losses() == 0


async def test_a_lost_lrm_tells_unknown_for_what_ran_and_voids_what_waited_and_reruns_nothing(
    site: Site, tmp_path: Path
) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}; {until_told(tmp_path)}"), *range(4))
    await at.until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
    await at.lose_lrm()
    (tmp_path / "go").touch()
    assert at.losses() == 1
    assert {run.index for run in at.ready().known} == {0, 1}
    ends = await at.ended(2)
    assert {(end.run.index, end.outcome) for end in ends} == {(0, Outcome.UNKNOWN), (1, Outcome.UNKNOWN)}
    assert all("spawner" in end.error for end in ends)
    at.start(TRUE, 2, 3)
    await at.ended(4)
    assert sorted(marks.read_text().split()) == ["0", "1"]


async def test_a_job_of_several_processors_waits_for_as_many_slots(site: Site, tmp_path: Path) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    at.start(shell(f"sleep 0.2; echo narrow >> {marks}"), 0)
    at.start(shell(f"echo wide >> {marks}", resources=Resources(processors=2)), 1)
    at.start(shell("true", resources=Resources(processors=3)), 2)
    await at.ended(3)
    assert marks.read_text().split() == ["narrow", "wide"]
    assert at.by_index()[2].outcome is Outcome.NOT_STARTED


# --- what has not begun is given back ----------------------------------------------------------------------


async def test_what_has_not_begun_is_given_back_and_what_has_runs_on(site: Site, tmp_path: Path) -> None:
    at = await site(slots=2)
    marks = tmp_path / "marks"
    spec = shell(f"echo $DIANA_INDEX.$DIANA_ATTEMPT >> {marks}; {until_told(tmp_path)}")
    assert at.ready().recalls
    at.start(spec, *range(6))
    await at.until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
    at.recall(0, 1, 3, 4, 5)
    back = await at.ended(3)
    assert {end.run.index for end in back} == {3, 4, 5} and {end.outcome for end in back} == {Outcome.UNBEGUN}
    (tmp_path / "go").touch()
    at.forget(*back)
    at.start(spec, 5, attempt=2)
    await at.until(lambda: sum(end.outcome is Outcome.DONE for end in at.ends()) == 4)
    assert sorted(marks.read_text().split()) == ["0.1", "1.1", "2.1", "5.2"]


async def test_what_was_given_back_stays_so_though_the_node_and_the_lrm_were_lost(site: Site, tmp_path: Path) -> None:
    at = await site(slots=1)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}; {until_told(tmp_path)}"), 0, 1, 2)
    await at.until(marks.exists)
    at.recall(1)
    await at.ended(1)
    await at.restart_node()
    await at.until(lambda: len(at.ends()) == 2)
    await at.lose_lrm()
    (tmp_path / "go").touch()
    await at.ended(2)
    assert {run.index for run in at.ready().known} == {0, 1}
    assert [at.by_index()[index].outcome for index in (0, 1)] == [Outcome.UNKNOWN, Outcome.UNBEGUN]
    assert marks.read_text().split() == ["0"]


async def test_each_run_begins_or_is_given_back_whenever_it_is_asked_for(site: Site, tmp_path: Path) -> None:
    at = await site(slots=4)
    marks = tmp_path / "marks"
    at.start(shell(f"echo $DIANA_INDEX >> {marks}"), *range(200))
    for first in range(0, 200, 20):
        at.recall(*range(first, 200, 7))
        await at.ended(first // 4)
    await at.ended(200)
    how = {outcome: {i for i, end in at.by_index().items() if end.outcome is outcome} for outcome in Outcome}
    assert how[Outcome.UNBEGUN] and how[Outcome.DONE] | how[Outcome.UNBEGUN] == set(range(200))
    assert Counter(map(int, marks.read_text().split())) == Counter(how[Outcome.DONE])


async def test_a_later_attempt_has_its_directory_though_the_first_was_given_back(site: Site, tmp_path: Path) -> None:
    at = await site(slots=1)
    spec = shell(f"{until_told(tmp_path)}; echo ok > out", outputs=Outputs(collect=("out",)))
    at.start(spec, 0, 1)
    at.recall(1)
    await at.until(lambda: 1 in at.by_index())
    (tmp_path / "go").touch()
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


async def test_a_run_that_saves_as_it_is_asked_ends_at_a_checkpoint_which_is_whole_or_none(
    site: Site, tmp_path: Path
) -> None:
    at = await site(4)
    at.start(saving(tmp_path), 0, 1, 2)
    await begun(at, tmp_path, 0, 1, 2)
    (tmp_path / "half.1").touch()
    at.save(0, 1)
    ends = {end.run.index: end for end in await at.ended(2)}
    assert {index: (end.outcome, end.exit_code) for index, end in ends.items()} == {
        0: (Outcome.CHECKPOINTED, 85),
        1: (Outcome.CHECKPOINTED, 85),
    }
    assert at.saved() == {0: [".checkpoint/0/1/state", ".checkpoint/0/1/whole"]}
    assert "whole is missing" in ends[1].error
    at.save(2)
    assert {end.run.index for end in await at.ended(3)} == {0, 1, 2}


async def test_a_run_that_does_not_heed_the_signal_runs_on_and_its_exit_code_is_its_own(
    site: Site, tmp_path: Path
) -> None:
    at = await site(4)
    deaf = ': >"$0/begun.$DIANA_INDEX"; while [ ! -e "$0/end" ]; do sleep 0.1; done; : >state; : >whole'
    at.start(saving(tmp_path, deaf), 0)
    # Not asked, it says of its own accord what means that it saved.
    at.start(saving(tmp_path, f"{deaf}; exit 85"), 1)
    await begun(at, tmp_path, 0, 1)
    at.save(0, wait_s=1.0)
    await asyncio.sleep(3.0)
    (tmp_path / "end").touch()
    ends = {end.run.index: end.outcome for end in await at.ended(2)}
    assert ends == {0: Outcome.DONE, 1: Outcome.FAILED}


async def test_a_run_under_a_time_limit_and_within_a_shell_is_asked_and_its_limit_stands(
    site: Site, tmp_path: Path
) -> None:
    at = await site(4)
    (tmp_path / "inner").write_text(SAVES)
    inner = 'sh -c "$(cat "$0/inner")" "$0"; exit $?'
    at.start(saving(tmp_path, inner, resources=Resources(time_limit_s=600.0)), 0)
    await begun(at, tmp_path, 0)
    at.save(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CHECKPOINTED
    at.start(saving(tmp_path, SAVES, resources=Resources(time_limit_s=2.0)), 1)
    ends = await at.ended(2)
    assert {end.run.index: end.outcome for end in ends}[1] is Outcome.TIMED_OUT, ends


async def test_a_run_reports_how_far_it_is(site: Site) -> None:
    at = await site()
    script = """
    for n in 1 2 3; do
        echo "$n/3" >"$DIANA_REPORT.new"; mv "$DIANA_REPORT.new" "$DIANA_REPORT"; sleep 1.5
    done
    echo nonsense >"$DIANA_REPORT"; sleep 1.2
    """
    at.start(shell(script, contract=ContractSpec()), 0)
    await at.ended(1)
    told = at.steps()
    assert told and set(told) <= {(0, float(n), 3.0) for n in (1, 2, 3)}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


async def test_a_component_that_stops_with_others_before_it_is_asked_is_at_a_checkpoint(
    site: Site, tmp_path: Path
) -> None:
    at = await site()
    at.start(saving(tmp_path, ": >state; : >whole; exit 85"), 0, barrier_s=time.monotonic() + 60.0)
    await at.until(lambda: 0 in at.at_barrier())
    at.go(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CHECKPOINTED
    assert at.saved() == {0: [".checkpoint/0/1/state", ".checkpoint/0/1/whole"]}
