"""A machine of this site runs jobs of the site's own groups that an older copy of its journal has no custody for: they
end once, and nothing of them is begun beside them."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Past
from diana.model.facts import Outcome, out_of_memory
from diana.model.ids import GroupId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import InputFile
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, dataset, spec
from tests.engine.handing import committed
from tests.engine.handover.test_gangs import submit

GROUP = "alpha-1"


def placed_after_the_copy(jobs: int = 2, **more: object) -> tuple[Grid, Site, list[bytes]]:
    """Jobs run at home, and a copy of the journal knows of their group alone."""
    grid = Grid(None, alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(jobs, work_s=100.0, **more), jobs)  # type: ignore[arg-type]
    assert len(alpha.running) == jobs
    return grid, alpha, before(alpha, records.GroupPlaced)


def before(site: Site, kind: type[records.Record]) -> list[bytes]:
    at = next(number for number, one in enumerate(site.stored) if isinstance(codec.decode(one), kind))
    return site.stored[:at]


def put_back(site: Site, copy: list[bytes]) -> None:
    """As an operator does who restores a backup; machine and jobs go on."""
    site.stored, site.db_uuid = list(copy), f"{site.db_uuid}-2"
    site.restart(restored=True)
    site.grid.settle()


def note(site: Site) -> str:
    seen = site.ask("group", GROUP)
    assert isinstance(seen, GroupView)
    return seen.note


def live(site: Site) -> list[int]:
    """Indices with a live attempt, once for each."""
    return sorted(run.index for run in site.running)


def tried_again_after_the_copy(jobs: int = 2) -> tuple[Grid, Site, list[bytes]]:
    """Jobs that failed run again, and a copy of the journal knows of their first part alone, which is over."""
    grid, alpha, _ = placed_after_the_copy(jobs)
    alpha.end(outcome=Outcome.FAILED)
    grid.settle()
    copy = list(alpha.stored)
    alpha.retry(GROUP)
    assert {run.subgroup for run in alpha.running} == {"alpha-1/1"}
    return grid, alpha, copy


def inventory(site: Site, *known: ev.Run, worker: str = "main") -> list[fx.Effect]:
    site.session += 1
    return site.handle(ev.LrmReady(worker=worker, session=site.session, slots=4, known=known))


def run_of(number: int, epoch: int, index: int = 0, attempt: int = 1) -> ev.Run:
    return ev.Run(SubgroupId(f"{GROUP}/{number}"), epoch, index, attempt)


def told(effects: list[fx.Effect]) -> list[type]:
    kinds = (fx.StartAnew, fx.ForgetRuns, fx.KillRuns, fx.Persist)
    return [type(one) for one in effects if isinstance(one, kinds)]


def test_a_run_of_a_part_above_the_groups_last_one_shows_that_the_journal_is_an_older_copy() -> None:
    """Nothing of it is written down or forgotten, so that a crash before the new name leaves the evidence."""
    _, alpha, copy = tried_again_after_the_copy()
    alpha.stored = list(copy)
    alpha.boot()
    name = alpha.db_uuid
    effects = alpha.engine.handle(ev.LrmReady(session=9, slots=4, known=tuple(alpha.running)), alpha.grid.now)
    assert told(effects) == [fx.StartAnew]
    alpha.run(effects)
    assert alpha.db_uuid != name


def test_a_run_here_of_a_part_that_the_journal_has_at_another_site_shows_it_too() -> None:
    grid = committed()
    assert fx.StartAnew in told(inventory(grid["alpha"], run_of(0, 1)))


def test_a_run_here_of_a_part_that_a_restored_site_has_elsewhere_is_ended() -> None:
    """The number was given twice: its jobs are the other site's."""
    grid = committed()
    alpha = grid["alpha"]
    put_back(alpha, list(alpha.stored))
    assert [kind for kind in told(inventory(alpha, run_of(0, 1))) if kind is not fx.ForgetRuns] == [fx.KillRuns]
    assert alpha.group(GROUP).subgroups[SubgroupId("alpha-1/0")].site == "beta"


