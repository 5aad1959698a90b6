"""The wants of one job on its machine decide where it goes, and when it would start."""

from __future__ import annotations

import msgspec

from diana.engine.dispatch import capacity
from diana.engine.journal import events as ev
from diana.model.job.resources import ResourceRequest
from tests.engine.builders import spec
from tests.engine.machines.test_workers import site_of


def test_a_job_that_wants_more_memory_than_a_machine_has_goes_to_another() -> None:
    _, machines = site_of(0, small=4, big=1)
    for name, memory_bytes in (("small", 2**30), ("big", 2**34)):
        machines.sessions[name] += 1
        machines.handle(
            ev.LrmReady(
                worker=name,
                session=machines.sessions[name],
                slots=machines.slots[name],
                known=(),
                memory_bytes=memory_bytes,
            )
        )
    wanted = spec(2)
    resources = msgspec.structs.replace(wanted.resources, memory_bytes=2**32)
    machines.submit(msgspec.structs.replace(wanted, resources=resources), 2)
    assert (machines.open("small"), machines.open("big")) == (0, 2)
    resources = msgspec.structs.replace(resources, processors=2)
    machines.submit(msgspec.structs.replace(wanted, resources=resources, sites=("alpha",)), 2, 8)
    assert "no machine with 2 processors and 4.0 GiB of memory" in str(machines.site.replies[8])


def test_jobs_that_want_gpus_go_where_they_are_and_are_forecast_by_their_number() -> None:
    _, machines = site_of(0, plain=8, cluster=8)
    for name, gpus in (("plain", (0, 0)), ("cluster", (2, 4))):
        machines.sessions[name] += 1
        machines.handle(
            ev.LrmReady(
                worker=name,
                session=machines.sessions[name],
                slots=8,
                known=(),
                gpus=gpus[0],
                all_gpus=gpus[1],
            )
        )
    workers = machines.site.engine.core.workers
    kinds = [ResourceRequest(1, amounts) for amounts in ((), (("gpus", 2),), (("gpus", 3),))]
    assert [workers.lanes(kind) for kind in kinds] == [16, 2, 0]
    assert workers.offer().most == {"gpus": 2}
    wanted = spec(3)
    resources = msgspec.structs.replace(wanted.resources, gpus=2)
    machines.submit(msgspec.structs.replace(wanted, resources=resources), 3)
    assert (machines.open("plain"), machines.open("cluster")) == (0, 2)
    resources = msgspec.structs.replace(resources, gpus=3)
    machines.submit(msgspec.structs.replace(wanted, resources=resources, sites=("alpha",)), 2, 8)
    assert "has 2 GPUs for one job, a job needs 3" in str(machines.site.replies[8])
    machines.site.restart()
    assert machines.site.engine.core.workers.offer().most["gpus"] == 2


def test_a_cluster_that_others_fill_says_when_it_starts_something_and_is_forecast_so() -> None:
    """Its one slot is free as far as we know, and whatever it has of ours has not begun."""
    _, machines = site_of(0, cluster=1)
    core = machines.site.engine.core

    def waits(delay_s: float) -> tuple[float, int]:
        session = machines.sessions["cluster"]
        machines.handle(ev.LrmSized(worker="cluster", session=session, slots=1, ahead=1, delay_s=delay_s))
        slots, ahead_s = capacity.slots_of(core)
        return slots.starts_s(1, ahead_s), capacity.free_slots(core)

    machines.sessions["cluster"] += 1
    machines.handle(ev.LrmReady(worker="cluster", session=machines.sessions["cluster"], slots=1, known=(), ahead=1))
    assert waits(0.0) == (0.0, 1)
    assert waits(3600.0) == (3600.0, 0)
    machines.submit(spec(1, work_s=10.0), 1)
    assert waits(3600.0) == (3600.0, 0)
    assert waits(0.0) == (10.0, 0)


def test_a_site_without_slots_says_what_is_wrong_with_its_cluster() -> None:
    _, machines = site_of(0, cluster=0)
    machines.sessions["cluster"] += 1
    session, why = machines.sessions["cluster"], "slurm refuses: Invalid account"
    machines.handle(ev.LrmReady(worker="cluster", session=session, slots=0, known=(), ahead=0, trouble=why))
    machines.submit(msgspec.structs.replace(spec(1), sites=("alpha",)), 1, 8)
    assert f"has no slots (cluster: {why})" in str(machines.site.replies[8])
    machines.handle(ev.LrmReady(worker="cluster", session=session + 1, slots=2, known=(), ahead=0))
    assert machines.site.engine.core.workers.trouble() == ""


def test_a_job_wider_than_any_machine_of_a_cluster_goes_to_a_wider_one() -> None:
    _, machines = site_of(0, cluster=20, wide=12)
    for name, widest in (("cluster", 8), ("wide", 0)):
        machines.sessions[name] += 1
        session, slots = machines.sessions[name], machines.slots[name]
        machines.handle(ev.LrmReady(worker=name, session=session, slots=slots, known=(), ahead=0, widest=widest))
    workers = machines.site.engine.core.workers
    assert workers.widest() == 12
    assert [workers.lanes(ResourceRequest(width)) for width in (8, 4, 12)] == [3, 8, 1]
    wanted = spec(2)
    resources = msgspec.structs.replace(wanted.resources, processors=9)
    machines.submit(msgspec.structs.replace(wanted, resources=resources), 2)
    assert machines.open("cluster") == 0 and machines.open("wide") >= 1


def test_a_cluster_suits_what_its_largest_machine_and_its_slots_of_the_moment_hold() -> None:
    """Else a wide job would keep others from a cluster that has no room for it."""
    _, machines = site_of(0, cluster=1)
    machines.sessions["cluster"] += 1
    session = machines.sessions["cluster"]
    machines.handle(ev.LrmReady(worker="cluster", session=session, slots=20, known=(), ahead=0, widest=8))
    workers = machines.site.engine.core.workers
    assert [workers.suits_any(ResourceRequest(wide)) for wide in (8, 9)] == [True, False]
    machines.handle(ev.LrmSized(worker="cluster", session=session, slots=1, ahead=0))
    assert [workers.suits_any(ResourceRequest(wide)) for wide in (1, 8)] == [True, False]


def test_a_cluster_that_fails_in_ever_new_words_is_not_waited_for_longer() -> None:
    site, machines = site_of(0, cluster=4)
    for second in range(20):
        machines.handle(ev.LrmLost("cluster", f"words {second % 2}"))
        site.grid.pass_time(10.0)
    assert machines.site.engine.core.workers.slots() == 0
