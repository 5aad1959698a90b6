"""From a custody to running jobs and back: claims, sessions, crashes, staging, room (PROMISES 1.3 and 1.6)."""

from __future__ import annotations

import pytest

from diana.engine.handover import inputs
from diana.engine.journal import columns
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job import output_names
from diana.model.settings import Settings
from diana.model.views.views import GroupView
from diana.wire.peer_codec import encode_message
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, dataset, facts_of, spec, whole
from tests.engine.handing import committed, receive

PART = SubgroupId("alpha-1/0")


def view(site: Site, group: str = "alpha-1") -> GroupView:
    seen = site.ask("group", group)
    assert isinstance(seen, GroupView)
    return seen


def single(jobs: int, slots: int = 2, **more: object) -> Site:
    grid = Grid(alpha=slots)
    site = grid["alpha"]
    site.submit(spec(jobs, **{"work_s": 10.0, **more}), jobs)  # type: ignore[arg-type]
    return site


# --- giving work to the LRM ---------------------------------------------------------------------------------


def test_the_lrm_gets_what_it_may_claim_ahead_and_no_more() -> None:
    site = single(100, slots=2, work_s=1.0)
    assert len(site.running) == Settings(slots=2).feed() == 6
    site.end(4)
    assert len(site.running) == 6
    assert site.engine.core.workers.load() == 6


def test_long_jobs_are_given_when_a_slot_is_free_and_no_quick_one_is_claimed_before_them() -> None:
    """Waiting jobs may still move, and the order of the queue stands."""
    site = single(100, slots=2, work_s=60.0)
    site.submit(spec(10, work_s=1.0), 10, request=2)
    assert len(site.running) == 2
    site.handle(ev.SettingsLoaded(Settings(slots=2, claim_ahead=3)))
    assert len(site.running) == 5


def test_without_an_lrm_nothing_starts_and_its_loss_concludes_nothing() -> None:
    site = single(100, work_s=1.0)
    running = len(site.running)
    site.handle(ev.LrmLost())
    site.grid.pass_time(10.0)
    site.end(4)
    assert len(site.running) == running - 4
    assert not site.records(r.RunsVoided)
    site.lrm_ready()
    assert len(site.running) == running


def test_a_start_of_an_old_session_does_not_count() -> None:
    """The order leaves for a session that is over: it is dropped, the run is void and starts again as attempt 2."""
    site = single(2)
    site.running.clear()
    site.started.clear()
    site.lrm_ready()
    assert {(run.index, run.attempt) for run in site.started} == {(0, 2), (1, 2)}
    (void,) = site.records(r.RunsVoided)
    assert void.indices == whole(2)  # type: ignore[union-attr]
    late = fx.Start(session=1, subgroup=PART, epoch=1, owner="alice@vo", spec=spec(2), indices=whole(2))
    site.release([late])
    assert len(site.started) == 2


def test_what_was_claimed_stays_and_what_was_not_is_void() -> None:
    site = single(6, work_s=1.0)
    lost = [run for run in site.running if run.index in (1, 4)]
    for run in lost:
        del site.running[run]
    site.restart()
    (void,) = site.records(r.RunsVoided)
    assert void.indices == IndexSet.of([1, 4])  # type: ignore[union-attr]
    site.grid.finish()
    assert view(site).done == 6
    assert sorted(run.attempt for run in site.started) == [1] * 6 + [2] * 2


def test_a_run_that_ended_and_was_told_is_not_void_before_it_is_durable() -> None:
    """Results wait for their batch; a new LRM session in between must not start them again."""
    site = single(6)
    site.end(1)
    site.end(1)
    assert site.engine.core.run_book.ended[(PART, 1)].indices
    site.lrm_ready()
    assert not site.records(r.RunsVoided)
    site.grid.finish()
    assert set(site.grid.claims().values()) == {1}


def test_an_end_told_twice_counts_once_and_a_stale_attempt_is_forgotten() -> None:
    site = single(3)
    run = next(iter(site.running))
    site.tell([run])
    site.tell([run])
    load = site.engine.core.workers.load()
    stale = ev.Run(run.subgroup, run.epoch, run.index, 7)
    site.tell([stale])
    assert site.engine.core.workers.load() == load == 2
    assert view(site).done == 1
    (forgotten,) = [e for e in site.trace if isinstance(e, fx.ForgetRuns) and stale in e.runs]
    assert forgotten.runs == (stale,)