@pytest.mark.parametrize(
    "known",
    [
        run_of(0, 1),
        run_of(0, 0),
        run_of(10**6, 1),
        run_of(1, 10**6),
        run_of(1, 0),
        run_of(1, 2, index=-1),
        run_of(1, 2, index=3),
        run_of(1, 2, attempt=0),
        run_of(1, 2, attempt=1001),
        ev.Run(SubgroupId("alpha-1/01"), 2, 0, 1),
        ev.Run(SubgroupId("alpha-1/x"), 2, 0, 1),
        ev.Run(SubgroupId(f"alpha-1/{'9' * 5000}"), 2, 0, 1),
    ],
    ids=lambda run: str(run)[:60],
)
def test_a_run_of_a_part_that_the_journal_may_have_had_or_cannot_lack_shows_nothing(known: ev.Run) -> None:
    """Its end was told, and that its machine may forget it was lost; or it is no run of this site."""
    grid, alpha, _ = placed_after_the_copy()
    alpha.end()
    grid.settle()
    assert told(inventory(alpha, known)) == [fx.ForgetRuns]


def test_a_run_of_a_part_that_was_forgotten_among_many_shows_nothing() -> None:
    """Job 1 failed there, and is not begun again by its late word."""
    grid, alpha, _ = placed_after_the_copy()
    alpha.end(outcome=Outcome.FAILED)
    grid.settle()
    alpha.retry(GROUP, IndexSet.of([0]))
    del alpha.group(GROUP).subgroups[SubgroupId("alpha-1/0")]
    assert told(inventory(alpha, *alpha.running, run_of(0, 1, index=1))) == [fx.ForgetRuns]
    assert list(alpha.group(GROUP).failed.within(IndexSet.span(0, 2))) == [1]


@pytest.mark.parametrize("past", ["taken back", "with a later part", "done"])
def test_an_unknown_run_of_a_job_that_another_part_accounts_for_is_let_go(past: str) -> None:
    grid, alpha, _ = placed_after_the_copy()
    if past == "done":
        alpha.end(1)
        grid.settle()
    put_back(alpha, list(alpha.stored))
    if past == "taken back":
        alpha.group(GROUP).past[SubgroupId("alpha-1/7")] = Past(site=alpha.name, epoch=9)
    stray = run_of(7, 0 if past == "with a later part" else 9)
    effects = inventory(alpha, *alpha.running, stray)
    assert [one.runs for one in effects if isinstance(one, fx.ForgetRuns)] == [(stray,)]
    assert fx.KillRuns not in told(effects) and fx.Persist not in told(effects)


def test_jobs_placed_at_home_since_the_copy_run_on_and_end_once() -> None:
    """seed 37 of making-way: they were let go of, and ran twice at their user's word."""
    grid, alpha, copy = placed_after_the_copy()
    put_back(alpha, copy)
    assert "restored from a backup" in note(alpha)
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    assert isinstance(alpha.retry(GROUP, held=True), fx.Refusal), "none of them is held: they run"
    grid.pass_time(30.0)
    assert live(alpha) == [0, 1] and len(alpha.started) == 2
    alpha.end()
    grid.settle()
    group = alpha.group(GROUP)
    assert group.state == "done" and len(group.done) == 2
    assert not alpha.ended, "their ends were accepted, and their machine forgot them"


def test_the_next_part_of_a_group_has_another_number_than_one_that_its_machine_tells_of() -> None:
    grid, alpha, copy = placed_after_the_copy()
    put_back(alpha, copy)
    alpha.release_jobs(GROUP)
    alpha.end(1, Outcome.FAILED)
    alpha.end()
    grid.settle()
    assert isinstance(alpha.retry(GROUP), Ok)
    (run,) = alpha.running
    assert (run.subgroup, run.epoch) == ("alpha-1/1", 2)


