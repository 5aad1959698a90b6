"""Running jobs whose group allows it make way for a gang: as few as it lacks, each once, and they run again (SPEC D4,
K5)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from diana.engine.dispatch.way_book import WayBook
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.job.software import BARRIER, CHECKPOINT
from diana.model.job.spec import CheckpointSpec, GroupSpec
from diana.model.maintenance import Window
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.handover.test_gangs import begun, gang, submit

SETTINGS = {"claim_wait_s": 60.0, "default_work_s": 600.0, "claim_ahead": 0, "migration": "off", "binding": "early"}


def long(site: str, **more: object) -> GroupSpec:
    return spec(4, sites=(site,), preemptible=True, **more)


def full(site: str = "alpha", slots: int = 4, **more: object) -> Grid:
    """A grid where `site` is full of bob's pre-emptible jobs, a newer one on each processor."""
    grid = Grid(SETTINGS, **{"alpha": 4, "beta": 4, site: slots})
    for number in range(slots):
        grid[site].submit(spec(1, sites=(site,), **{"preemptible": True, **more}), 1, 10 + number, who=BOB)
        grid.pass_time(10.0)
    return grid


def obey(grid: Grid) -> None:
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()


def made_way(grid: Grid, site: str) -> list[r.RunsMakeWay]:
    return [one for one in grid[site].records(r.RunsMakeWay) if isinstance(one, r.RunsMakeWay)]


def test_a_gang_begins_at_once_over_preemptible_jobs_the_newest_of_which_end() -> None:
    grid = full()
    name = submit(grid, "2x1@alpha+1x1@beta")
    (third, fourth) = made_way(grid, "alpha")
    assert [one.subgroup.partition("/")[0] for one in (third, fourth)] == ["alpha-3", "alpha-4"]
    assert third.gang == f"{name}.0" and "newest" in third.reason
    assert begun(grid) == []
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("alpha", 1), ("beta", 2)]


def test_those_that_made_way_run_again_once_and_are_done_and_nobody_counts_a_failure() -> None:
    grid = full()
    name = submit(grid, "2x1@alpha+1x1@beta")
    obey(grid)
    group = grid["alpha"].group("alpha-4")
    assert not (len(group.failed) or len(group.cancelled) or len(group.held)) and not group.own_retries
    grid.finish()
    assert {grid["alpha"].group(one).state for one in ("alpha-1", "alpha-2", "alpha-3", "alpha-4", name)} == {"done"}
    claims = grid.claims()
    assert [claims[f"alpha-{number}", 0] for number in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_a_gang_waits_over_jobs_that_do_not_allow_it() -> None:
    grid = full(preemptible=False)
    submit(grid, "2x1@alpha+1x1@beta")
    grid.pass_time(20.0)
    assert not made_way(grid, "alpha") and begun(grid) == []
    assert "no preemptible job" in grid["alpha"].engine.core.book(WayBook).note


def test_nobody_ends_where_the_gang_would_lack_processors_all_the_same() -> None:
    grid = Grid(SETTINGS, alpha=2, beta=4)
    grid["alpha"].submit(spec(1, sites=("alpha",)), 1, 10, who=BOB)
    grid["alpha"].submit(long("alpha"), 1, 11, who=BOB)
    submit(grid, "2x1@alpha")
    grid.pass_time(20.0)
    assert not made_way(grid, "alpha")


def test_another_gang_is_never_ended_though_its_spec_says_so() -> None:
    grid = Grid(SETTINGS, alpha=1, beta=1)
    submit(grid, "1x1@alpha", preemptible=True)
    assert begun(grid) == [("alpha", 0)]
    grid["alpha"].submit(gang("1x1@alpha+1x1@beta"), 2, 77, who=ALICE)
    grid.pass_time(20.0)
    assert not made_way(grid, "alpha")


def test_jobs_of_another_origin_go_back_to_it() -> None:
    grid = full()
    grid["beta"].submit(gang("1x1@alpha+1x1@beta"), 2, 77, who=ALICE)
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("beta", 1)]
    grid = Grid(SETTINGS, alpha=1, beta=1)
    grid["beta"].submit(long("alpha"), 1, 11, who=BOB)
    name = submit(grid, "1x1@alpha")
    obey(grid)
    group = grid["beta"].group("beta-1")
    (accepted,) = grid["beta"].records(r.ResultAccepted)
    assert isinstance(accepted, r.ResultAccepted) and accepted.made_way == IndexSet.span(0, 1)
    assert [one.line for one in group.ways] == [
        f"job 0 at alpha made way for a gang of {ALICE.name}"
    ] and not group.note
    (told,) = grid["alpha"].group(name).ways
    assert (
        told.jobs == IndexSet.span(0, 1)
        and f"at alpha jobs of {BOB.name} made way: 1 preemptible job ends, of 1 processor" in told.line
    )
    grid.finish()
    assert group.state == "done" and grid.claims()["beta-1", 0] == 2