def test_an_end_of_an_attempt_that_is_over_says_nothing_of_the_one_that_runs() -> None:
    """A stale word about the old attempt must not end the new one (PROMISES section 3)."""
    site = single(1, on_crash="rerun")
    first = next(iter(site.running))
    site.end(1, Outcome.UNKNOWN)
    assert [run.attempt for run in site.running] == [2]
    site.tell([first])
    assert view(site).done == 0
    site.grid.finish()
    assert view(site).done == 1


def test_strays_of_the_lrm_are_forgotten() -> None:
    site = single(3)
    site.grid.finish()
    stray = ev.Run(PART, 1, 0, 1)
    effects = site.handle(ev.LrmReady(session=9, slots=2, known=(stray,)))
    assert [one.runs for one in effects if isinstance(one, fx.ForgetRuns)] == [(stray,)]


def test_a_restart_of_the_node_leaves_running_jobs_alone() -> None:
    site = single(6)
    running = list(site.running)
    for _ in range(3):
        site.restart()
    assert list(site.running) == running
    assert not site.kills
    site.grid.finish()
    assert set(site.grid.claims().values()) == {1}


def test_whoever_does_not_fit_is_passed_over() -> None:
    grid = Grid({"claim_ahead": 1}, alpha=4)
    site = grid["alpha"]
    site.submit(spec(1, work_s=10.0, processors=3), 1, 1)
    site.submit(spec(1, work_s=10.0, processors=4), 1, 2)
    site.submit(spec(1, work_s=10.0, processors=1), 1, 3)
    assert {run.subgroup for run in site.started} == {"alpha-1/0", "alpha-3/0"}
    site.end(1)
    assert {run.subgroup for run in site.started} == {"alpha-1/0", "alpha-3/0"}, "four wide, three free"
    site.end(1)
    assert {run.subgroup for run in site.started} == {"alpha-1/0", "alpha-2/0", "alpha-3/0"}


def test_groups_start_in_the_order_of_their_submission() -> None:
    grid = Grid({"claim_ahead": 1}, alpha=1)
    site = grid["alpha"]
    for n in range(1, 4):
        site.submit(spec(2, work_s=10.0), 2, n)
        grid.now += 1.0
    grid.finish()
    assert [run.subgroup for run in site.started] == [f"alpha-{n}/0" for n in (1, 1, 2, 2, 3, 3)]


# --- outcomes nobody knows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.INTERRUPTED])
def test_by_default_a_job_with_an_unknown_end_is_held_and_never_runs_again(outcome: Outcome) -> None:
    site = single(2)
    site.end(1, outcome)
    site.grid.finish()
    assert (view(site).state, view(site).held, view(site).done) == ("held", 1, 1)
    assert set(site.grid.claims().values()) == {1}


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.INTERRUPTED])
def test_on_crash_rerun_makes_a_new_attempt_and_keeps_the_other_ends(outcome: Outcome) -> None:
    site = single(2, on_crash="rerun")
    runs = list(site.running)
    site.end(1, outcome)
    assert [(run.index, run.attempt) for run in site.started[2:]] == [(runs[0].index, 2)]
    (start,) = [e for e in site.trace if isinstance(e, fx.Start) and e.attempts]
    assert start.attempts == ((runs[0].index, 2),)
    site.grid.finish()
    assert (view(site).state, view(site).done) == ("done", 2)


def test_attempts_go_on_counting_over_a_restart() -> None:
    site = single(1, on_crash="rerun")
    for _ in range(3):
        site.end(1, Outcome.UNKNOWN)
        site.restart()
    assert [run.attempt for run in site.started] == [1, 2, 3, 4]


def test_a_cancelled_job_with_an_unknown_end_is_not_repeated() -> None:
    site = single(1, on_crash="rerun")
    site.cancel("alpha-1")
    site.end(1, Outcome.UNKNOWN)
    assert len(site.started) == 1
    assert view(site).final


# --- results -------------------------------------------------------------------------------------------------------