def test_a_group_that_was_put_back_waits_until_each_machine_has_told_what_it_runs() -> None:
    grid, alpha, copy = placed_after_the_copy()
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.boot(restored=True)
    refused = alpha.release_jobs(GROUP)
    assert isinstance(refused, fx.Refusal) and "waits for what main runs" in refused.text
    assert "diana site remove-machine NAME" in note(alpha)
    again = alpha.retry(GROUP, held=True)
    assert isinstance(again, fx.Refusal) and "waits for what main runs" in again.text
    alpha.lrm_ready()
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    grid.settle()
    assert live(alpha) == [0, 1] and len(alpha.started) == 2


def test_what_a_member_runs_is_waited_for_and_taken_over_as_well() -> None:
    grid = Grid(None, alpha=4)
    alpha = grid["alpha"]
    alpha.handle(ev.LrmReady(worker="m1", session=1, slots=0, known=()))
    alpha.submit(spec(4, work_s=100.0), 4)
    # The bench plays one machine; they are the other's from here on.
    on_member = tuple(alpha.running)
    alpha.running.clear()
    alpha.stored, alpha.db_uuid = before(alpha, records.GroupPlaced), "db-alpha-2"
    alpha.boot(restored=True)
    alpha.lrm_ready()
    refused = alpha.release_jobs(GROUP)
    assert isinstance(refused, fx.Refusal) and "waits for what m1 runs" in refused.text
    inventory(alpha, *on_member, worker="m1")
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    grid.settle()
    assert len(alpha.started) == 4
    assert {alpha.engine.run_of(run.subgroup, run.epoch, run.index) for run in on_member} == {("m1", 1)}


def test_jobs_tried_again_since_the_copy_are_not_held_any_more() -> None:
    grid, alpha, _ = placed_after_the_copy()
    alpha.end(outcome=Outcome.UNKNOWN)
    grid.settle()
    assert len(alpha.group(GROUP).held) == 2
    copy = list(alpha.stored)
    alpha.retry(GROUP, held=True)
    assert live(alpha) == [0, 1]
    put_back(alpha, copy)
    assert not len(alpha.group(GROUP).held) and alpha.group(GROUP).on_hold
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    alpha.end()
    grid.settle()
    assert len(alpha.group(GROUP).done) == 2 and len(alpha.started) == 4


@pytest.mark.parametrize("late", [False, True], ids=["its end is known", "its end is told once more"])
def test_an_attempt_that_the_copy_takes_to_run_is_over_where_a_later_part_runs(late: bool) -> None:
    grid, alpha, _ = placed_after_the_copy()
    copy, first = list(alpha.stored), tuple(alpha.running)
    alpha.end(outcome=Outcome.FAILED)
    grid.settle()
    alpha.retry(GROUP)
    if late:
        alpha.ended.update(dict.fromkeys(first, Outcome.FAILED))
    put_back(alpha, copy)
    assert [*alpha.engine.state.custodies] == [("alpha-1/1", 2)]
    assert not len(alpha.group(GROUP).failed) and not alpha.ended
    alpha.release_jobs(GROUP)
    alpha.end()
    grid.settle()
    assert alpha.group(GROUP).state == "done" and len(alpha.started) == 4


def test_a_late_end_of_an_earlier_part_counts_no_more() -> None:
    """Its machine tells of both: the end of the first was never said to be forgotten."""
    grid, alpha, _ = placed_after_the_copy(1)
    (first,) = alpha.running
    copy = before(alpha, records.GroupPlaced)
    alpha.end(outcome=Outcome.FAILED)
    grid.settle()
    alpha.retry(GROUP)
    alpha.ended[first] = Outcome.FAILED
    put_back(alpha, copy)
    alpha.release_jobs(GROUP)
    assert live(alpha) == [0] and not alpha.ended
    assert not len(alpha.group(GROUP).failed)
    alpha.end()
    grid.settle()
    assert alpha.group(GROUP).state == "done"


