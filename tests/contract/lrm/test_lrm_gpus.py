"""Each GPU of a machine is one job's from before it starts until nothing of it is left, whoever dies meanwhile. These
are about devices and what jobs see of them; how many run at once is in `test_lrm_of_machine.py`, for the twin too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from diana.adapters.lrm.spawner.devices import Devices
from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import RealSite, shell

DEVICES = ("0", "GPU-8932f937")


class Equipped(RealSite):
    gpus = DEVICES


Site = Callable[..., Awaitable[Equipped]]


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made: list[Equipped] = []

    async def make(slots: int = 8) -> Equipped:
        made.append(Equipped(tmp_path / str(len(made)), slots))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


def wanting(gpus: int, script: str) -> GroupSpec:
    return shell(script, resources=Resources(gpus=gpus))


def held(marks: Path) -> list[tuple[str, ...]]:
    """Devices in use after each line of the marks; AssertionError where one is handed out twice."""
    now: dict[str, str] = {}
    out = []
    for line in marks.read_text().splitlines():
        what, index, devices = line.split(" ")
        for device in devices.split(","):
            if what == "begin":
                assert device not in now, f"{device} has job {now.get(device)} and gets {index}"
                now[device] = index
            else:
                assert now.pop(device) == index
        out.append(tuple(sorted(now)))
    return out


def marked(marks: Path, pause_s: float) -> str:
    """Both lines are written while the job has its devices."""
    what = "$DIANA_INDEX $CUDA_VISIBLE_DEVICES"
    return f'echo "begin {what}" >> {marks}; sleep {pause_s}; echo "end {what}" >> {marks}'


async def test_jobs_that_want_one_run_beside_each_other_as_far_as_there_are_devices(site: Site, tmp_path: Path) -> None:
    at, marks = await site(), tmp_path / "marks"
    assert (at.ready().gpus, at.ready().all_gpus) == (2, 2)
    at.start(wanting(1, marked(marks, 0.05)), *range(12))
    ends = await at.ended(12)
    assert {end.outcome for end in ends} == {Outcome.DONE}
    assert max(map(len, held(marks))) == 2 and held(marks)[-1] == ()


async def test_a_job_finds_the_names_of_its_devices_and_who_asked_for_none_sees_none(site: Site) -> None:
    at = await site()
    told = 'echo "$DIANA_GPUS/$CUDA_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES/$ROCR_VISIBLE_DEVICES"'
    names = ("CUDA_VISIBLE_DEVICES", "DIANA_GPUS", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    forged = tuple((name, "7") for name in names)
    at.start(shell(told, resources=Resources(gpus=2), environment=forged), 0)
    await at.ended(1)
    at.start(shell(told, environment=forged), 1)
    await at.ended(2)
    both = ",".join(DEVICES)
    assert [at.log(at.by_index()[index]) for index in (0, 1)] == [f"{both}/{both}/{both}/\n", "//-1/\n"]


async def test_on_a_machine_that_declares_none_jobs_keep_their_own_idea_of_it(site: Site, tmp_path: Path) -> None:
    at = RealSite(tmp_path / "plain")
    await at.up()
    try:
        at.start(shell("echo $CUDA_VISIBLE_DEVICES", environment=(("CUDA_VISIBLE_DEVICES", "7"),)), 0)
        await at.ended(1)
        assert at.log(at.by_index()[0]) == "7\n"
        at.start(wanting(1, "true"), 1)
        await at.ended(2)
        assert at.by_index()[1].outcome is Outcome.NOT_STARTED
        assert at.by_index()[1].error == "alpha-1.1: machine main hands out no GPUs, a job needs 1"
    finally:
        await at.down()


async def test_what_a_running_job_has_goes_to_nobody_when_node_and_spawner_died(site: Site, tmp_path: Path) -> None:
    at, marks, go = await site(), tmp_path / "marks", tmp_path / "go"
    what = "$DIANA_INDEX $CUDA_VISIBLE_DEVICES"
    waits = f'echo "begin {what}" >> {marks}; until [ -e {go} ]; do sleep 0.02; done; echo "end {what}" >> {marks}'
    at.start(wanting(1, waits), 0)
    await at.until(lambda: marks.exists() and "begin 0" in marks.read_text())
    await at.restart_node()
    await at.lose_lrm()
    at.start(wanting(1, marked(marks, 0.02)), *range(1, 8))
    await at.until(lambda: sum(end.run.index > 0 for end in set(at.ends())) == 7)
    # All of them had the other one.
    assert {devices for devices in held(marks) if len(devices) == 2} == {tuple(sorted(DEVICES))}
    at.start(wanting(2, marked(marks, 0.02)), 8)
    await at.restart_node()
    go.touch()
    await at.until(lambda: 8 in at.by_index())
    assert held(marks)[-1] == () and at.by_index()[8].outcome is Outcome.DONE


@pytest.mark.wide
async def test_a_device_is_free_again_when_its_job_was_killed_with_all_it_left_behind(site: Site) -> None:
    at = await site()
    at.start(wanting(2, "setsid sleep 60 & sleep 60"), 0)
    await at.until(lambda: at.lrm.connected)
    at.kill(0)
    at.start(wanting(2, "true"), 1)
    await at.ended(2)
    assert at.by_index()[1].outcome is Outcome.DONE
    assert at.by_index()[0].outcome is Outcome.CANCELLED


async def test_a_device_that_is_declared_no_more_stays_with_its_job_alone(site: Site, tmp_path: Path) -> None:
    at, marks, go = await site(), tmp_path / "marks", tmp_path / "go"
    what = "$DIANA_INDEX $CUDA_VISIBLE_DEVICES"
    at.start(wanting(1, f'echo "begin {what}" >> {marks}; until [ -e {go} ]; do sleep 0.02; done'), 0)
    await at.until(lambda: marks.exists() and "begin 0 0" in marks.read_text())
    at.gpus = ("GPU-8932f937", "5")
    await at.restart_node()
    assert at.ready().gpus == 2
    at.start(wanting(1, f'echo "begin {what}" >> {marks}; until [ -e {go} ]; do sleep 0.02; done'), 1, 2)
    await at.until(lambda: len(marks.read_text().splitlines()) == 3)
    assert {line.split()[2] for line in marks.read_text().splitlines()} == {"0", "GPU-8932f937", "5"}
    go.touch()
    await at.ended(3)


@given(st.lists(st.tuples(st.sampled_from(["take", "give", "declare"]), st.integers(0, 4)), max_size=40))
def test_a_device_has_one_holder_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    devices, names = Devices(), [str(number) for number in range(4)]
    devices.declare(names)
    held: list[list[str]] = []
    for what, number in steps:
        if what == "take" and devices.enough(number):
            held.append(devices.take(number))
        elif what == "give" and held:
            devices.release(held.pop(number % len(held)))
        elif what == "declare":
            devices.declare(names[:number])
        busy = [device for taken in held for device in taken]
        assert len(busy) == len(set(busy))
    for taken in held:
        devices.release(taken)
    devices.declare(names)
    assert devices.take(devices.total) == names