def test_ends_that_come_close_together_leave_in_one_batch() -> None:
    site = single(100, slots=20)
    for _ in range(30):
        site.end(1)
        site.grid.now += 0.001
    site.grid.pass_time(1.0)
    assert 1 < len(site.records(r.RunsEnded)) <= 3
    assert view(site).done == 30


def test_ends_with_many_files_leave_in_batches_that_fit_a_message() -> None:
    files = [OutputFile(index, f"{index}/{'x' * 60}-{n:05}", 1, "0" * 64) for index in (0, 2) for n in range(10_000)]
    runs = [Run(SubgroupId("alpha-1/0"), 1, index, 1) for index in range(4)]
    facts = facts_of(SiteId("alpha"), runs, Outcome.DONE, 0.0)
    facts.outputs.extend(files)
    parts = [columns.pick(facts, rows) for rows in columns.pieces(facts, 2 << 20)]
    assert [part.indices for part in parts] == [[0, 1], [2, 3]]
    assert [file for part in parts for file in part.outputs] == files
    for part in parts:
        told = ms.Result(subgroup=SubgroupId("alpha-1/0"), epoch=1, batch=0, facts=part, cancelled=IndexSet())
        assert len(encode_message(told)) < 3 << 20
    assert columns.pieces(columns.empty(SiteId("alpha")), 1) == [range(0)]


def test_ends_of_jobs_with_many_declared_outputs_leave_in_batches_that_their_origin_looks_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_names, "MOST_PASSED", 40)
    site = single(10, slots=10, collect=tuple(f"{n}-{{index}}" for n in range(8)))
    assert site.end() == 10
    site.grid.pass_time(1.0)
    assert [len(record.ended) for record in site.records(r.RunsEnded)] == [4, 4, 2]


def test_ends_that_were_not_durable_are_told_again_after_a_crash() -> None:
    site = single(6)
    site.end(1)
    site.end(1)
    assert view(site).done == 1
    site.restart()
    site.grid.pass_time(1.0)
    assert view(site).done == 2


# --- staging --------------------------------------------------------------------------------------------------------


def staged(jobs: int = 4) -> Site:
    """One file per job, one for all; nothing has arrived yet."""
    grid = Grid(alpha=8)
    site = grid["alpha"]
    site.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "all", *map(str, range(jobs)))))
    site.stage_at_once = False
    refs = [(f"dataset:d/{i}", IndexSet.span(i, i + 1)) for i in range(jobs)]
    site.submit(spec(jobs), jobs, refs=(("dataset:d/all", whole(jobs)), *refs))
    return site


def unit(site: Site, name: str) -> fx.StageIn:
    (found,) = [o for o in site.staging if any(f.file.ref == f"dataset:d/{name}" for f in o.files)]
    site.staging.remove(found)
    return found


def started(site: Site) -> set[int]:
    return {run.index for run in site.started}


def test_what_all_jobs_read_is_asked_for_first() -> None:
    site = staged()
    assert [o.files[0].file.ref for o in site.staging] == ["dataset:d/all", *(f"dataset:d/{i}" for i in range(4))]


def test_a_job_starts_as_soon_as_its_own_files_are_here() -> None:
    site = staged()
    assert started(site) == set()
    site.handle(ev.StageDone(ticket=unit(site, "2").ticket, bytes_moved=1))
    assert started(site) == set()
    site.handle(ev.StageDone(ticket=unit(site, "all").ticket, bytes_moved=1))
    assert started(site) == {2}
    assert view(site).staging == 3
    site.handle(ev.StageDone(ticket=unit(site, "0").ticket, bytes_moved=1))
    assert started(site) == {0, 2}


def test_a_file_that_cannot_be_brought_fails_its_readers_only_after_some_tries() -> None:
    site = staged()
    site.handle(ev.StageDone(ticket=unit(site, "all").ticket, bytes_moved=1))
    for attempt in range(inputs.TRIES):
        assert view(site).failed == 0, attempt
        site.handle(ev.StageDone(ticket=unit(site, "1").ticket, bytes_moved=0, error="beta: no such file"))
        site.grid.pass_time(20.0)
    site.stage_at_once = True
    site.release([])
    site.grid.finish()
    assert (view(site).done, view(site).failed, view(site).state) == (3, 1, "failed")
    assert view(site).note == "beta: no such file"
    (facts,) = [f for f in site.facts.values() if Outcome.STAGING_FAILED in f.outcomes]
    assert (facts.indices, facts.attempts) == ([1], [0])
    assert started(site) == {0, 2, 3}