def test_jobs_cancelled_before_their_machine_told_are_ended_and_hold_their_group_until_they_are() -> None:
    grid, alpha, copy = placed_after_the_copy()
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.boot(restored=True)
    alpha.cancel(GROUP, IndexSet.of([0]))
    alpha.lrm_ready()
    assert [(kill.indices, kill.epoch) for kill in alpha.kills] == [(IndexSet.of([0]), 1)]
    refused = alpha.retry(GROUP, cancelled=True)
    assert isinstance(refused, fx.Refusal) and "are ended: 1 at main" in refused.text
    alpha.obey_kills()
    grid.settle()
    assert live(alpha) == [1] and not alpha.ended
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    assert live(alpha) == [1], "it stays cancelled"
    assert isinstance(alpha.retry(GROUP, cancelled=True), Ok)
    assert live(alpha) == [0, 1]


@pytest.mark.parametrize("over", ["its machine lost it", "its machine is given up"])
def test_what_a_machine_tells_of_no_more_is_waited_for_no_longer(over: str) -> None:
    _, alpha, copy = placed_after_the_copy()
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.running.clear()
    alpha.boot(restored=True)
    alpha.cancel(GROUP, IndexSet.of([0]))
    alpha.lrm_ready()
    inventory(alpha, run_of(0, 1), worker="m1")
    refused = alpha.retry(GROUP, cancelled=True)
    assert isinstance(refused, fx.Refusal) and "are ended: 1 at m1" in refused.text
    alpha.trace.clear()
    if over == "its machine lost it":
        inventory(alpha, worker="m1")
    else:
        alpha.handle(ev.LrmLost("m1"))
        alpha.handle(ev.MachineRemoved(request=60, principal=OPERATOR, machine="m1"))
    assert isinstance(alpha.retry(GROUP, cancelled=True), Ok)


def test_whoever_watches_a_group_is_told_when_it_may_go_on() -> None:
    _, alpha, copy = placed_after_the_copy()
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.boot(restored=True)
    alpha.cancel(GROUP, IndexSet.of([0, 1]))
    alpha.trace.clear()
    inventory(alpha)
    assert fx.Notify(GroupId(GROUP)) in alpha.trace
    alpha.lrm_ready()
    alpha.trace.clear()
    alpha.obey_kills()
    assert fx.Notify(GroupId(GROUP)) in alpha.trace


def test_a_component_placed_at_home_since_the_copy_is_ended_before_its_gang_begins_again() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=2)
    alpha = grid["alpha"]
    name = submit(grid, "2x1@alpha")
    assert len(alpha.gone) == 2
    put_back(alpha, before(alpha, records.GroupPlaced))
    refused = alpha.release_jobs(name)
    assert isinstance(refused, fx.Refusal) and "are ended: 2 at main" in refused.text
    assert len(alpha.started) == 2
    alpha.obey_kills()
    grid.settle()
    assert isinstance(alpha.release_jobs(name), Ok)
    grid.finish()
    assert alpha.group(name).state == "done" and len(alpha.started) == 4


def test_a_component_whose_offer_alone_the_copy_knows_is_ended_before_its_gang_begins_again() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=2)
    alpha = grid["alpha"]
    name = submit(grid, "2x1@alpha")
    put_back(alpha, before(alpha, records.CustodyTaken))
    assert isinstance(alpha.release_jobs(name), fx.Refusal)
    alpha.obey_kills()
    grid.settle()
    assert isinstance(alpha.release_jobs(name), Ok)
    grid.finish()
    assert alpha.group(name).state == "done" and len(alpha.started) == 4