def test_a_site_that_crashes_before_its_machine_obeyed_orders_it_again_and_nothing_is_lost_or_doubled() -> None:
    grid = full()
    name = submit(grid, "2x1@alpha+1x1@beta")
    grid["alpha"].kills.clear()
    grid["alpha"].restart()
    assert len(grid["alpha"].kills) == 2 and len(made_way(grid, "alpha")) == 2
    obey(grid)
    grid.pass_time(30.0)
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("alpha", 1), ("beta", 2)]
    # The node forgot the claim with its crash, and gave what came free to whoever waited until it was asked again.
    times = Counter(one.subgroup.partition("/")[0] for one in made_way(grid, "alpha"))
    grid.finish()
    assert grid["alpha"].group(name).state == "done"
    every = [f"alpha-{number}" for number in (1, 2, 3, 4)]
    assert [grid.claims()[one, 0] for one in every] == [1 + times[one] for one in every]
    assert all(grid["alpha"].group(one).state == "done" for one in every)


def test_a_job_that_was_done_before_the_order_reached_it_is_done() -> None:
    grid = full()
    submit(grid, "4x1@alpha")
    grid["alpha"].kills.clear()
    grid["alpha"].end()
    grid.finish()
    assert [grid.claims()[f"alpha-{number}", 0] for number in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_one_that_its_user_cancels_meanwhile_is_cancelled_and_does_not_run_again() -> None:
    grid = full()
    submit(grid, "4x1@alpha")
    grid["alpha"].cancel("alpha-4", who=BOB)
    obey(grid)
    grid.finish()
    assert grid["alpha"].group("alpha-4").state == "cancelled" and grid.claims()["alpha-4", 0] == 1
    assert not grid["alpha"].group("alpha-4").ways, "its user ended it, and no gang"


def test_a_wide_job_that_waits_first_does_not_take_what_others_leave_for_the_gang() -> None:
    grid = full(work_s=90.0)
    wide = spec(1, sites=("alpha",), work_s=600.0)
    more = msgspec.structs.replace(wide.resources, processors=4)
    grid["alpha"].submit(msgspec.structs.replace(wide, resources=more), 1, 60, who=BOB)
    grid.pass_time(1.0)
    submit(grid, "2x1@alpha", work_s=600.0)
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("alpha", 1)]


def test_what_comes_free_is_kept_for_the_gang_though_others_wait_before_it() -> None:
    grid = full()
    grid["alpha"].submit(spec(8, sites=("alpha",), work_s=600.0), 8, 60, who=BOB)
    grid.pass_time(1.0)
    submit(grid, "1x4@alpha")
    for _ in range(4):
        kill = grid["alpha"].kills
        if kill:
            (first, *rest) = kill
            kill[:] = [first]
            grid["alpha"].obey_kills()
            kill[:] = rest
            grid.settle()
            grid.pass_time(0.5)
    assert begun(grid) == [("alpha", 0)]
    assert len(made_way(grid, "alpha")) == 4