def test_while_staging_is_tried_again_the_status_says_why_until_it_goes_on() -> None:
    site = staged()
    failed = f"beta: {'no route ' * 40}\n\x1b[31m"
    site.handle(ev.StageDone(ticket=unit(site, "all").ticket, bytes_moved=0, error=failed))
    note = view(site).note
    assert note.startswith("alpha: inputs do not arrive, try 2 of 5: beta: no route") and note.isprintable()
    assert view(site).staging == 4 and len(note) <= len("alpha: ") + inputs.MOST_NOTE
    site.grid.pass_time(2.0)
    site.handle(ev.StageDone(ticket=unit(site, "all").ticket, bytes_moved=0, error="beta: is away"))
    assert view(site).note == "alpha: inputs do not arrive, try 3 of 5: beta: is away"
    site.grid.pass_time(3.0)
    site.trace.clear()
    site.handle(ev.StageDone(ticket=unit(site, "all").ticket, bytes_moved=1))
    assert view(site).note == "" and any(isinstance(effect, fx.Notify) for effect in site.trace)


def test_a_site_that_stages_for_another_tells_why_it_has_to_try_again() -> None:
    grid = Grid(alpha=1, beta=8)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "f")))
    beta.stage_at_once = False
    alpha.submit(spec(4, sites=("beta",)), 4, refs=(("dataset:d/f", whole(4)),))
    beta.handle(ev.StageDone(ticket=unit(beta, "f").ticket, bytes_moved=0, error="alpha: disk is slow"))
    grid.pass_time(2.0)
    assert view(alpha).note == "beta: inputs do not arrive, try 2 of 5: alpha: disk is slow"
    beta.handle(ev.StageDone(ticket=unit(beta, "f").ticket, bytes_moved=1))
    grid.pass_time(2.0)
    assert view(alpha).note == ""


def test_what_a_peer_says_of_its_staging_is_shown_as_one_short_line() -> None:
    grid = committed()
    said = ms.Progress(
        subgroup=PART, epoch=1, counter=10**15, staging=4, queued=0, running=0, held=whole(0), note="x\n\x1b" * 5000
    )
    receive(grid["alpha"], "beta", said)
    note = view(grid["alpha"]).note
    assert note.isprintable() and len(note) <= len("beta: ") + inputs.MOST_NOTE


def test_after_a_restart_everything_is_staged_again_and_old_tickets_mean_nothing() -> None:
    site = staged()
    old = [o.ticket for o in site.staging]
    site.restart()
    assert len(site.staging) == 5
    for ticket in (999, *old):
        if ticket not in {o.ticket for o in site.staging}:
            site.handle(ev.StageDone(ticket=ticket, bytes_moved=1))
    assert started(site) == set()


def test_a_cancelled_group_stops_its_transfers() -> None:
    site = staged()
    tickets = {o.ticket for o in site.staging}
    site.cancel("alpha-1")
    assert {e.ticket for e in site.trace if isinstance(e, fx.CancelStage)} == tickets
    assert view(site).state == "cancelled"
    site.handle(ev.StageDone(ticket=min(tickets), bytes_moved=1))
    assert started(site) == set()


def test_many_files_are_staged_in_a_bounded_number_of_units() -> None:
    site = staged(500)
    assert len(site.staging) <= 64
    assert sum(len(o.files) for o in site.staging) == 501
    site.stage_at_once = True
    site.release([])
    site.grid.finish()
    assert view(site).done == 500


def test_a_dataset_is_registered_once_and_other_content_of_its_name_refused() -> None:
    grid = Grid(alpha=1)
    site = grid["alpha"]
    user = site.handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("d", "f")))
    again = site.handle(ev.AddDataset(request=2, principal=OPERATOR, dataset=dataset("d", "f")))
    other = site.handle(ev.AddDataset(request=3, principal=OPERATOR, dataset=dataset("d", "g")))
    assert len(user) == 2
    assert len(again) == len(other) == 1
    assert isinstance(site.replies[3], fx.Refusal)
    assert site.replies[1] == site.replies[2]
