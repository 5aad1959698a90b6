"""MPI jobs go where a launcher is, and may be wider than any machine of a cluster."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import dispatch, promised_capacity
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.machines.requirements import asked as request_of
from diana.engine.machines.requirements import kind
from diana.engine.messages.migration import RoomRequest
from diana.model.history import template_key
from diana.model.ids import SiteId
from diana.model.job.resources import ResourceRequest
from diana.model.job.software import lacking, needed
from diana.model.job.spec import GroupSpec
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.machines.test_software import offers, plan
from tests.engine.machines.test_workers import Machines, site_of

GIB = 2**30


def wide(jobs: int, processors: int = 12, *, mpi: bool = True, **wanted: object) -> GroupSpec:
    made = spec(jobs, sites=("alpha",))
    resources = msgspec.structs.replace(made.resources, processors=processors, **wanted)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, mpi=mpi, resources=resources)


def cluster(slots: int = 20, *software: str) -> Machines:
    """A machine of 4 processors and a cluster of machines of 8 processors and 16 GiB, two GPUs each."""
    _, machines = site_of(0, cluster=slots, plain=4)
    for name, widest, gpus, has in (("cluster", 8, 2, software), ("plain", 0, 0, ())):
        machines.sessions[name] += 1
        machines.handle(
            ev.LrmReady(
                worker=name,
                session=machines.sessions[name],
                slots=machines.slots[name],
                known=(),
                widest=widest,
                memory_bytes=16 * GIB,
                gpus=gpus,
                all_gpus=2 * gpus,
                software=has,
                ahead=0 if widest else -1,
            )
        )
    return machines


def test_a_group_goes_where_a_launcher_is_and_is_told_who_has_none() -> None:
    grid = Grid(alpha=8, beta=2, gamma=4)
    offers(grid, "beta", "mpi")
    offers(grid, "gamma", "mpi", "containers")
    answer = plan(grid, mpi=True)
    assert isinstance(answer, fx.DecisionMade)
    told = {row.site: row.rejected for row in answer.decision.candidates}
    assert told == {"beta": "", "gamma": "", "alpha": "has no launcher of MPI jobs"}
    answer = plan(grid, mpi=True, container="image")
    assert isinstance(answer, fx.Refusal)
    assert (
        "beta: runs no containers" in answer.text and "gamma: has no launcher of MPI jobs in containers" in answer.text
    )


def test_what_an_mpi_job_needs_is_told_by_name() -> None:
    asked = needed(GroupSpec(argv=("true",), mpi=True, container="image"))
    assert asked == ("containers", "mpi", "mpi in containers")
    assert lacking(("containers",), asked) == "has no launcher of MPI jobs"
    plain = GroupSpec(argv=("true",))
    assert template_key(plain) != template_key(msgspec.structs.replace(plain, mpi=True))


def test_one_that_no_machine_of_a_cluster_holds_has_several() -> None:
    machines = cluster(20, "mpi")
    workers = machines.site.engine.core.workers
    plain, over = ResourceRequest(9), ResourceRequest(9, (), ("mpi",))
    with_gpu = ResourceRequest(12, (("gpus", 1),), ("mpi",))
    assert [workers.widest(one) for one in (plain, over, with_gpu)] == [8, 20, 8]
    assert [workers.lanes(one) for one in (plain, over, with_gpu)] == [0, 2, 0]
    machines.submit(wide(2), 2)
    # One has its place; the other waits until so many are free together.
    assert machines.open("cluster") == 1
    machines.end("cluster", 1)
    assert machines.open("cluster") == 1


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"processors": 21}, "has 20 of the 21 processors a job needs"),
        ({"mpi": False}, "has 8 of the 12 processors a job needs"),
        ({"gpus": 2}, "has 8 of the 12 processors a job needs"),
        (
            {"memory_bytes": 200 * GIB},
            "has 192.0 GiB of memory, a job needs 200.0 GiB",
        ),
    ],
)
def test_one_that_is_too_much_for_the_whole_cluster_is_refused_with_the_figures(
    wanted: dict[str, object], why: str
) -> None:
    machines = cluster(20, "mpi")
    machines.submit(wide(1, **wanted), 1, 8)  # type: ignore[arg-type]
    assert why in str(machines.site.replies[8])


def test_memory_over_several_machines_is_that_of_all_its_processes() -> None:
    machines = cluster(20, "mpi")
    machines.submit(wide(1, memory_bytes=180 * GIB), 1)
    assert machines.open("cluster") == 1


def test_a_job_of_gpus_has_one_machine() -> None:
    machines = cluster(20, "mpi")
    machines.submit(wide(1, 8, gpus=2), 1)
    assert machines.open("cluster") == 1
    workers = machines.site.engine.core.workers
    assert workers.suits_any(request_of(wide(1, 8, gpus=1))) and not workers.suits_any(request_of(wide(1, 9, gpus=1)))


def test_room_is_kept_for_a_job_that_is_wider_than_any_machine() -> None:
    core = cluster(20, "mpi").site.engine.core
    asked = RoomRequest(room=1, jobs=1, gain_s=50.0, processors=12, work_s=10.0, software=("mpi",))
    assert promised_capacity.keep(core, SiteId("beta"), asked).jobs == 1
    refused = promised_capacity.keep(core, SiteId("beta"), msgspec.structs.replace(asked, software=()))
    assert (refused.jobs, refused.reason) == (0, "has 8 of the 12 processors a job needs")


def test_the_place_of_a_job_over_several_machines_is_not_given_to_the_next_wide_one() -> None:
    """No machine has the memory of all its processes, and the place was as good as nobody's."""
    machines = cluster(20, "mpi")
    machines.submit(wide(24, 1, mpi=False), 24)
    core, turn = machines.site.engine.core, dispatch._Round()
    first, next_one = wide(1, memory_bytes=100 * GIB), wide(1, 8, mpi=False)
    asked = [request_of(some) for some in (first, next_one)]
    places = [dispatch._place(core, turn, one, kind(one), lambda *_: True, None) for one in asked]
    assert [place.worker.name if place else "" for place in places] == ["cluster", ""]
