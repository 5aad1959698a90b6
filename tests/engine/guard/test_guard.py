"""SPEC U10, D7, PROMISES section 3: a site that fails what it gets, and fast, takes little of a group; what waits there
runs elsewhere. Drain gives back what waits."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.guard.guard import Guard, tidy
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView, Sites
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, OPERATOR, spec
from tests.engine.handing import receive
from tests.engine.handover.test_handover_faults import FAULTS, one_fault

LONG = 100.0

STILL: dict[str, object] = {"migration": "off"}
"""Nothing moves for congestion."""


def view(grid: Grid, group: str = "alpha-1") -> GroupView:
    seen = grid["alpha"].ask("group", group)
    assert isinstance(seen, GroupView)
    return seen


def live(grid: Grid, *bad: str, rounds: int = 400, group: str = "alpha-1") -> None:
    """Jobs at the bad sites fail at once, at the others each takes a second."""
    for _ in range(rounds):
        for site in grid.sites.values():
            site.obey_kills()
            if site.name in bad:
                while site.end(outcome=Outcome.FAILED):
                    grid.settle()
            else:
                site.end()
        grid.settle()
        if view(grid, group).final:
            return
        grid.pass_time(1.0)
    raise AssertionError(f"not final: {grid.story()}")


def ran_at(grid: Grid, site: str, group: str = "alpha-1") -> int:
    return sum(run.subgroup.startswith(f"{group}/") for run in grid[site].started)


def drain(grid: Grid, site: str, on: bool = True) -> None:
    grid[site].handle(ev.DrainSite(request=7, principal=OPERATOR, on=on, reason="power cut"))
    grid.settle()


# --- a site that fails what it gets ----------------------------------------------------------------------------


@pytest.mark.parametrize(("jobs", "bound"), [(100, 10), (500, 10), (3000, 60)])
@pytest.mark.parametrize("bad", ["alpha", "beta"])
def test_a_failing_site_takes_two_percent_of_a_group_or_ten_jobs_and_the_others_take_the_rest(
    jobs: int, bound: int, bad: str
) -> None:
    grid = Grid(alpha=20, beta=40, gamma=20)
    grid["alpha"].submit(spec(jobs), jobs)
    assert ran_at(grid, bad) > 0
    live(grid, bad)
    end = view(grid)
    assert end.failed == ran_at(grid, bad) <= bound
    assert end.done == jobs - end.failed


def test_of_a_very_large_group_it_takes_two_percent_at_a_time_when_it_could_take_all_at_once() -> None:
    grid = Grid(alpha=100, beta=5000, gamma=100)
    grid["alpha"].submit(spec(100_000, work_s=LONG), 100_000)
    for _ in range(300):
        while grid["beta"].end(outcome=Outcome.FAILED):
            grid.settle()
        grid.pass_time(1.0)
    assert 0 < ran_at(grid, "beta") <= 2000


def test_what_was_stopped_is_told_to_who_asks() -> None:
    grid = Grid(STILL, alpha=2, beta=20, gamma=2)
    grid["alpha"].submit(spec(400, work_s=LONG), 400)
    grid["beta"].end(5, outcome=Outcome.FAILED)
    grid.settle()
    grid.pass_time(2.0)
    told = "beta fails its jobs fast: of the last 5 jobs 5 failed within 10.0 s: beta is on probation, one job is tried"
    assert view(grid).note.startswith(told), view(grid).note
    last = grid["alpha"].group("alpha-1").decisions[-1]
    assert last.reason.startswith("moved (beta fails them fast: of the last 5 jobs 5 failed within 10.0 s"), last.reason
    row = next(row for row in last.candidates if row.site == "beta")
    assert row.rejected.startswith("on probation for 1m00s more: of the last 5 jobs 5 failed"), row.rejected
    for asked, shown in (("alpha", "beta"), ("beta", "beta")):
        sites = grid[asked].ask("sites")
        assert isinstance(sites, Sites)
        notes = {one.shown.site: one.shown.note for one in sites.sites}
        assert notes[SiteId(shown)] == "on probation: fails jobs of alpha-1 at once", notes
        (guarded,) = next(one.guarded for one in sites.sites if one.shown.site == shown)
        assert (guarded.shown.group, guarded.shown.machine, guarded.shown.stand) == ("alpha-1", "", "probation")
        assert guarded.shown.why == "of the last 5 jobs 5 failed within 10.0 s"
        now = grid[asked].engine.core.now
        assert guarded.since_s == now - 2.0 and now < guarded.until_s <= now + 60.0
        assert guarded.shown.lifts == "one job that does well at beta; diana retry alpha-1"
        assert not any(one.guarded for one in sites.sites if one.shown.site != shown)


def test_alone_in_its_vo_a_site_runs_a_broken_group_to_its_end_without_a_pause() -> None:
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(500), 500)
    live(grid, "alpha", rounds=3)
    assert view(grid).failed == 500
    assert len(grid["alpha"].group("alpha-1").decisions) == 1


def test_a_group_that_fails_everywhere_fails_to_its_end() -> None:
    grid = Grid(alpha=4, beta=8, gamma=4)
    grid["alpha"].submit(spec(500), 500)
    live(grid, "alpha", "beta", "gamma", rounds=20)
    assert view(grid).failed == 500
    assert grid.claims() == {("alpha-1", i): 1 for i in range(500)}


def test_a_group_that_may_run_at_one_other_site_only_fails_there_to_its_end() -> None:
    grid = Grid(alpha=4, beta=8, gamma=4)
    grid["alpha"].submit(spec(200, sites=("beta",)), 200)
    live(grid, "beta", rounds=20)
    assert view(grid).failed == 200
    told = grid["alpha"].group("alpha-1").decisions[-1].reason
    assert told.endswith("(fails fast at beta, and nobody else takes it)"), told


def test_while_the_only_other_site_is_silent_the_group_waits_for_it_and_not_for_the_failing_one() -> None:
    grid = Grid(alpha=0, beta=8, gamma=4)
    grid["alpha"].submit(spec(200, sites=("beta", "gamma"), work_s=LONG), 200)
    grid.part("gamma")
    while grid["beta"].end(outcome=Outcome.FAILED):
        grid.settle()
    grid.pass_time(1.0)
    while grid["beta"].end(outcome=Outcome.FAILED):
        grid.settle()
    lost = ran_at(grid, "beta")
    assert lost <= 10 and "beta: on probation" in view(grid).note, view(grid).note
    grid.heal("gamma")
    live(grid, "beta")
    assert view(grid).failed == ran_at(grid, "beta") <= 10


def test_a_healthy_site_has_all_its_slots_filled_at_once_and_claims_ahead_after_the_first_ends() -> None:
    grid = Grid(alpha=10)
    grid["alpha"].submit(spec(1000), 1000)
    assert len(grid["alpha"].running) == 20
    grid["alpha"].end(10)
    assert len(grid["alpha"].running) == 30


def test_where_its_like_did_well_a_group_fills_every_slot_at_once() -> None:
    grid = Grid(alpha=64)
    grid["alpha"].submit(spec(3), 3)
    grid["alpha"].end()
    grid["alpha"].submit(spec(300), 300, 2)
    assert len(grid["alpha"].running) == 64


def started_of(grid: Grid, group: str) -> int:
    return len([run for run in grid["alpha"].running if run.subgroup.startswith(f"{group}/")])


def test_where_a_users_program_did_well_its_next_group_fills_every_slot_however_long_it_is_to_run() -> None:
    grid = Grid(alpha=64)
    grid["alpha"].submit(spec(3), 3)
    grid["alpha"].end()
    grid["alpha"].submit(spec(50, work_s=LONG), 50, 2)
    assert started_of(grid, "alpha-2") == 50


def test_a_program_that_runs_for_long_enough_is_as_good_as_one_that_ended() -> None:
    grid = Grid(alpha=200)
    grid["alpha"].submit(spec(10, work_s=LONG), 10)
    grid.pass_time(9.0)
    grid["alpha"].submit(spec(60, work_s=LONG + 1), 60, 2)
    assert started_of(grid, "alpha-2") == 10, "nothing is proven yet"
    grid.pass_time(4.0)
    assert started_of(grid, "alpha-2") == 60, "the other group is"
    grid["alpha"].submit(spec(60, work_s=LONG + 2), 60, 3)
    assert started_of(grid, "alpha-3") == 60


def test_anothers_work_and_another_program_have_to_prove_themselves() -> None:
    grid = Grid(alpha=200)
    grid["alpha"].submit(spec(10, work_s=LONG), 10)
    grid.pass_time(13.0)
    grid["alpha"].submit(spec(50, work_s=LONG), 50, 2, who=BOB)
    grid["alpha"].submit(spec(50, work_s=LONG, environment=(("SIDE", "b"),)), 50, 3)
    assert [started_of(grid, "alpha-2"), started_of(grid, "alpha-3")] == [10, 10]


def test_a_program_that_fails_fast_since_has_to_prove_itself_again() -> None:
    grid = Grid(alpha=64)
    grid["alpha"].submit(spec(3), 3)
    grid["alpha"].end()
    grid["alpha"].submit(spec(1, work_s=LONG), 1, 2)
    grid["alpha"].end(outcome=Outcome.FAILED)
    grid["alpha"].submit(spec(50, work_s=LONG + 1), 50, 3)
    assert started_of(grid, "alpha-3") == 10


def test_groups_with_credit_lose_it_where_one_of_them_is_stopped() -> None:
    """Each had leave to fill every slot, and a site that went bad meanwhile failed each of them whole."""
    grid = Grid(STILL, alpha=64, beta=1)
    grid["alpha"].submit(spec(1, sites=("alpha",)), 1)
    grid["alpha"].end()
    for n in range(4):
        grid["alpha"].submit(spec(200, work_s=LONG + n), 200, 2 + n)
    for _ in range(20):
        while grid["alpha"].end(outcome=Outcome.FAILED):
            grid.settle()
        grid.pass_time(1.0)
    first, *others = (ran_at(grid, "alpha", f"alpha-{2 + n}") for n in range(4))
    assert first >= 64 and max(others) <= 10, (first, others)


def test_a_group_that_began_first_and_has_nothing_running_speaks_for_nobody() -> None:
    grid = Grid(alpha=200)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=LONG), 20)
    assert started_of(grid, "alpha-1") == 10
    alpha.handle(ev.HoldJobs(request=8, principal=ALICE, group=GroupId("alpha-1"), indices=IndexSet.span(10, 20)))
    alpha.end(outcome=Outcome.CANCELLED)
    alpha.submit(spec(10, work_s=LONG + 1), 10, 2)
    grid.pass_time(13.0)
    alpha.submit(spec(60, work_s=LONG + 2), 60, 3)
    assert started_of(grid, "alpha-3") == 60


def test_after_a_group_was_stopped_here_the_next_begins_with_one_until_something_goes_well() -> None:
    grid = Grid(alpha=2, beta=16)
    grid["alpha"].submit(spec(100, sites=("beta", "alpha")), 100)
    while grid["beta"].end(outcome=Outcome.FAILED):
        grid.settle()
    grid["alpha"].submit(spec(100, sites=("beta",), name="next"), 100, 2)
    assert len([r for r in grid["beta"].running if r.subgroup.startswith("alpha-2/")]) == 1
    grid["beta"].end()
    grid.settle()
    assert len([r for r in grid["beta"].running if r.subgroup.startswith("alpha-2/")]) == 2


def test_long_jobs_that_run_on_open_the_ramp_though_none_has_ended() -> None:
    grid = Grid(alpha=100)
    grid["alpha"].submit(spec(100, work_s=40.0), 100)
    assert len(grid["alpha"].running) == 10
    grid.pass_time(5.1)
    assert len(grid["alpha"].running) == 30
    grid.pass_time(5.1)
    assert len(grid["alpha"].running) == 70
    grid.pass_time(5.1)
    assert len(grid["alpha"].running) == 100


def test_a_node_that_starts_again_counts_what_runs_as_not_proven() -> None:
    grid = Grid(alpha=40)
    grid["alpha"].submit(spec(100, work_s=LONG), 100)
    grid["alpha"].restart()
    assert len(grid["alpha"].running) == 10
    live(grid)
    assert view(grid).done == 100


def test_a_site_that_says_itself_that_it_stopped_is_believed_though_its_results_did_not_say_so() -> None:
    grid = Grid(alpha=1, beta=8, gamma=8)
    grid["alpha"].submit(spec(200, work_s=LONG), 200)
    part = next(p for p, s in grid["alpha"].group("alpha-1").subgroups.items() if s.site == "beta")
    epoch = grid["alpha"].group("alpha-1").subgroups[part].epoch
    told = ms.Progress(
        subgroup=part,
        epoch=epoch,
        counter=10**15,
        staging=0,
        queued=9,
        running=0,
        held=IndexSet(),
        stopped="sick",
    )
    receive(grid["alpha"], "beta", told)
    grid.settle()
    grid.pass_time(5.0)
    left = sum(s.open_jobs() for s in grid["alpha"].group("alpha-1").subgroups.values() if s.site == "beta")
    assert left == len(grid["beta"].running) > 0
    live(grid)
    assert view(grid).done == 200


def test_a_retry_forgets_what_its_jobs_did_to_a_site() -> None:
    grid = Grid(alpha=1, beta=8)
    grid["alpha"].submit(spec(200, work_s=LONG), 200)
    live(grid, "beta")
    failed = view(grid).failed
    grid["alpha"].retry("alpha-1")
    assert not grid["alpha"].engine.core.book(Guard).shunned
    assert grid["beta"].running, "beta has forgotten too"
    live(grid)
    assert 0 < failed <= 10 and view(grid).done == 200


def test_many_groups_of_one_job_are_spared_a_site_that_failed_the_latest() -> None:
    grid = Grid(alpha=1, beta=4)
    for n in range(12):
        grid["alpha"].submit(spec(1, not_sites=(), name=f"g{n}", work_s=LONG), 1, n)
        while grid["beta"].end(outcome=Outcome.FAILED):
            grid.settle()
    assert 3 <= len(grid["beta"].started) <= 4
    assert grid["alpha"].engine.core.book(Guard).sites[SiteId("beta")].stand.value == "probation"


def test_switched_off_nothing_is_held_back() -> None:
    grid = Grid({"guard_jobs": 0}, alpha=2, beta=40)
    grid["alpha"].submit(spec(300), 300)
    live(grid, "beta")
    assert view(grid).failed > 100


# --- drain -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["alpha", "beta"])
def test_what_waits_at_a_site_that_drains_runs_elsewhere_and_what_started_stays(where: str) -> None:
    grid = Grid(STILL, alpha=2, beta=2, gamma=2)
    grid["alpha"].submit(spec(60, work_s=LONG), 60)
    drain(grid, where)
    ran = len(grid[where].running)
    grid.pass_time(5.0)
    left = sum(s.open_jobs() for s in grid["alpha"].group("alpha-1").subgroups.values() if s.site == where)
    assert 0 < ran == left == ran_at(grid, where)
    told = grid["alpha"].group("alpha-1").decisions[-1].reason
    assert told.startswith(f"moved ({where} is drained: power cut); "), told
    live(grid)
    assert view(grid).done == 60 and ran_at(grid, where) == ran
    assert not grid["alpha"].group("alpha-1").exported


def test_jobs_that_may_run_nowhere_else_wait_for_the_end_of_the_drain_and_say_why() -> None:
    grid = Grid(alpha=2, beta=2)
    grid["alpha"].submit(spec(60, sites=("beta",), work_s=LONG), 60)
    drain(grid, "beta")
    grid.pass_time(5.0)
    assert view(grid).unplaced == 58 and "beta is drained: power cut" in view(grid).note
    drain(grid, "beta", on=False)
    live(grid)
    assert view(grid).done == 60
    assert grid.claims() == {("alpha-1", i): 1 for i in range(60)}


def test_a_drain_is_obeyed_by_an_origin_that_was_away_or_started_again() -> None:
    grid = Grid(alpha=1, beta=2, gamma=2)
    grid["alpha"].submit(spec(60, work_s=LONG), 60)
    grid.part("alpha")
    drain(grid, "beta")
    grid.pass_time(5.0)
    grid["alpha"].restart()
    grid.heal("alpha")
    grid.pass_time(5.0)
    left = sum(s.open_jobs() for s in grid["alpha"].group("alpha-1").subgroups.values() if s.site == "beta")
    assert left == len(grid["beta"].running)
    live(grid)
    assert view(grid).done == 60


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [ms.Control, ms.ControlAck, ms.Result, ms.ResultAck, ms.Progress, ms.Prepare])
def test_pulled_back_under_a_fault_each_job_starts_once(kind: type, fault: str) -> None:
    for which in (1, 2):
        for drained in (True, False):
            grid, fate = Grid(STILL, alpha=1, beta=4, gamma=2), one_fault(kind, fault, which)
            grid["alpha"].submit(spec(40, work_s=LONG), 40)
            grid.fate = fate
            if drained:
                drain(grid, "beta")
            live(grid, *(() if drained else ("beta",)))
            end = view(grid)
            assert (end.done + end.failed, end.failed == 0) == (40, drained)
            assert grid.claims() == {("alpha-1", i): 1 for i in range(40)}


@pytest.mark.parametrize("bad", ["alpha", "beta"])
def test_jobs_that_were_tried_at_a_site_that_is_stopped_end_there(bad: str) -> None:
    """They cannot go elsewhere: an attempt was made there."""
    grid = Grid(STILL, alpha=8, beta=8)
    grid["alpha"].submit(spec(100, work_s=LONG, on_crash="rerun"), 100)
    grid[bad].end(4, outcome=Outcome.FAILED)
    grid.settle()
    assert grid[bad].end(outcome=Outcome.INTERRUPTED) == 4
    grid.settle()
    grid.pass_time(5.0)
    assert len(grid[bad].running) == 4
    live(grid)
    assert (view(grid).done, view(grid).failed) == (96, 4)


def test_what_was_counted_of_a_placement_that_is_not_there_any_more_is_under_way_no_more() -> None:
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(30, work_s=LONG), 30)
    core, name = grid["alpha"].engine.core, GroupId("alpha-1")
    b = core.book(Guard).here[name]
    core.book(Guard).keys[name][SubgroupId("alpha-1/9"), 9] = (5, 2)
    core.book(Guard).put(name, msgspec.structs.replace(b, out=b.out + 5, running=b.running + 2))
    tidy(core)
    assert (core.book(Guard).here[name].out, core.book(Guard).here[name].running) == (b.out, b.running)
    assert [key[0] for key in core.book(Guard).keys[name]] == ["alpha-1/0"]
