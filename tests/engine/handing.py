"""Grids in the middle of a hand-over, for the tests of its steps."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Evidence, Holding
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView
from diana.policy.trust import seals
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


def view(grid: Grid, name: str = "alpha-1") -> GroupView:
    seen = grid["alpha"].ask("group", name)
    assert isinstance(seen, GroupView)
    return seen


def sent(effects: list[fx.Effect], kind: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, fx.Send) and isinstance(e.message, kind)]


def go_on(site: Site, name: str) -> object:
    """The operator's word that `name` is waited for no longer; the answer."""
    site.handle(ev.GoOn(request=7, principal=OPERATOR, site=SiteId(name)))
    site.grid.settle()
    return site.replies.pop(7)


def own_word(site: Site, *, later: int, boot: str = "another boot", **more: Any) -> Evidence:
    """Make the site's own word of the boot before, under its seal: `later` records more than this boot found."""
    state = site.engine.core.state
    told: dict[str, Any] = {
        "db_uuid": state.db_uuid,
        "former": (),
        "generation": site.engine.generation - 1,
        "boot_nonce": boot,
        "seq": site.engine.boot_seq + later,
        **more,
    }
    return Evidence(**told, seal=seals.length(state.seal_key, site=site.name, **told))


def with_offer(site: Site, to: str, row: Holding, jobs: IndexSet | None = None) -> Holding:
    """Show, beside what is held, that site's offer of these jobs (those that are open)."""
    offered = row.open if jobs is None else jobs
    key = site.engine.core.state.seal_key
    offer = seals.offer(key, site=to, subgroup=row.subgroup, epoch=row.epoch, bounds=offered.bounds)
    return msgspec.structs.replace(row, offered=offered, offer=offer)
