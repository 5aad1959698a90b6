"""The machine that leads a site dies for good while Slurm has its jobs: the standby on another login node of the same
cluster finds them, learns what became of them, feeds on, and nothing runs twice, whoever comes back (PROMISES section
2, Standby)."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from diana.client import Client
from diana.errors import DianaError
from diana.model.views.group import GroupStatus
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


def status(client: Client, group: str) -> GroupStatus:
    """The view of whoever leads: a client turns to the other machine once the one it knew does not answer."""
    with suppress(DianaError):
        return client.status([group])[0]
    return client.status([group])[0]


def ended(client: Client, grid: Grid, group: str) -> str:
    def final() -> bool:
        with suppress(DianaError):
            return status(client, group).final
        return False

    until(final, lambda: f"{group} is final\n{grid.story()}", END_S, 0.2)
    return status(client, group).state


def trouble(spare: Site) -> str:
    """The machine's complaint about its cluster; empty: none."""
    try:
        with spare.client() as client:
            return next((m.note for m in client.peers().machines if m.machine.startswith("slurm")), "")
    except DianaError:
        return ""


def collected(client: Client, grid: Grid, group: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in client.fetch(group, grid.root / "fetched")}


def all_of(jobs: int) -> dict[str, str]:
    return {f"out-{index}.txt": f"this is {index}\n" for index in range(jobs)}


def role_goes_to(grid: Grid, leader: Site, other: Site) -> None:
    in_sync(leader, other=other)
    done = grid.run(leader, "site", "promote", "--data", str(leader.data), within_s=60.0)
    assert done.returncode == 0, done.stderr
    takes_over(other, 30.0)


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
        assert (state, told) == ("done", dict.fromkeys(range(JOBS), "done")), f"{told}\n{grid.story()}"
        assert collected(client, grid, group) == all_of(JOBS)
    assert len(starts.all()) == JOBS
    assert not slurm.run("squeue", "-h", "-t", "PD,R", "-o", "%F")


def test_a_leader_that_was_stopped_and_wakes_gives_nothing_and_may_take_over_again(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    main, spare = pair(grid, clustered, slurm, shared(grid))
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(job(starts)).group
        starts.wait_for(30)
        assert main.process is not None
        main.process.send_signal(signal.SIGSTOP)
        takes_over(spare, 30.0)
        starts.wait_for(60)
        main.process.send_signal(signal.SIGCONT)
        starts.wait_for(80)
        role_goes_to(grid, spare, main)
        state, told = ended(client, grid, group), outcomes(client, group)
        assert not starts.doubled(), f"{starts.doubled()}\n{grid.story()}"
        assert (state, told) == ("done", dict.fromkeys(range(JOBS), "done")), f"{told}\n{grid.story()}"
        assert collected(client, grid, group) == all_of(JOBS)
    assert len(starts.all()) == JOBS


def test_without_a_shared_folder_nothing_is_concluded_until_the_machine_is_back_or_given_up(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    main, spare = pair(grid, clustered, slurm, None)
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(job(starts, 40)).group
        starts.wait_for(10)
        kill_for_good(main)
        takes_over(spare)
        until(lambda: "does not have the jobs" in trouble(spare), lambda: f"spare says so\n{spare.story()}", 20.0, 0.2)
        assert not status(client, group).final
        main.launch()
        role_goes_to(grid, spare, main)
        assert ended(client, grid, group) == "done", grid.story()
        assert collected(client, grid, group) == all_of(40)
    assert not starts.doubled(), f"{starts.doubled()}\n{grid.story()}"


def test_jobs_that_are_given_up_run_again_where_the_group_says_so(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    main, spare = pair(grid, clustered, slurm, None)
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(job(starts, 24, on_crash="rerun")).group
        starts.wait_for(10)
        kill_for_good(main)
        takes_over(spare)
        until(lambda: "remove-machine slurm-a" in trouble(spare), lambda: f"spare says so\n{spare.story()}", 20.0, 0.2)
        done = grid.run(spare, "site", "remove-machine", "slurm-a", "--data", str(spare.data))
        assert done.returncode == 0, done.stderr
        until(lambda: not trouble(spare), lambda: f"spare feeds the cluster\n{spare.story()}", 20.0, 0.2)
        assert ended(client, grid, group) == "done", grid.story()
        assert outcomes(client, group) == dict.fromkeys(range(24), "done")
    times = Counter((start.index, start.attempt) for start in starts.all())
    assert {index for index, _ in times} == set(range(24)) and set(times.values()) == {1}
    assert any(attempt == 2 for _, attempt in times), "none ran again"
