"""Two partitions of one real Slurm as two tables of a site, and what the site leaves there to others."""

from __future__ import annotations

import msgspec

from diana.adapters.batch.settings import ClusterSettings
from diana.client import Client
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, Starts, until


def site_of(grid: Grid, slurm: SlurmSite, **tables: dict[str, object]) -> Site:
    site = grid.add("alpha", 0)
    common = {"config": str(slurm.config), "look_s": 0.5, "ask_s": 0.5, "begin_s": 15.0, "settle_s": 3.0}
    clusters = {name: ClusterSettings(**{**common, **more}) for name, more in tables.items()}  # type: ignore[arg-type]
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, clusters=clusters, root_jobs=True))
    return site


def slots(client: Client) -> int:
    return next(row.slots for row in client.sites())


def test_jobs_of_one_site_go_through_both_partitions_and_neither_takes_the_others_for_its_own(
    grid: Grid, starts: Starts, slurm: SlurmSite
) -> None:
    site = site_of(grid, slurm, long={"partition": "main", "slots": 4}, brief={"partition": "short", "slots": 4})
    site.start()
    with site.client() as client:
        until(lambda: slots(client) == 8, "both are there", 30.0)
        group = client.submit(starts.job(24, then=["sleep", "1"])).group
        used: set[str] = set()

        def both() -> bool:
            used.update(slurm.run("squeue", "-h", "-t", "R", "-o", "%P").split())
            return used == {"main", "short"}

        until(both, "jobs run in both", 30.0)
        # The node starts anew while they run: each table finds its own.
        site.kill()
        site.start()
        assert client.wait(group, timeout_s=90.0).done == 24
    assert starts.count() == 24 and not starts.doubled()


def test_a_share_bounds_what_is_held_and_processors_are_left_free(grid: Grid, starts: Starts, slurm: SlurmSite) -> None:
    site = site_of(grid, slurm, half={"partition": "main", "share": 0.5, "leave_free": 2})
    by_hand = ""
    site.start()
    try:
        with site.client() as client:
            until(lambda: slots(client) == 4, "half of eight", 30.0)
            by_hand = slurm.run("sbatch", "--parsable", "-n5", "-o", "/dev/null", "--wrap=sleep 60").strip()
            until(lambda: slots(client) == 1, "two stay free beside the other's five", 30.0)
            group = client.submit(starts.job(4, then=["sleep", "3"])).group
            most, before = 0, set[str]()

            def over() -> bool:
                nonlocal most, before
                held = set(slurm.run("squeue", "-h", "-r", "-t", "R,PD", "-o", "%i").split())
                # A task is told to be over before Slurm has put it away: what stands in two looks, a second and a half
                # apart, is held.
                most, before = max(most, len(held & before) - 1), held
                (status,) = client.status(group)
                return status.done == 4

            until(over, "all are done", 60.0, 1.5)
            assert most == 1
    finally:
        slurm.run("scancel", by_hand, check=False)
