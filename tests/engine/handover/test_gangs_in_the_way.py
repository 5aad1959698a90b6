"""Claims that cannot begin, whatever comes free: they keep no lesser gang from a site's processors."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.engine.journal.state import Custody
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, InputFile
from tests.engine.bench import Grid
from tests.engine.builders import BOB
from tests.engine.handover.test_gangs import begun, gang, hear


def grid_of(lost: type | None = None) -> Grid:
    """alpha and gamma want the one processor of beta; messages of one kind are lost on their way from gamma."""
    grid = Grid({"migration": "off", "claim_wait_s": 1000.0}, alpha=0, beta=1, gamma=0)
    grid.fate = lambda _, __, post: "lose" if type(post[2]) is lost and post[0] == "gamma" else "deliver"
    return grid


def first(grid: Grid, wanted: GroupSpec, **more: Any) -> Custody:
    """gamma's gang is submitted before any other; its component at beta."""
    grid["gamma"].submit(wanted, 1, 1, who=BOB, **more)
    (custody,) = grid["beta"].engine.state.custodies.values()
    return custody


def claim(grid: Grid, custody: Custody) -> None:
    hear(
        grid,
        "beta",
        "gamma",
        ms.GangClaim(subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", wait_s=1e9, hold_s=1e9),
    )


def another_begins(grid: Grid) -> bool:
    grid.pass_time(1.0)
    grid["alpha"].submit(gang("1x1@beta"), 1, 2)
    grid.pass_time(20.0)
    return [run.subgroup for run in grid["beta"].gone] == ["alpha-1/0"]


def test_a_claim_whose_origin_grants_no_lease_lets_lesser_ones_begin_and_begins_when_it_has_one() -> None:
    grid = grid_of(lm.Renewed)
    first(grid, gang("1x1@beta", on_site_lost="rerun"))
    assert another_begins(grid)
    grid.fate = None
    grid.pass_time(30.0)
    grid["beta"].end()
    grid.settle()
    assert begun(grid) == [("beta", 0), ("beta", 0)]
    grid.finish()


def test_a_claim_that_its_origin_holds_lets_lesser_ones_begin() -> None:
    grid = grid_of(ms.GangClaim)
    custody = first(grid, gang("1x1@beta"))
    none = IndexSet()
    order = ms.Control(
        subgroup=custody.subgroup, epoch=custody.epoch, control_seq=1, cancel=none, hold=custody.indices, recall=none
    )
    hear(grid, "beta", "gamma", order)
    claim(grid, custody)
    assert another_begins(grid)


def test_a_claim_whose_inputs_never_come_lets_lesser_ones_begin() -> None:
    grid = grid_of()
    grid["beta"].stage_at_once = False
    source = "url:http://gamma/f"
    wanted = msgspec.structs.replace(gang("1x1@beta"), inputs=(InputFile(source=source, path="f"),))
    custody = first(grid, wanted, refs=((source, IndexSet.span(0, 1)),))
    claim(grid, custody)
    assert another_begins(grid)