def test_a_merge_begun_since_the_copy_is_ended_before_it_is_begun_again() -> None:
    grid, alpha, _ = placed_after_the_copy(collect=("out",), merge=("cat",))
    alpha.end()
    grid.settle()
    assert live(alpha) == [2]
    put_back(alpha, before(alpha, records.MergeStarted))
    assert isinstance(alpha.release_jobs(GROUP), fx.Refusal)
    assert len(alpha.started) == 3
    alpha.obey_kills()
    grid.settle()
    assert isinstance(alpha.release_jobs(GROUP), Ok)
    assert live(alpha) == [2] and len(alpha.started) == 4


def test_a_pair_taken_over_by_force_gives_its_journal_what_its_machines_run() -> None:
    """It lacks the end of its journal and keeps its name: nothing holds its groups."""
    grid, alpha, copy = tried_again_after_the_copy()
    alpha.stored, alpha.term = list(copy), 2
    alpha.boot()
    alpha.lrm_ready()
    grid.settle()
    assert live(alpha) == [0, 1]
    alpha.end()
    grid.settle()
    assert len(alpha.group(GROUP).done) == 2 and len(alpha.started) == 4


def read_inputs_after_the_copy() -> tuple[Grid, Site, list[bytes]]:
    grid = Grid(None, alpha=4)
    alpha, read = grid["alpha"], InputFile(source="dataset:events", path="x")
    alpha.handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("events", "x")))
    both = IndexSet.span(0, 2)
    alpha.submit(spec(2, work_s=100.0, inputs=(read,), on_crash="rerun"), 2, refs=(("dataset:events", both),))
    assert live(alpha) == [0, 1]
    return grid, alpha, before(alpha, records.GroupPlaced)


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize("outcome", [Outcome.UNBEGUN, Outcome.INTERRUPTED])
def test_what_had_inputs_that_the_copy_does_not_tell_starts_nowhere_without_them(
    outcome: Outcome, attempt: int
) -> None:
    """One that is given back unbegun is placed anew; one that is interrupted is held, whatever its group says."""
    grid, alpha, copy = read_inputs_after_the_copy()
    alpha.running = {msgspec.structs.replace(run, attempt=attempt): start for run, start in alpha.running.items()}
    put_back(alpha, copy)
    assert live(alpha) == [0, 1]
    alpha.end(1, outcome)
    grid.settle()
    group = alpha.group(GROUP)
    assert live(alpha) == [1] and len(alpha.started) == 2
    assert (len(group.unplaced), len(group.held)) == ((1, 0) if outcome is Outcome.UNBEGUN else (0, 1))
    alpha.release_jobs(GROUP)
    alpha.retry(GROUP, held=True)
    grid.settle()
    assert live(alpha) == [0, 1] and len(alpha.started) == 3
    custodies = alpha.engine.state.custodies
    assert [bool(custodies[key].files) for key in sorted(custodies)] == [False, True]


def test_jobs_with_inputs_that_were_begun_more_often_than_others_are_ended() -> None:
    """A custody tells by one number which of its jobs never began."""
    _, alpha, copy = read_inputs_after_the_copy()
    alpha.running = {msgspec.structs.replace(run, attempt=1 + run.index): start for run, start in alpha.running.items()}
    put_back(alpha, copy)
    assert [kill.indices for kill in alpha.kills] == [IndexSet.of([1])]


def test_jobs_that_were_given_more_memory_have_it_still() -> None:
    grid, alpha, _ = placed_after_the_copy()
    alpha.end(outcome=Outcome.FAILED, error=out_of_memory("alpha-1.0", 2 << 30, 1 << 30))
    grid.settle()
    assert isinstance(alpha.retry(GROUP, memory_bytes=4 << 30), Ok)
    at = [isinstance(one, records.GroupPlaced) for one in alpha.records()]
    put_back(alpha, alpha.stored[: len(at) - 1 - at[::-1].index(True)])
    assert [one.memory_bytes for one in alpha.engine.state.custodies.values()] == [4 << 30]
