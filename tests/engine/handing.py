"""Grids in the middle of a hand-over, for the tests of its steps."""

from __future__ import annotations

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId, SubgroupId
from diana.model.views.views import GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, kinds, spec

PART = SubgroupId("alpha-1/0")


def offered(jobs: int = 4, **slots: int) -> Grid:
    """A group only beta may run: quotes are in, PREPARE is under way."""
    grid = Grid(None, **(slots or {"alpha": 1, "beta": 4}))
    grid["alpha"].submit(spec(jobs, work_s=100.0, sites=("beta",)), jobs, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    return grid


def committed(jobs: int = 4, **slots: int) -> Grid:
    grid = offered(jobs, **slots)
    grid.settle()
    assert grid["alpha"].group("alpha-1").subgroups[PART].acked
    return grid


def receive(site: Site, sender: str, message: ms.Message) -> list[fx.Effect]:
    return site.handle(ev.Received(SiteId(sender), message))


def step(grid: Grid) -> list[str]:
    """Deliver the next message; what its receiver does."""
    letter = grid.post_box[0]
    site = grid.sites[letter[1]]
    before = len(site.trace)
    grid.deliver_one()
    return kinds(site.trace[before:])


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def sent(effects: list[fx.Effect], kind: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, fx.Send) and isinstance(e.message, kind)]


def go_on(site: Site, name: str) -> object:
    """The operator's word that `name` is waited for no longer; the answer."""
    site.handle(ev.GoOn(request=7, principal=OPERATOR, site=SiteId(name)))
    site.grid.settle()
    return site.replies.pop(7)
