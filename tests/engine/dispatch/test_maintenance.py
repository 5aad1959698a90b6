"""SPEC D8: a site whose operator announced a maintenance starts nothing that would outlast its beginning, takes no work
while it lasts, and goes on by itself."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import promised_capacity
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages.migration import RoomRequest
from diana.model.ids import SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources
from diana.model.maintenance import Window
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, spec

AHEAD_S = 1e9
"""Wall clock over site time, so that the two cannot be mixed up."""


def announce(site: Site, *spans: tuple[float, float], machines: tuple[str, ...] = ()) -> None:
    now = site.grid.now
    windows = tuple(
        Window(from_wall_s=now + a + AHEAD_S, to_wall_s=now + b + AHEAD_S, reason="new switches", machines=machines)
        for a, b in spans
    )
    site.handle(ev.CalendarTold(windows=windows, wall_ahead_s=AHEAD_S))
    site.grid.settle()


def started(site: Site) -> int:
    return len(site.started)


def test_before_it_only_what_ends_in_time_is_started_also_past_what_does_not() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    announce(alpha, (100.0, 200.0))
    alpha.submit(spec(2, work_s=150.0), 2)
    alpha.submit(spec(1, work_s=90.0), 1)
    assert [run.subgroup for run in alpha.started] == ["alpha-2/0"]
    grid.pass_time(11.0)
    alpha.submit(spec(1, work_s=90.0), 1)
    assert started(alpha) == 1
    grid.pass_time(200.0)
    assert {group_of(run.subgroup) for run in alpha.started} == {"alpha-1", "alpha-2"}


def test_a_time_limit_counts_for_more_than_what_is_expected() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    announce(alpha, (100.0, 200.0))
    limited = spec(1)
    for limit_s in (101.0, 99.0):
        resources = Resources(work_s=1.0 if limit_s > 100 else 1000.0, time_limit_s=limit_s)
        alpha.submit(msgspec.structs.replace(limited, resources=resources), 1)
    assert [run.subgroup for run in alpha.started] == ["alpha-2/0"]


@pytest.mark.parametrize("work_s", [1.0, 4.0])
def test_what_is_claimed_ahead_of_free_slots_would_be_over_in_time_too(work_s: float) -> None:
    """Two slots, and up to four more claimed: all of them must fit behind each other."""
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.handle(ev.CalendarTold())
    announce(alpha, (7.0, 50.0))
    alpha.submit(spec(40, work_s=work_s), 40)
    assert 2 <= started(alpha) <= max(2, int(7.0 / work_s) * 2)


def test_in_it_what_waits_goes_elsewhere_with_the_reason_and_nothing_comes() -> None:
    grid = Grid({"migration": "off"}, alpha=1, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    grid.settle()
    beta.submit(spec(6, work_s=300.0), 6)
    alpha.submit(spec(6, work_s=300.0), 6)
    announce(alpha, (20.0, 5000.0))
    grid.pass_time(30.0)
    assert "maintenance until" in beta.engine.core.view.peers[alpha.name].summary.drained
    for site in (alpha, beta):
        for group in site.engine.core.state.groups.values():
            for part in group.subgroups.values():
                if part.site == "alpha":
                    assert part.open_jobs() <= 1, part
    moves = [record for site in (alpha, beta) for record in site.records(r.JobsMoved)]
    assert any("is drained: maintenance until" in move.why and "new switches" in move.why for move in moves)
    before = started(alpha)
    alpha.submit(spec(1, work_s=1.0), 1)
    assert started(alpha) == before


def test_a_lone_site_keeps_what_waits_and_goes_on_by_itself() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=10.0), 3)
    announce(alpha, (5.0, 100.0))
    grid.pass_time(4.0)
    alpha.end()
    grid.pass_time(50.0)
    assert started(alpha) >= 1 and not alpha.running
    left = 3 - started(alpha)
    group = alpha.group("alpha-1")
    assert len(group.unplaced) == left > 0
    grid.pass_time(60.0)
    assert alpha.running and not group.unplaced


def test_a_quote_waits_for_the_end_of_a_window_that_the_jobs_do_not_fit_before() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    announce(beta, (100.0, 1000.0))
    alpha.submit(spec(1, work_s=150.0, sites=("alpha",)), 1)
    alpha.submit(spec(1, work_s=50.0), 1)
    alpha.submit(spec(1, work_s=101.0), 1)
    assert [group_of(run.subgroup) for run in beta.started] == ["alpha-2"]
    assert all(part.site == "alpha" for part in alpha.group("alpha-3").subgroups.values())
    assert all(part.site == "beta" for part in alpha.group("alpha-2").subgroups.values())


def test_room_is_kept_for_jobs_of_others_that_end_before_the_site_closes() -> None:
    grid = Grid(alpha=4, beta=1)
    announce(grid["alpha"], (100.0, 1000.0))
    asked = RoomRequest(room=1, jobs=6, processors=1, owner=ALICE.name, work_s=60.0, gain_s=500.0)
    granted = promised_capacity.keep(grid["alpha"].engine.core, SiteId("beta"), asked)
    assert granted.jobs == 4
    assert granted.reason.startswith("can start 4 jobs that would end before the maintenance from "), granted.reason
    granted = promised_capacity.keep(
        grid["alpha"].engine.core, SiteId("beta"), msgspec.structs.replace(asked, room=2, work_s=101.0)
    )
    assert granted.jobs == 0
    assert granted.reason.startswith("can start none that would end before the maintenance"), granted.reason


def test_an_operator_announces_and_withdraws_and_a_restart_remembers() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    announce(alpha)
    wall = grid.now + AHEAD_S
    for number, (principal, to_s) in enumerate(((ALICE, 50.0), (OPERATOR, -1.0), (OPERATOR, 50.0)), 1000):
        alpha.handle(
            ev.DrainSite(
                request=number, principal=principal, on=True, reason="", from_wall_s=wall + 10, to_wall_s=wall + to_s
            )
        )
    assert isinstance(alpha.replies[1000], fx.Refusal) and isinstance(alpha.replies[1001], fx.Refusal)
    assert len(alpha.records(r.MaintenancePlanned)) == 1
    alpha.restart()
    announce(alpha)
    alpha.submit(spec(1, work_s=20.0), 1)
    assert started(alpha) == 0
    assert "maintenance from" in alpha.engine.core.calendar.notice
    alpha.handle(ev.DrainSite(request=1003, principal=OPERATOR, on=False))
    assert started(alpha) == 1 and not alpha.engine.core.calendar.notice


def test_a_machine_under_maintenance_has_no_slots_and_the_others_go_on() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.handle(ev.LrmReady(worker="m1", session=1, slots=4, known=()))
    announce(alpha, (100.0, 200.0), machines=("m1",))
    assert alpha.engine.core.workers.slots() == 5
    alpha.submit(spec(10, work_s=150.0), 10)
    given = [e for e in alpha.trace if isinstance(e, fx.Start)]
    assert {start.worker for start in given} == {"main"} and sum(len(s.indices) for s in given) == 1
    grid.pass_time(101.0)
    assert alpha.engine.core.workers.slots() == 1
    assert alpha.engine.core.workers.trouble().startswith("m1: maintenance until")
    grid.pass_time(101.0)
    assert alpha.engine.core.workers.slots() == 5
    given = [e for e in alpha.trace if isinstance(e, fx.Start) and e.worker == "m1"]
    assert IndexSet.union(s.indices for s in given) and sum(len(s.indices) for s in given) == 4
