"""Late binding of jobs that ask for devices: a site calls for, and is handed at once, no more than it has of these."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import use
from diana.engine.dispatch.turns import MISSES
from diana.model.ids import group_of
from diana.model.job.spec import GroupSpec, Resources
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.dispatch.test_late_binding import LONG_S, NAME, grid


def with_units(**units: int) -> Grid:
    """Sites of four slots of which each has so many of an FPGA."""
    made = grid(**dict.fromkeys(units, 4))
    for name, count in units.items():
        made[name].has = (("fpga", count),)
        made[name].lrm_ready()
    made.settle()
    return made


def of_units(jobs: int, count: int = 1) -> GroupSpec:
    return msgspec.structs.replace(spec(jobs), resources=Resources(work_s=LONG_S, others=(("fpga", count),)))


def here(made: Grid) -> dict[str, int]:
    """Jobs of the group that each site was handed and has not ended."""
    found = {}
    for name, site in made.sites.items():
        parts = site.engine.state.custodies.values()
        found[str(name)] = sum(len(part.unstarted()) + len(part.running) for part in parts)
    return found


def test_jobs_are_bound_to_no_site_whose_devices_are_all_in_use() -> None:
    made = with_units(alpha=1, beta=3)
    made["alpha"].submit(of_units(20), 20)
    made.settle()
    for _ in range(3):
        assert here(made) == {"alpha": 1, "beta": 3}, "no more than have their FPGAs"
        made.pass_time(LONG_S)
        for site, count in (("alpha", 1), ("beta", 3)):
            made[site].end(count)
        made.settle()
    assert len(made["alpha"].group(NAME).unplaced) == 20 - 4 * 4


def test_many_groups_that_wait_for_devices_keep_no_others_from_their_turn() -> None:
    made = with_units(alpha=1, beta=1)
    for _ in range(3 * MISSES):
        made["alpha"].submit(of_units(4), 4)
    made.settle()
    assert here(made) == {"alpha": 1, "beta": 1}
    made["alpha"].submit(spec(12, work_s=LONG_S), 12)
    made.settle()
    assert here(made) == {"alpha": 4, "beta": 4}
    made.pass_time(LONG_S)
    for site in ("alpha", "beta"):
        made[site].end(4)
    made.settle()
    assert here(made) == {"alpha": 4, "beta": 4}


def test_jobs_of_several_devices_are_not_passed_for_ever_by_those_of_one() -> None:
    made = with_units(alpha=2, beta=2)
    made["alpha"].submit(of_units(200), 200)
    made["alpha"].submit(of_units(2, 2), 2)
    made.settle()
    began = set[int]()
    for _ in range(30):
        made.pass_time(LONG_S / 2)
        for site in made.sites.values():
            if site.running:
                site.end(1)
        made.settle()
        runs = [run for site in made.sites.values() for run in site.started]
        began = {run.index for run in runs if group_of(run.subgroup) == "alpha-2"}
    assert began == {0, 1}


def test_a_look_at_many_groups_reckons_once_when_devices_come_free(monkeypatch: pytest.MonkeyPatch) -> None:
    made, reckoned = with_units(alpha=1, beta=1), list[str]()
    for _ in range(3 * MISSES):
        made["alpha"].submit(of_units(4), 4)
    made.settle()
    device = use._of_device
    monkeypatch.setattr(use, "_of_device", lambda core, name: reckoned.append(name) or device(core, name))
    made["beta"].end(1)
    # At each of the few instants at which anything changes, not for each group that waits.
    assert 0 < len(reckoned) <= MISSES
