"""A job that asks what no machine of the cluster has is refused before its batch system sees it, which might let it
wait for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.adapters.batch.orders import Orders
from diana.adapters.batch.systems.system import Array, ClusterCapacity
from diana.adapters.lrm.plans import Plans
from diana.adapters.lrm.prepare import Preparer
from diana.adapters.lrm.runas.accounts import Accounts
from diana.adapters.lrm.software import Software
from diana.engine.journal.effects import Start
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Resources
from diana.model.layout import DataDir

HAS = ClusterCapacity(
    version="1", slots=8, widest=4, memory_bytes=1 << 30, gpus=2, all_gpus=4, licences=(("matlab", 2),)
)
NOTHING_KNOWN = ClusterCapacity(version="1", slots=0)


def refused(at: Path, resources: Resources, has: ClusterCapacity | None, *, mpi: bool = False) -> str:
    """The reason after the job's name; empty: there is an order."""
    preparer = Preparer(DataDir(at), SiteId("alpha"), Accounts({}))
    orders = Orders(Plans(DataDir(at), Software(mpi="mpirun -n {n}")), preparer, "c")
    spec = GroupSpec(argv=("x",), resources=resources, mpi=mpi)
    part, only = SubgroupId("alpha-1/0"), IndexSet.span(0, 1)
    start = Start(worker="c", session=1, subgroup=part, epoch=1, owner="u@vo", spec=spec, indices=only)
    given, unready = orders.of(start, [0], has)
    assert len(given) + len(unready) == 1
    return unready[0].text.removeprefix("alpha-1 at site alpha: ") if unready else ""


@pytest.mark.parametrize(
    ("asked", "mpi", "why"),
    [
        (Resources(processors=4, memory_bytes=1 << 30, gpus=2, licences=(("matlab", 2),)), False, ""),
        (Resources(processors=5), False, "has 4 of the 5 processors a job needs"),
        (Resources(memory_bytes=3 << 30), False, "has 1.0 GiB of memory, a job needs 3.0 GiB"),
        (Resources(gpus=3), False, "has 2 GPUs for one job, a job needs 3"),
        (Resources(licences=(("matlab", 3),)), False, "has 2 of the 3 licences of matlab a job needs"),
        (Resources(licences=(("ansys", 1),)), False, "has no licence of ansys"),
        (Resources(others=(("fpga", 1),)), False, "has no fpga"),
        # Over several of its machines, with a part of the memory at each process.
        (Resources(processors=8, memory_bytes=8 << 30), True, ""),
        (Resources(processors=9), True, "has 8 of the 9 processors a job needs"),
        (Resources(processors=2, memory_bytes=3 << 30), True, "has 2.0 GiB of memory, a job needs 3.0 GiB"),
        (Resources(processors=5, gpus=1), True, "has 4 of the 5 processors a job needs"),
    ],
)
def test_a_job_is_told_in_the_words_of_all_sites_what_a_cluster_lacks(
    tmp_path: Path, asked: Resources, mpi: bool, why: str
) -> None:
    assert refused(tmp_path, asked, HAS, mpi=mpi) == (f"cluster c {why}" if why else "")


@pytest.mark.parametrize("has", [None, NOTHING_KNOWN])
def test_what_nobody_knows_of_a_cluster_refuses_no_job(tmp_path: Path, has: ClusterCapacity | None) -> None:
    wide = Resources(processors=64, memory_bytes=1 << 40)
    assert [refused(tmp_path, wide, has, mpi=mpi) for mpi in (False, True)] == ["", ""]


def test_an_mpi_job_lies_on_several_machines_unless_it_wants_gpus() -> None:
    def spread(*, mpi: bool, gpus: int) -> bool:
        return Array(token="t", script="s", tasks=IndexSet.span(0, 1), processors=8, mpi=mpi, gpus=gpus).spread

    assert [spread(mpi=mpi, gpus=gpus) for mpi, gpus in ((True, 0), (True, 1), (False, 0))] == [True, False, False]
