"""A gang over a plain site, a real Slurm and a real Grid Engine, whose jobs wait at their barriers (SPEC K5)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diana.client import Client
from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

OTHERS_S = 12


@pytest.fixture
def three(grid: Grid, clustered: Clustered, slurm: SlurmSite, gridengine: GridEngineSite) -> Grid:
    """Their nodes ask seldom, and do not know what others submitted meanwhile."""
    grid.add(SITES[0], 1)
    clustered(SITES[1], slurm, ask_s=60.0)
    clustered(SITES[2], gridengine, ask_s=60.0)
    grid.join()
    grid.settings(claim_wait_s=90.0)
    grid.start()
    with grid.sites[SITES[0]].client() as client:
        until(lambda: sum(row.slots > 0 for row in client.sites()) == 3, "all three have slots", 60.0)
    return grid


def apart(path: Path) -> dict[str, object]:
    """Components that do not talk: from the other sites nobody knows the Grid Engine's machine by its name."""
    return {**job_file(path), "gang": {"runner": "none"}}


class Busy:
    """All processors of a cluster are another's for `OTHERS_S` seconds, as its batch system showed before."""

    def __init__(self, cluster: SlurmSite | GridEngineSite) -> None:
        self.cluster, self.slurm = cluster, isinstance(cluster, SlurmSite)
        if self.slurm:
            words = ["sbatch", "--parsable", "-n8", "-o", "/dev/null", f"--wrap=sleep {OTHERS_S}"]
        else:
            words = ["qsub", "-terse", "-pe", "smp", "8", "-o", "/dev/null", "-e", "/dev/null", "-b", "y"]
            words += ["sleep", str(OTHERS_S)]
        self.job = cluster.run(*words).strip()
        until(self.runs, "the other's job runs", 30.0)

    def runs(self) -> bool:
        if self.slurm:
            return "R" in self.cluster.run("squeue", "-h", "-j", self.job, "-o", "%t", check=False)
        return f" {self.job} " in f" {self.cluster.run('qstat', '-s', 'r', '-u', '*', check=False)}"

    def end(self) -> None:
        self.cluster.run("scancel" if self.slurm else "qdel", self.job, check=False)


def waits_for(client: Client, group: str, site: str) -> bool:
    return client.status(group)[0].note == f"its components hold processors and wait for {site}"


def empty(slurm: SlurmSite, gridengine: GridEngineSite) -> None:
    """Wait until neither has a job of ours."""
    until(lambda: "diana." not in gridengine.run("qstat", "-u", "*", check=False), "Grid Engine is empty", 60.0)
    until(lambda: "diana." not in slurm.run("squeue", "-h", "-o", "%j", check=False), "Slurm too", 60.0)


def held_at(site: Site) -> list[Path]:
    return [path for path in site.data.glob("clusters/*/*/*/held/*") if path.name.isdecimal()]


@pytest.mark.parametrize(
    ("busy", "killed"),
    [(SITES[1], ()), (SITES[1], (SITES[2],)), (SITES[1], (SITES[0], SITES[1])), (SITES[2], (SITES[1],))],
    ids=["calm", "cluster at the barrier", "origin and queue", "grid engine busy"],
)
def test_components_begin_together_though_others_hold_one_cluster_and_nodes_are_killed(
    three: Grid, slurm: SlurmSite, gridengine: GridEngineSite, busy: str, killed: tuple[str, ...]
) -> None:
    path, free = three.root / "begins", next(name for name in SITES[1:] if name != busy)
    other = Busy(slurm if busy == SITES[1] else gridengine)
    try:
        with three.sites[SITES[0]].client() as client:
            group = client.submit(apart(path)).group
            until(lambda: waits_for(client, group, busy), "two of three are at the barrier", 30.0)
        assert held_at(three.sites[free]) and not held_at(three.sites[busy])
        for name in killed:
            three.sites[name].kill()
            three.sites[name].start()
        until(lambda: not other.runs(), "others end", 60.0)
        freed_s = time.time()
        with three.sites[SITES[0]].client() as client:
            assert client.wait(group, timeout_s=120).state == "done", three.story()
            assert set(outcomes(client, group).values()) == {"done"}
    finally:
        other.end()
    ((found,),) = by_gang(path).values()
    moments = [begin.at_s for begin in found]
    print(f"apart {max(moments) - min(moments):.3f} s, {min(moments) - freed_s:.1f} s after others ended")
    assert whole(found), found
    assert min(moments) > freed_s - 1.0, "none began before the last had a processor"
    assert all(len(set(begin.hosts.split(","))) >= 2 for begin in found), "machines of a cluster tell their own address"


def test_components_that_talk_do_not_begin_where_the_name_of_a_clusters_machine_is_not_known(
    three: Grid, slurm: SlurmSite, gridengine: GridEngineSite
) -> None:
    path = three.root / "begins"
    with three.sites[SITES[0]].client() as client:
        group = client.submit(job_file(path)).group
        until(lambda: "reach" in client.status(group)[0].note, lambda: client.status(group)[0].note, 60.0)
        note = client.status(group)[0].note
        assert f"does not reach {SITES[2]} at " in note and 'gang.runner = "none"' in note, note
        client.cancel(group)
        client.wait(group, timeout_s=60)
    empty(slurm, gridengine)
    assert not begins(path)


def test_a_gang_that_is_cancelled_at_the_barrier_leaves_no_job_in_a_batch_system(
    three: Grid, slurm: SlurmSite, gridengine: GridEngineSite
) -> None:
    path, other = three.root / "begins", Busy(slurm)
    try:
        with three.sites[SITES[0]].client() as client:
            group = client.submit(apart(path)).group
            until(lambda: waits_for(client, group, SITES[1]), "two of three are at the barrier", 30.0)
            client.cancel(group)
            assert client.wait(group, timeout_s=60).state == "cancelled", three.story()
        empty(slurm, gridengine)
    finally:
        other.end()
    assert not begins(path)
