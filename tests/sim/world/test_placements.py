"""Every placement policy runs in the real engine: all jobs end well where the policy sends them, and none migrates."""

from __future__ import annotations

from typing import get_args

import pytest

from diana.model.settings import Placement
from diana.sim.report.report import Report
from diana.sim.scenario.scenario import parse
from diana.sim.world.runner import simulate

GRID = """version = 1
report = ["groups", "migration"]

[settings]
placement = "{placement}"

{sites}
[[users]]
name = "user@vo"

[[datasets]]
name = "runs"
site = "s3"
files = 2
file_bytes = 1_000_000

[[workload]]
name = "plain"
site = "s1"
jobs = 6
work_s = 50.0
repeat = 12
every_s = 7.0
submit_s = 5.0

[[workload]]
name = "reads"
site = "s2"
jobs = 4
work_s = 20.0
inputs = ["runs"]
submit_s = 30.0
repeat = 3
every_s = 60.0
"""


def run(placement: str, sites: int = 5) -> Report:
    rows = "".join(
        f'[[sites]]\nname = "s{k}"\nslots = {2 + k % 3}\nspeed = {1.0 + (k == 4)}\n' for k in range(1, sites + 1)
    )
    report = simulate(parse(GRID.format(placement=placement, sites=rows), "grid.toml"), 1)
    assert not report.violations
    assert not report.unmet
    return report


@pytest.mark.wide
@pytest.mark.parametrize("placement", get_args(Placement))
def test_all_jobs_end_well_under_every_placement(placement: str) -> None:
    report = run(placement)
    assert sum(group.done for group in report.groups.values()) == 6 * 12 + 4 * 3
    assert (report.lost, report.stuck, report.doubled) == (0, 0, 0)
    assert report.migration is not None
    assert placement == "diana" or (report.migration.moves, report.migration.exported_jobs) == (0, 0)


def test_round_robin_gives_every_site_the_same_number_of_jobs_in_the_long_run() -> None:
    report = run("round-robin")
    total = dict.fromkeys(("s1", "s2", "s3", "s4", "s5"), 0)
    for name, group in report.groups.items():
        if name.startswith("plain"):
            for site, jobs in group.sites.items():
                total[str(site)] += jobs
    assert sum(total.values()) == 72
    assert max(total.values()) - min(total.values()) <= 2


@pytest.mark.wide
@pytest.mark.parametrize("placement", ["random", "two-choices"])
def test_draws_in_a_large_grid_are_not_led_by_a_short_list_of_the_best(placement: str) -> None:
    report = run(placement, sites=40)
    used = {site for group in report.groups.values() for site in group.sites}
    # Groups are dealt out over sites, or go whole to one of them.
    assert len(used) > (25 if placement == "random" else 10)


def test_fastest_prefers_speed_and_data_local_the_data() -> None:
    assert "s4" in run("fastest").groups["plain"].sites
    for name, group in run("data-local").groups.items():
        if name.startswith("reads"):
            assert set(group.sites) == {"s3"}
