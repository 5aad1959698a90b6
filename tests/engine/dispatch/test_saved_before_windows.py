"""SPEC D8 and G6 together: a job that saves its state begins before a window that it will not finish before, where it
has time for enough work, and is asked to save early enough to have stopped when its machine closes."""

from __future__ import annotations

import msgspec

from diana.engine.dispatch.forecast import holds_s
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages.messages import QuoteRequest
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import MAIN_MACHINE
from diana.model.job.checkpoint import folder_of
from diana.model.job.software import BARRIER, CHECKPOINT
from diana.model.job.spec import CheckpointSpec, GroupSpec
from diana.model.maintenance import Window
from diana.policy.queueing.maintenance import USEFUL, begins_before_s
from tests.engine.bench import Grid, Site
from tests.engine.builders import facts_of, spec
from tests.engine.dispatch.test_maintenance import AHEAD_S, announce
from tests.engine.handing import view
from tests.engine.handover.test_gangs import gang

WAIT_S, ASKED_S, LEAST_S = 20.0, 25.0, 65.0
"""Seconds that a job has to heed the signal, before a window when it is asked, and when it begins at the latest."""


def grid_of(**slots: int) -> Grid:
    grid = Grid({"migration": "off"}, **slots)
    for site in grid.sites.values():
        offer(site, MAIN_MACHINE, site.settings.slots)
    grid.settle()
    return grid


def offer(site: Site, machine: str, slots: int) -> None:
    site.session += 1
    site.handle(
        ev.LrmReady(worker=machine, session=site.session, slots=slots, known=(), software=(BARRIER, CHECKPOINT))
    )


def saves(jobs: int = 1, work_s: float = 1000.0) -> GroupSpec:
    return spec(jobs, work_s=work_s, checkpoint=CheckpointSpec(paths=("state",), wait_s=WAIT_S))


def asked(site: Site) -> list[tuple[str, tuple[int, ...]]]:
    """(machine, jobs) of each order to save."""
    return [(one.worker, tuple(one.indices)) for one in site.trace if isinstance(one, fx.SaveRuns)]


def stop(site: Site) -> None:
    """Have its jobs save and stop."""
    for run in list(site.running):
        del site.running[run]
        site.ended[run] = Outcome.CHECKPOINTED
        facts = facts_of(site.name, [run], Outcome.CHECKPOINTED, site.grid.now)
        facts.outputs.append(OutputFile(run.index, f"{folder_of(run.index, run.attempt)}/state", 1, "0" * 64))
        site.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts))
    site.grid.settle()


def test_the_least_work_is_a_few_times_what_the_stop_costs_and_never_more_than_the_job() -> None:
    assert begins_before_s(ASKED_S, 10.0) == ASKED_S + USEFUL * 10.0 == LEAST_S
    asked = QuoteRequest(quote=0, processors=1, memory_bytes=0, jobs=1, refs=(), begins_before_s=LEAST_S)
    assert [holds_s(asked, run_s) for run_s in (1000.0, 12.0)] == [LEAST_S, 12.0]


def test_a_job_that_saves_begins_before_a_window_that_it_will_not_finish_before_and_another_does_not() -> None:
    grid = grid_of(alpha=2)
    announce(grid["alpha"], (200.0, 300.0))
    grid["alpha"].submit(saves(), 1)
    grid["alpha"].submit(spec(1, work_s=1000.0), 1)
    assert [run.subgroup for run in grid["alpha"].started] == ["alpha-1/0"]


def test_one_that_waits_for_a_slot_is_not_said_to_wait_for_the_window() -> None:
    grid = grid_of(alpha=1)
    announce(grid["alpha"], (200.0, 300.0))
    grid["alpha"].submit(saves(2), 2)
    assert len(grid["alpha"].running) == 1 and "maintenance" not in view(grid).note


def test_a_gang_begins_before_a_window_only_if_it_ends_before_it() -> None:
    for work_s, begins in ((100.0, 2), (1000.0, 0)):
        grid = grid_of(alpha=1, beta=1)
        announce(grid["alpha"], (200.0, 300.0))
        wanted = msgspec.structs.replace(gang("1x1@alpha+1x1@beta", work_s=work_s), checkpoint=saves().checkpoint)
        grid["alpha"].submit(wanted, 2)
        assert sum(len(site.gone) for site in grid.sites.values()) == begins


def test_too_near_the_window_it_waits_and_says_so() -> None:
    for left_s, begins in ((LEAST_S + 1.0, 1), (LEAST_S - 1.0, 0)):
        grid = grid_of(alpha=1)
        announce(grid["alpha"], (left_s, 300.0))
        grid["alpha"].submit(saves(), 1)
        assert len(grid["alpha"].started) == begins, left_s
        assert ("wait for the end of the maintenance" in view(grid).note) == (not begins)


