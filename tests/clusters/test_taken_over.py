"""The machine that leads a site dies for good while Slurm has its jobs: the standby on another login node of the same
cluster finds them, learns what became of them, feeds on, and nothing runs twice, whoever comes back (PROMISES section
2, Standby)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from diana.client import Client
from diana.errors import DianaError
from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.pairs import add_standby, in_sync, takes_over, user_of

JOBS = 200
END_S = 120.0


def pair(grid: Grid, clustered: Clustered, slurm: SlurmSite, folder: Path | None) -> tuple[Site, Site]:
    """Two machines without slots of their own before the same cluster; beta is their witness and runs nothing."""
    main = clustered("alpha", slurm, **({"folder": str(folder)} if folder else {}))
    grid.add("beta", 0)
    grid.join()
    grid.start()
    spare = add_standby(grid, main, "beta")
    spare.launch()
    in_sync(main, other=spare)
    return main, spare


def shared(grid: Grid) -> Path:
    folder = grid.root / "shared"
    folder.mkdir()
    return folder


def job(starts: Starts, jobs: int = JOBS, sleep_s: float = 1.0, **more: object) -> dict[str, object]:
    """Each says which it is in an output and in its log."""
    then = ("sh", "-c", f"sleep {sleep_s}; echo this is $DIANA_INDEX | tee out-$DIANA_INDEX.txt")
    return {**starts.job(jobs, then=then, **more), "outputs": {"collect": ["out-{index}.txt"]}}


def kill_for_good(main: Site) -> None:
    """The machine: node and spawner."""
    main.kill()
    if pid := main.spawner_pid():
        os.kill(pid, signal.SIGKILL)


def ended(client: Client, grid: Grid, group: str) -> str:
    def final() -> bool:
        try:
            return client.status([group])[0].final
        except DianaError:
            return False

    until(final, lambda: f"{client.status([group])} is final\n{grid.story()}", END_S, 0.2)
    return client.status([group])[0].state


def alone(spare: Site) -> str:
    """What the cluster's trouble is, as the machine tells it; empty: none."""
    try:
        with spare.client() as client:
            return next((m.note for m in client.machines() if m.name.startswith("slurm")), "")
    except DianaError:
        return ""


def test_jobs_in_slurm_outlive_the_machine_that_gave_them_and_none_runs_twice(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    main, spare = pair(grid, clustered, slurm, shared(grid))
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(job(starts)).group
        starts.wait_for(40)
        kill_for_good(main)
        before = starts.count()
        # What runs ends, and what waits begins, while nobody looks.
        time.sleep(2.0)
        meanwhile = starts.count()
        took_s = takes_over(spare)
        until(lambda: starts.count() > JOBS // 2, lambda: f"spare feeds on\n{spare.story()}", 60.0, 0.1)
        main.launch()
        state = ended(client, grid, group)
        told = outcomes(client, group)
        in_sync(spare, other=main)
        print(f"{before} starts when main died, {meanwhile} two seconds later; led by spare after {took_s:.1f} s")
        doubled = starts.doubled()
        assert not doubled, f"{doubled}\n{grid.story()}"
        assert (state, told) == ("done", dict.fromkeys(range(JOBS), "DONE")), f"{told}\n{grid.story()}"
        fetched = client.fetch(group, grid.root / "fetched")
        assert {path.name: path.read_text() for path in fetched} == {
            f"out-{index}.txt": f"this is {index}\n" for index in range(JOBS)
        }
    assert len(starts.all()) == JOBS
    assert not slurm.run("squeue", "-h", "-t", "PD,R", "-o", "%F")
