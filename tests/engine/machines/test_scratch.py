"""SPEC J3: a job's scratch space is a demand on the disk of the machine it runs on."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.dispatch import capacity, quote_answer
from diana.engine.journal import events as ev
from diana.engine.machines.requirements import asked as request_of
from diana.engine.messages import messages as ms
from diana.model.job.spec import GroupSpec
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.machines.test_workers import Machines

GIB = 2**30
LONG = 500.0


@dataclass
class Disk:
    size: int
    free: int


class WithDisks(Machines):
    """Machines of so many slots, each with a disk, in GiB. Size 0: it tells none."""

    def __init__(self, site: Site, slots: int, **disks: int) -> None:
        super().__init__(site, **dict.fromkeys(disks, slots))
        self.disks = {name: Disk(size, size) for name, size in disks.items()}
        for name in disks:
            self.ready(name)

    def handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.LrmReady) and self.disks[event.worker].size:
            disk = self.disks[event.worker]
            event = msgspec.structs.replace(event, scratch_bytes=disk.size * GIB, scratch_free_bytes=disk.free * GIB)
        super().handle(event)

    def free(self, name: str, free: int) -> None:
        self.disks[name].free = free
        self.handle(ev.ScratchSeen(worker=name, session=self.sessions[name], free_bytes=free * GIB))


def with_disks(slots: int, **disks: int) -> tuple[Site, WithDisks]:
    site = Grid({"guard_jobs": 0}, alpha=0)["alpha"]
    return site, WithDisks(site, slots, **disks)


def wanting(scratch: float, jobs: int = 1, work_s: float = LONG, **needs: object) -> GroupSpec:
    made = spec(jobs, work_s=work_s, **needs)  # type: ignore[arg-type]
    resources = msgspec.structs.replace(made.resources, scratch_bytes=int(scratch * GIB))
    return msgspec.structs.replace(made, resources=resources)


def test_a_job_runs_only_where_the_disk_is_large_enough() -> None:
    _, machines = with_disks(4, small=100, big=200)
    machines.submit(wanting(150, 1), 1)
    assert (machines.open("small"), machines.open("big")) == (0, 1)


def test_a_cluster_that_says_how_large_its_disks_are_and_not_how_full_gets_no_larger_job() -> None:
    _, machines = with_disks(4, small=0, big=0)
    for name, size in (("small", 100), ("big", 200)):
        machines.sessions[name] += 1
        session = machines.sessions[name]
        machines.handle(ev.LrmReady(worker=name, session=session, slots=4, known=(), scratch_bytes=size * GIB))
    machines.submit(wanting(150, 4), 4)
    assert (machines.open("small"), machines.open("big")) == (0, 4)


def test_scratch_that_no_machine_has_is_refused_with_what_the_largest_has() -> None:
    site, machines = with_disks(4, small=100, big=200)
    machines.submit(msgspec.structs.replace(wanting(201), sites=("alpha",)), 1, 8)
    told = str(site.replies[8])
    assert "has 200.0 GiB of scratch, a job needs 201.0 GiB" in told and "scratch <= 200.0 GiB" in told
    asked = ms.QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner=ALICE.name, scratch_bytes=201 * GIB
    )
    assert "200.0 GiB of scratch" in quote_answer.quote(site.engine.core, asked).rejected
    assert not quote_answer.quote(site.engine.core, msgspec.structs.replace(asked, scratch_bytes=200 * GIB)).rejected


def test_the_size_of_a_disk_outlives_a_restart_of_the_node() -> None:
    site, machines = with_disks(4, small=100, big=200)
    site.restart()
    assert site.engine.core.workers.offer().most["scratch_bytes"] == 200 * GIB
    machines.submit(msgspec.structs.replace(wanting(201), sites=("alpha",)), 1, 8)
    assert "200.0 GiB of scratch" in str(site.replies[8])


def test_a_machine_that_tells_no_disk_takes_jobs_of_any_scratch() -> None:
    site, machines = with_disks(4, silent=0, small=100)
    assert site.engine.core.workers.offer().most == {}
    machines.submit(wanting(5000, 2), 2)
    assert (machines.open("silent"), machines.open("small")) == (2, 0)


@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_jobs_on_one_disk_together_are_promised_no_more_than_there_is(work_s: float) -> None:
    """Quick ones are else given ahead of free slots."""
    _, machines = with_disks(8, m1=100, m2=250)
    machines.submit(wanting(60, 20, work_s), 20)
    assert (machines.open("m1"), machines.open("m2")) == (1, 4)
    machines.end("m2", 1)
    assert (machines.open("m1"), machines.open("m2")) == (1, 4)


def test_a_machine_whose_disk_others_fill_is_passed_over_until_there_is_room() -> None:
    site, machines = with_disks(4, m1=200)
    machines.free("m1", 40)
    machines.submit(wanting(50, 1), 1)
    machines.submit(spec(2, work_s=LONG), 2, 2, who=BOB)
    assert machines.open("m1") == 2
    custody = next(c for c in site.engine.core.state.custodies.values() if c.spec.resources.scratch_bytes)
    assert capacity.nobody_takes(site.engine.core, request_of(custody.spec)) == (
        "alpha has no machine with 1 processor and 50.0 GiB of scratch just now: "
        "others leave 40.0 GiB of it at machine m1"
    )
    machines.free("m1", 60)
    assert machines.open("m1") == 3


def test_a_small_job_goes_before_a_large_one_that_waits_for_the_disk() -> None:
    _, machines = with_disks(8, m1=100)
    machines.submit(wanting(60, 1), 1)
    machines.submit(wanting(50, 1), 1, 2)
    machines.submit(wanting(30, 1), 1, 3)
    machines.submit(spec(1, work_s=LONG), 1, 4)
    assert machines.open("m1") == 3
    machines.end("m1", 1)
    assert machines.open("m1") == 3


def test_what_a_job_has_written_is_not_counted_a_second_time() -> None:
    _, machines = with_disks(8, m1=200)
    machines.submit(wanting(100, 1), 1)
    machines.free("m1", 100)
    machines.submit(wanting(100, 1), 1, 2)
    assert machines.open("m1") == 2


def test_a_job_that_writes_more_than_it_asked_leaves_the_others_less() -> None:
    _, machines = with_disks(8, m1=200)
    machines.submit(wanting(100, 1), 1)
    machines.free("m1", 60)
    machines.submit(wanting(100, 1), 1, 2)
    assert machines.open("m1") == 1


def test_a_word_of_an_older_session_says_nothing_of_the_disk() -> None:
    site, machines = with_disks(4, m1=200)
    machines.handle(ev.ScratchSeen(worker="m1", session=machines.sessions["m1"] - 1, free_bytes=0))
    machines.handle(ev.ScratchSeen(worker="stranger", session=1, free_bytes=0))
    machines.submit(wanting(150), 1)
    assert machines.open("m1") == 1
    assert site.engine.core.workers.offer().most["scratch_bytes"] == 200 * GIB


@given(st.data())
def test_the_room_for_jobs_lies_between_what_is_free_and_that_with_all_promises(data: st.DataObject) -> None:
    _, machines = with_disks(8, m1=200)
    worker = machines.site.engine.core.workers.find("m1")
    assert worker is not None
    for number in range(data.draw(st.integers(1, 6))):
        scratch, free = data.draw(st.integers(1, 120)), data.draw(st.integers(0, 200))
        machines.submit(wanting(scratch), 1, number + 1)
        held = worker.lane.held["scratch_bytes"]
        assert held <= worker.scratch_room
        machines.free("m1", free)
        held = worker.lane.held["scratch_bytes"]
        assert free * GIB <= worker.scratch_room <= free * GIB + held
        if data.draw(st.booleans()):
            machines.end("m1", 1)
