"""Pages of a site's past: each group once, in order, to who may read it, whatever is forgotten meanwhile."""

from __future__ import annotations

import pytest

from diana.engine.journal import events as ev
from diana.engine.views import past
from diana.model.ids import GroupId
from diana.model.job.spec import GroupSpec, Resources
from diana.model.trust.principal import Principal
from diana.model.views.past import PastGroups, PastSite
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, OPERATOR, spec


def page(grid: Grid, who: Principal = OPERATOR, first: int = 0, before: str = "", **span: float) -> PastGroups:
    asked = ev.Ask(
        request=77, principal=who, what="history", first=first, group=GroupId(before) if before else None, **span
    )
    grid["alpha"].handle(asked)
    found = grid["alpha"].replies.pop(77)
    assert isinstance(found, PastGroups), found
    return found


def names(found: PastGroups) -> list[str]:
    return [group.group for group in found.groups]


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> Grid:
    monkeypatch.setattr(past, "MOST_GROUPS", 2)
    made = Grid(alpha=2)
    for number, who in enumerate((ALICE, BOB, ALICE, BOB, ALICE)):
        made["alpha"].submit(spec(1), 1, 10 + number, who=who)
    return made


def test_every_group_is_told_once_in_order_of_submission(grid: Grid) -> None:
    told, first, before = [], 0, ""
    while True:
        found = page(grid, first=first, before=before)
        assert len(found.superseded) == len(found.groups) <= 2
        told += names(found)
        if found.next < 0:
            break
        first, before = found.next, str(found.last)
    assert told == [f"alpha-{number}" for number in range(1, 6)]


def test_none_is_left_out_when_older_ones_are_forgotten_between_two_pages(grid: Grid) -> None:
    found = page(grid)
    assert names(found) == ["alpha-1", "alpha-2"]
    del grid["alpha"].engine.core.state.groups[GroupId("alpha-1")]
    assert names(page(grid, first=found.next, before=str(found.last))) == ["alpha-3", "alpha-4"]
    del grid["alpha"].engine.core.state.groups[GroupId("alpha-2")]
    assert names(page(grid, first=found.next, before=str(found.last))) == ["alpha-3", "alpha-4"]


def test_a_user_is_told_their_own_groups_and_no_settings(grid: Grid) -> None:
    assert [names(page(grid, who, first)) for who in (ALICE, BOB) for first in (0, 2, 4)] == [
        *(["alpha-1"], ["alpha-3"], ["alpha-5"]),
        *(["alpha-2"], ["alpha-4"], []),
    ]
    sites = {who.name: grid["alpha"].ask("history-site", who=who) for who in (ALICE, OPERATOR)}
    assert all(isinstance(site, PastSite) and site.slots == 2 for site in sites.values())
    assert [site.settings != "" for site in sites.values()] == [False, True]  # type: ignore[attr-defined]


def test_only_groups_of_the_span_are_told(grid: Grid) -> None:
    for number in range(1, 6):
        grid["alpha"].group(f"alpha-{number}").wall_s = 100.0 * number
    assert names(page(grid, from_wall_s=200.0, first=0)) == ["alpha-2"]
    assert names(page(grid, from_wall_s=200.0, to_wall_s=400.0, first=2, before="alpha-2")) == ["alpha-3"]


def test_neither_command_nor_environment_is_told() -> None:
    grid = Grid(alpha=2)
    secret = GroupSpec(argv=("run", "SECRET"), environment=(("KEY", "SECRET"),), script="#!/bin/sh\n# SECRET\n")
    grid["alpha"].submit(secret, 1, 5)
    assert "SECRET" not in repr(page(grid)) and names(page(grid)) == ["alpha-1"]


def test_what_machines_have_and_what_jobs_asked_of_it_is_told() -> None:
    alpha = (grid := Grid(alpha=2))["alpha"]
    for name, gpus, has in (("main", 1, (("fpga", 2),)), ("m1", 3, (("tape", 1),))):
        alpha.handle(ev.LrmReady(worker=name, session=9, slots=2, known=(), gpus=gpus, all_gpus=gpus, resources=has))
    site = alpha.ask("history-site", who=ALICE)
    assert isinstance(site, PastSite)
    told = {one.name: (one.gpus, one.resources) for one in site.machines}
    assert (site.gpus, site.resources, told) == (1, {"fpga": 2}, {"m1": (3, {"tape": 1})})
    alpha.submit(GroupSpec(argv=("x",), resources=Resources(others=(("fpga", 2),))), 1, 5)
    assert [group.resources for group in page(grid).groups] == [{"fpga": 2}]