def test_one_with_a_checkpoint_is_asked_to_save_first_and_ended_only_if_it_does_not() -> None:
    saved = CheckpointSpec(paths=("state",), wait_s=5.0)
    grid = Grid(SETTINGS, alpha=4, beta=4)
    alpha = grid["alpha"]
    alpha.engine.core.workers.site_offers((BARRIER, CHECKPOINT))
    for number in range(4):
        alpha.submit(spec(1, sites=("alpha",), preemptible=True, checkpoint=saved), 1, 10 + number, who=BOB)
        grid.pass_time(10.0)
    alpha.trace.clear()
    submit(grid, "2x1@alpha")
    asked = [one for one in grid["alpha"].trace if isinstance(one, fx.SaveRuns)]
    assert len(asked) == 2 and not grid["alpha"].kills
    run = next(run for run in grid["alpha"].running if run.subgroup == asked[0].subgroup)
    grid["alpha"]._ends(run, Outcome.CHECKPOINTED)
    grid.pass_time(14.0)
    assert not grid["alpha"].kills
    grid.pass_time(2.0)
    assert [kill.subgroup for kill in grid["alpha"].kills] == [asked[1].subgroup]
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("alpha", 1)]
    grid.finish()
    assert grid["alpha"].group("alpha-4").state == "done" and grid["alpha"].group("alpha-3").state == "done"


def test_what_waits_on_the_machine_is_asked_back_and_nobody_ends_for_it() -> None:
    grid = full()
    alpha = grid["alpha"]
    alpha.handle(ev.LrmReady(session=alpha.session, slots=4, known=tuple(alpha.running), recalls=True))
    alpha.submit(spec(2, sites=("alpha",), work_s=0.5), 2, 60, who=ALICE)
    assert len(alpha.running) == 6, "two wait there"
    alpha.trace.clear()
    submit(grid, "2x1@alpha")
    back = [one for one in alpha.trace if isinstance(one, fx.RecallRuns)]
    assert len(made_way(grid, "alpha")) == 2 and sum(len(one.indices) for one in back) == 2


def test_a_gang_is_placed_where_others_make_way_and_not_where_it_would_wait() -> None:
    grid = full("beta", work_s=600.0)
    grid["alpha"].submit(spec(4, sites=("alpha",), work_s=300.0), 4, 60, who=BOB)
    grid.pass_time(1.0)
    name = submit(grid, "2x1")
    obey(grid)
    assert begun(grid) == [("beta", 0), ("beta", 1)], grid["alpha"].group(name).decisions


def test_nobody_ends_for_a_user_who_may_run_no_more_there() -> None:
    grid = Grid({**SETTINGS, "user_max_running": 1}, alpha=2)
    grid["alpha"].submit(spec(1, work_s=600.0), 1, 10, who=ALICE)
    grid["alpha"].submit(spec(1, work_s=600.0, preemptible=True), 1, 11, who=BOB)
    submit(grid, "1x1@alpha")
    grid.pass_time(10.0)
    assert len(grid["alpha"].running) == 2 and not made_way(grid, "alpha")
    assert "as many jobs running" in grid["alpha"].engine.core.book(WayBook).note


@pytest.mark.parametrize("machines", [(), ("main",)], ids=["site", "machine"])
def test_nobody_ends_for_a_gang_that_would_not_be_over_before_a_maintenance(machines: tuple[str, ...]) -> None:
    grid = full()
    window = Window(from_wall_s=grid.now + 300.0, to_wall_s=grid.now + 900.0, reason="switches", machines=machines)
    grid["alpha"].handle(ev.CalendarTold(windows=(window,), wall_ahead_s=0.0))
    submit(grid, "1x1@alpha", work_s=600.0)
    grid.pass_time(10.0)
    assert not made_way(grid, "alpha")
    note = grid["alpha"].engine.core.book(WayBook).note
    # Where the whole site closes it is no claim that may begin, and nobody is looked for.
    assert note.endswith("all of it") if machines else not note


