"""Placement queues: the order in which an origin's groups of gangs are tried, where several wait (SPEC K4)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Drafts
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.placement.gangs.queues import GangQueues
from diana.model.ids import GroupId
from diana.model.settings import Settings
from diana.policy.gang.queues import GangLevel, ScanWeights
from tests.engine.bench import Grid
from tests.engine.builders import BOB, spec
from tests.engine.handover.test_gangs import gang

SETTINGS = {"claim_wait_s": 1000.0, "binding": "early", "migration": "off"}


def waiting(grid: Grid, *levels: str) -> list[GroupId]:
    """Groups of one gang each that want all of beta, which is busy for long, behind one that has its place."""
    grid["beta"].submit(spec(1, sites=("beta",), work_s=1000.0), 1, 5, who=BOB)
    names: list[GroupId] = []
    for number, level in enumerate(("low", *levels)):
        wanted = msgspec.structs.replace(gang("1x1@beta"), gang_level=level)
        answer = grid["alpha"].submit(wanted, 1, 10 + number)
        assert isinstance(answer, fx.GroupAccepted), answer
        names.append(answer.group)
        grid.pass_time(0.25)
    return names[1:]


def placed(grid: Grid) -> list[str]:
    """Groups in the order in which their gangs were placed first."""
    return list(dict.fromkeys(one.group for one in grid["alpha"].records(r.GroupPlaced)))[1:]


def let_all_through(grid: Grid, groups: int) -> None:
    for _ in range(100):
        for site in grid.sites.values():
            site.end()
        grid.settle()
        grid.pass_time(1.0)
        if len(placed(grid)) == groups:
            return
    raise AssertionError(placed(grid))


def test_of_groups_that_wait_the_higher_queues_are_scanned_first_and_each_in_the_order_of_submission() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    sl, low, high, sh, high2 = waiting(grid, "super-low", "low", "high", "super-high", "high")
    assert not placed(grid)
    let_all_through(grid, 5)
    assert placed(grid)[0] == sh and placed(grid)[-1] == sl
    assert placed(grid).index(high) < placed(grid).index(high2) and low in placed(grid)


def test_the_scans_of_a_round_are_those_of_the_paper_and_levels_without_groups_cost_no_time() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    names = waiting(grid, "super-low", "low", "high", "super-high")
    core = grid["alpha"].engine.core
    of = {name: core.state.groups[name].spec.gang_level for name in names}
    grid.pass_time(20.0)
    tries: list[str] = []
    before = dict(core.book(GangQueues).tries)
    for _ in range(25):
        grid.pass_time(1.0)
        now = core.book(GangQueues).tries
        tries += [of[name] for name in names if now.get(name, 0) > before.get(name, 0)]
        before = dict(now)
    order = ["super-high", "high", "high", "low", "super-low"]
    assert len(tries) == 5 and any(tries == order[at:] + order[:at] for at in range(5)), tries


def test_a_group_that_waits_alone_is_tried_at_once_and_a_new_one_passes_none_that_waits() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=2)
    (first,) = waiting(grid, "low")
    answer = grid["alpha"].submit(gang("1x1@gamma"), 1, 99)
    assert isinstance(answer, fx.GroupAccepted)
    assert not grid["alpha"].group(answer.group).subgroups
    grid.pass_time(11.0)
    assert placed(grid) == [answer.group], "a scan goes through its whole queue: what fits passes what does not"
    assert grid["alpha"].engine.core.waiting_notes[first]


def test_tries_without_a_place_promote_a_group_and_super_low_ones_stay() -> None:
    grid = Grid({**SETTINGS, "gang_promote_tries": 2}, alpha=0, beta=1)
    low, sl = waiting(grid, "low", "super-low")
    core = grid["alpha"].engine.core
    grid.pass_time(120.0)
    assert gang_queues.level(core, core.state.groups[low]) is GangLevel.SUPER_HIGH
    assert gang_queues.level(core, core.state.groups[sl]) is GangLevel.SUPER_LOW


def test_a_group_that_is_cancelled_or_held_while_it_is_tried_keeps_nobody_waiting() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    first, second, third = waiting(grid, "high", "high", "high")
    core = grid["alpha"].engine.core
    grid.pass_time(7.0)
    grid["alpha"].cancel(first)
    grid["alpha"].hold(second)
    let_all_through(grid, 1)
    assert placed(grid) == [third]
    assert list(core.book(GangQueues).waiting) == [] and not core.book(GangQueues).scan


def test_the_gangs_of_a_group_that_waits_alone_are_placed_at_once() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=3)
    grid["alpha"].submit(gang("1x1@beta", jobs=3), 3, 1)
    assert len(grid["beta"].gone) == 3


def test_a_group_that_ends_while_its_quotes_are_awaited_keeps_nobody_waiting() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    first, second = waiting(grid, "high", "high")
    core = grid["alpha"].engine.core
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Quote) else "deliver"
    while not core.book(Drafts).groups:
        grid.pass_time(0.5)
    assert core.book(Drafts).groups == {first} and core.book(GangQueues).scan[0] == first
    grid["alpha"].cancel(first)
    grid.fate = None
    let_all_through(grid, 1)
    assert placed(grid) == [second]


def test_nothing_is_kept_of_groups_that_are_placed() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1)
    waiting(grid, "high", "low", "super-low")
    let_all_through(grid, 3)
    book = grid["alpha"].engine.core.book(GangQueues)
    assert not (book.waiting or book.scan or book.tries)


def test_scans_are_weighed_as_the_settings_say() -> None:
    grid = Grid({**SETTINGS, "gang_scans": {"super-low": 3, "higher": 2}}, alpha=1)
    found = gang_queues.scan_weights(grid["alpha"].engine.core)
    assert found == ScanWeights(higher=2, n4=3)
    assert [one.short for one in ScanWeights().round()] == ["SH", "H", "H", "L", "SL"]


@pytest.mark.parametrize(
    ("scans", "told"),
    [({"middle": 1}, "gang_scans.middle: no such queue; want one of super-high"), ({"low": 0}, "want 1 to 100")],
)
def test_scans_that_cannot_be_are_refused(scans: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings(gang_scans=scans)