def test_it_is_asked_once_and_early_enough_and_goes_on_after_the_window() -> None:
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    announce(alpha, (200.0, 300.0))
    alpha.submit(saves(), 1)
    grid.pass_time(200.0 - ASKED_S - 1.0)
    assert not asked(alpha)
    grid.pass_time(1.5)
    assert asked(alpha) == [(MAIN_MACHINE, (0,))]
    grid.pass_time(5.0)
    announce(alpha, (18.0, 120.0))
    grid.pass_time(5.0)
    assert len(asked(alpha)) == 1, "once, also where the window is told again"
    stop(alpha)
    grid.pass_time(2.0)
    assert not alpha.running, "there is no time for more before the window"
    grid.pass_time(150.0)
    assert [run.attempt for run in alpha.running] == [2]
    grid.pass_time(200.0)
    assert len(asked(alpha)) == 1
    (run,) = alpha.running
    assert set(alpha.engine.core.run_book.asked) <= {(run.subgroup, run.epoch)}


def test_where_another_site_is_free_it_goes_on_there_at_once() -> None:
    grid = grid_of(alpha=1, beta=1)
    grid["beta"].submit(spec(1, work_s=5.0, sites=("beta",)), 1)
    grid["alpha"].submit(saves(), 1)
    assert grid["alpha"].running
    announce(grid["alpha"], (100.0, 5000.0))
    grid["beta"].end()
    grid.pass_time(100.0 - ASKED_S + 1.0)
    assert asked(grid["alpha"])
    stop(grid["alpha"])
    grid.pass_time(3.0)
    assert [run.attempt for run in grid["beta"].running] == [2]


def test_one_that_is_expected_to_end_in_time_is_not_asked_and_an_overdue_one_is() -> None:
    grid = grid_of(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(saves(work_s=100.0), 1)
    announce(
        alpha,
        (110.0, 300.0),
    )
    grid.pass_time(110.0 - ASKED_S + 1.0)
    assert not asked(alpha), "it ends at 100"
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(saves(work_s=100.0), 1)
    grid.pass_time(120.0)
    announce(alpha, (50.0, 300.0))
    grid.pass_time(50.0 - ASKED_S + 1.0)
    assert asked(alpha), "it was to end long ago"


def test_a_window_that_is_announced_late_has_it_asked_at_once_and_one_withdrawn_never() -> None:
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(saves(), 1)
    announce(alpha, (ASKED_S - 10.0, 300.0))
    grid.pass_time(0.5)
    assert asked(alpha)
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(saves(), 1)
    announce(alpha, (100.0, 300.0))
    grid.pass_time(20.0)
    announce(alpha)
    grid.pass_time(100.0)
    assert not asked(alpha)


def test_before_a_window_of_one_machine_its_jobs_alone_are_asked() -> None:
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    offer(alpha, "m1", 1)
    announce(alpha, (200.0, 300.0), machines=("m1",))
    alpha.submit(saves(2), 2)
    grid.pass_time(1.0)
    given = {one.worker: tuple(one.indices) for one in alpha.trace if isinstance(one, fx.Start)}
    assert set(given) == {MAIN_MACHINE, "m1"}
    grid.pass_time(200.0 - ASKED_S)
    assert asked(alpha) == [("m1", given["m1"])]


def test_each_machine_is_asked_before_its_own_window() -> None:
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    offer(alpha, "m1", 1)
    wall_s = grid.now + AHEAD_S
    windows = (
        Window(from_wall_s=wall_s + 200.0, to_wall_s=wall_s + 300.0, reason="", machines=("m1",)),
        Window(from_wall_s=wall_s + 215.0, to_wall_s=wall_s + 500.0, reason="", machines=()),
    )
    alpha.handle(ev.CalendarTold(windows=windows, wall_ahead_s=AHEAD_S))
    alpha.submit(saves(2), 2)
    grid.pass_time(200.0 - ASKED_S + 1.0)
    assert [machine for machine, _ in asked(alpha)] == ["m1"]
    grid.pass_time(12.0)
    assert [machine for machine, _ in asked(alpha)] == ["m1"]
    grid.pass_time(3.0)
    assert [machine for machine, _ in asked(alpha)] == ["m1", MAIN_MACHINE]


def test_after_a_restart_of_the_site_it_is_asked_all_the_same() -> None:
    grid = grid_of(alpha=1)
    alpha = grid["alpha"]
    announce(alpha, (200.0, 300.0))
    alpha.submit(saves(), 1)
    grid.pass_time(50.0)
    alpha.restart()
    announce(alpha, (150.0, 250.0))
    grid.pass_time(150.0 - ASKED_S + 1.0)
    assert asked(alpha)