def test_nobody_ends_on_a_cluster() -> None:
    grid = Grid(SETTINGS, alpha=0)
    alpha = grid["alpha"]
    alpha.handle(ev.LrmReady(worker="c", session=1, slots=1, known=(), ahead=0, widest=1, cluster=True))
    alpha.submit(spec(1, work_s=600.0, preemptible=True), 1, 11, who=BOB)
    alpha.engine.core.workers.site_offers((BARRIER,))
    submit(grid, "1x1@alpha")
    grid.pass_time(10.0)
    assert not made_way(grid, "alpha") and not alpha.kills


def test_it_is_looked_again_while_a_claim_waits() -> None:
    grid = Grid(SETTINGS, alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(1, work_s=600.0), 1, 10, who=BOB)
    alpha.submit(spec(1, work_s=600.0, preemptible=True), 1, 11, who=BOB)
    submit(grid, "2x1@alpha")
    assert not made_way(grid, "alpha"), "all that may end would not do"
    alpha._ends(next(run for run in alpha.running if run.subgroup == "alpha-1/0"), Outcome.DONE)
    grid.pass_time(3.0)
    assert len(made_way(grid, "alpha")) == 1
    obey(grid)
    assert begun(grid) == [("alpha", 0), ("alpha", 1)]


def test_what_was_kept_for_a_gang_that_is_cancelled_goes_to_others() -> None:
    grid = full()
    name = submit(grid, "4x1@alpha")
    grid["alpha"].cancel(name)
    obey(grid)
    grid.pass_time(5.0)
    assert len(grid["alpha"].began) - len(grid["alpha"].ended) >= 4 and len(grid["alpha"].running) == 4


def test_a_component_of_two_processors_has_both_on_the_machine_where_jobs_make_way() -> None:
    grid = Grid(SETTINGS, alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=600.0), 2, 10, who=BOB)
    alpha.handle(ev.LrmReady(worker="m2", session=1, slots=2, known=()))
    alpha.submit(spec(2, work_s=600.0, preemptible=True), 2, 11, who=BOB)
    submit(grid, "1x2@alpha")
    assert [(kill.worker, len(kill.indices)) for kill in alpha.kills] == [("m2", 2)]
    assert alpha.engine.core.book(WayBook).rooms == {"m2": 2}


def test_super_low_gangs_end_nobody() -> None:
    grid = full()
    submit(grid, "1x1@alpha", gang_level="super-low")
    grid.pass_time(20.0)
    assert not made_way(grid, "alpha")


@pytest.mark.parametrize("what", ["not preemptible", "a gang"])
def test_a_site_that_gives_back_running_jobs_which_do_not_allow_it_is_not_believed(what: str) -> None:
    grid = Grid(SETTINGS, alpha=1, beta=2)
    wanted = spec(1, sites=("beta",)) if what == "not preemptible" else gang("1x1@beta", preemptible=True)
    grid["alpha"].submit(wanted, 1, 10)
    if what == "a gang":
        assert begun(grid) == [("beta", 0)]
    (run,) = grid["beta"].running
    grid["beta"].engine.core.state.custodies[run.subgroup, run.epoch].making_way["a lie"] = IndexSet.span(0, 1)
    grid["beta"]._ends(run, Outcome.CANCELLED)
    grid.settle()
    assert any("are not to" in text for text in grid["alpha"].warnings)
    assert not grid["alpha"].records(r.ResultAccepted)


def test_an_older_site_that_knows_nothing_of_it_is_asked_for_nothing_new() -> None:
    told = ms.GangClaimed(subgroup="alpha-1/0", epoch=1, host="h", port=1)  # type: ignore[arg-type]
    assert told.made_way == ""
