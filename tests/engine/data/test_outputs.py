"""Outputs come home, are merged once, and are never thrown away unasked (SPEC J5)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.data import outputs
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import Outputs, decode_spec
from diana.model.views.views import GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import facts_of, spec


def view(site: Site) -> GroupView:
    seen = site.ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def remote(jobs: int = 4) -> Grid:
    """All jobs ended at beta, their outputs still there."""
    grid = Grid(alpha=1, beta=4)
    for site in grid.sites.values():
        site.outputs = ("out",)
        site.gather_at_once = False
    grid["alpha"].submit(spec(jobs, work_s=100.0, sites=("beta",), collect=("out",)), jobs)
    grid["beta"].end()
    grid.settle()
    return grid


@pytest.mark.parametrize("name", [".bashrc", "out", "1/out", "0/out.sh"])
def test_a_site_that_reports_a_file_which_the_job_does_not_leave_is_not_believed(name: str) -> None:
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(1, work_s=100.0, sites=("beta",), collect=("out",)), 1)
    grid.settle()
    (subgroup,) = alpha.engine.core.state.groups[GroupId("alpha-1")].subgroups.values()
    run = next(iter(beta.running))
    facts = facts_of(beta.name, [run], Outcome.DONE, grid.now)
    lie = msgspec.structs.replace(facts, outputs=[OutputFile(0, name, 1, "0" * 64)])
    result = ms.Result(subgroup=subgroup.subgroup, epoch=subgroup.epoch, batch=0, facts=lie, cancelled=IndexSet())
    alpha.handle(ev.Received(beta.name, result))
    assert view(alpha).done == 0 and not alpha.gathers
    honest = msgspec.structs.replace(facts, outputs=[OutputFile(0, "0/out", 1, "0" * 64)])
    alpha.handle(ev.Received(beta.name, msgspec.structs.replace(result, facts=honest)))
    assert view(alpha).done == 1


def dropped(site: Site) -> int:
    return sum(isinstance(e, fx.DropOutputs) for e in site.trace)


def test_the_copies_go_only_when_the_origin_has_the_files() -> None:
    grid = remote()
    alpha, beta = grid["alpha"], grid["beta"]
    assert (view(alpha).done, view(alpha).gathering, view(alpha).final) == (4, 1, False)
    grid.pass_time(40.0)
    assert dropped(beta) == 0
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=77))
    assert kinds_since(alpha, "OutputsGathered") == ["OutputsGathered", "Send", "Notify", "GroupClosed", "Notify"]
    grid.settle()
    assert dropped(beta) == 1
    assert not beta.engine.core.state.custodies
    assert view(alpha).bytes_moved == 77


def kinds_since(site: Site, name: str) -> list[str]:
    names = [type(e.record if isinstance(e, fx.Persist) else e).__name__ for e in site.trace]
    return names[names.index(name) :]


def test_a_failing_gather_is_tried_again_and_shown() -> None:
    grid = remote()
    alpha = grid["alpha"]
    for _ in range(3):
        alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=0, error="beta: connection lost"))
        assert view(alpha).note == "beta: connection lost"
        grid.pass_time(20.0)
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=5))
    assert view(alpha).state == "done"
    assert view(alpha).note == ""


def fail_gathers(grid: Grid, times: int) -> None:
    alpha = grid["alpha"]
    for _ in range(times):
        if alpha.gathers:
            alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=0, error="/out: cannot write"))
        grid.pass_time(20.0)


def test_a_group_whose_outputs_cannot_be_put_anywhere_can_be_cancelled_and_retried() -> None:
    grid = remote()
    alpha, beta = grid["alpha"], grid["beta"]
    fail_gathers(grid, 3)
    assert view(alpha).state != "failed"
    alpha.cancel("alpha-1")
    assert (view(alpha).state, view(alpha).gathering, view(alpha).done) == ("failed", 0, 4)
    assert "cancelled" in view(alpha).note
    grid.pass_time(60.0)
    assert dropped(beta) == 0
    alpha.gathers.clear()
    alpha.retry("alpha-1")
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=5))
    grid.settle()
    assert view(alpha).state == "done" and dropped(beta) == 1


def test_two_open_groups_may_not_write_the_same_names_into_one_folder() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]

    def asked(*collect: str, to: str = "/out") -> object:
        wanted = spec(1, work_s=100.0)
        return alpha.submit(msgspec.structs.replace(wanted, outputs=Outputs(collect=collect, to=to)), 1)

    assert isinstance(asked("a-{index}"), fx.GroupAccepted)
    refused = asked("b", "a-{index}", to="//out/.")
    assert isinstance(refused, fx.Refusal) and "alpha-1" in refused.text and "a-{index}" in refused.text
    for other in (asked("b"), asked("a-{index}", to="/out/below"), asked("a-{index}", to="")):
        assert isinstance(other, fx.GroupAccepted)
    alpha.end()
    grid.settle()
    assert view(alpha).state == "done"
    assert isinstance(asked("a-{index}"), fx.GroupAccepted)


def test_what_patterns_find_meets_what_others_put_into_folders_of_jobs() -> None:
    alpha = Grid(alpha=1)["alpha"]

    def asked(*collect: str, to: str = "/out") -> object:
        wanted = spec(1, work_s=100.0)
        return alpha.submit(msgspec.structs.replace(wanted, outputs=Outputs(collect=collect, to=to, kept=True)), 1)

    assert isinstance(asked("*.csv"), fx.GroupAccepted)
    for other in (asked("*.csv"), asked("out/"), asked("a.csv"), asked("{x}/a"), asked("{index}")):
        assert isinstance(other, fx.Refusal)
        assert "alpha-1, which is not over, puts its '*.csv' into /out too" in other.text
    for other in (asked("a-{index}"), asked("{group}/*.csv"), asked("*.csv", to="/other"), asked("out/{index}")):
        assert isinstance(other, fx.GroupAccepted)
    assert isinstance(asked("same", to="/third"), fx.GroupAccepted)
    refused = asked("*", to="/third")
    assert isinstance(refused, fx.Refusal) and "puts its 'same' into /third too" in refused.text


def test_outputs_that_cannot_be_brought_home_fail_the_group_but_their_copies_stay() -> None:
    grid = remote()
    alpha, beta = grid["alpha"], grid["beta"]
    fail_gathers(grid, outputs.GIVE_UP_AFTER + 1)
    assert (view(alpha).state, view(alpha).done) == ("failed", 4)
    assert view(alpha).note == "/out: cannot write"
    grid.pass_time(60.0)
    assert dropped(beta) == 0
    assert beta.engine.core.state.custodies, "the site still waits for somebody to take the files"


def test_outputs_that_time_does_not_bring_home_fail_the_group_at_once_and_a_retry_gathers_them() -> None:
    grid = remote()
    alpha = grid["alpha"]
    why = "/out: out is a link or a file, not a folder"
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=0, error=why, final=True))
    grid.settle()
    assert (view(alpha).state, view(alpha).gathering, view(alpha).done) == ("failed", 0, 4)
    assert view(alpha).note == why
    grid.pass_time(600.0)
    assert not alpha.gathers
    alpha.retry("alpha-1")
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=5))
    grid.settle()
    assert view(alpha).state == "done"


def test_a_site_that_is_away_has_not_lost_its_outputs() -> None:
    grid = remote()
    grid.part("beta")
    fail_gathers(grid, 3 * outputs.GIVE_UP_AFTER)
    assert view(grid["alpha"]).gathering == 1
    assert not view(grid["alpha"]).final
    grid.heal("beta")
    grid["alpha"].gather_at_once = True
    grid["alpha"].release([])
    grid.pass_time(30.0)
    assert view(grid["alpha"]).state == "done"


def test_a_merge_does_not_run_over_parts_that_are_missing() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.outputs, alpha.gather_at_once = ("out",), False
    alpha.submit(spec(2, collect=("out",), merge=("sum",)), 2)
    alpha.end()
    fail_gathers(grid, outputs.GIVE_UP_AFTER + 1)
    assert view(alpha).state == "failed"
    assert not alpha.records(r.MergeStarted)


def test_gathering_goes_on_after_a_restart() -> None:
    grid = remote()
    grid["alpha"].gather_at_once = True
    grid["alpha"].restart()
    grid.settle()
    assert view(grid["alpha"]).state == "done"


def test_a_lost_acknowledgement_of_outputs_is_said_again() -> None:
    grid = remote()
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=1))
    grid.post_box.clear()
    grid.pass_time(60.0)
    assert dropped(beta) == 1
    assert not beta.engine.core.state.custodies


def test_while_outputs_move_their_facts_are_not_sent_again() -> None:
    grid = remote()
    beta = grid["beta"]
    beta.trace.clear()
    grid.pass_time(60.0)
    asked = [e.message for e in beta.trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Result)]
    assert asked and not any(message.facts.indices for message in asked)
    assert not any(isinstance(e, fx.SendResult) for e in beta.trace)


def test_outputs_are_gathered_as_their_batches_end_not_at_the_end() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.outputs, alpha.gather_at_once = ("out",), False
    alpha.submit(spec(6, work_s=10.0, collect=("out",)), 6)
    alpha.end(1)
    assert len(alpha.gathers) == 1
    assert alpha.gathers[0].source == "alpha"


# --- the merge ------------------------------------------------------------------------------------------------


def merged(fault: str = "") -> Grid:
    grid = Grid(alpha=2, beta=2)
    for site in grid.sites.values():
        site.outputs = ("out",)
    alpha = grid["alpha"]
    alpha.submit(spec(8, work_s=20.0, collect=("out",), merge=("sum", "all")), 8)
    for site in grid.sites.values():
        while site.end():
            grid.settle()
    return grid


def test_the_merge_runs_once_at_home_when_all_outputs_are_here() -> None:
    grid = merged()
    alpha = grid["alpha"]
    assert view(alpha).state == "merging"
    (start,) = [e for e in alpha.trace if isinstance(e, fx.Start) and e.directory]
    assert start.directory == fx.GATHERED
    assert start.spec.argv == ("sum", "all")
    assert list(start.indices) == [8]
    for _ in range(3):
        alpha.restart()
    grid.settle()
    grid.finish()
    assert view(alpha).state == "done"
    assert view(alpha).done == 8
    assert len(alpha.records(r.MergeStarted)) == 1
    assert [run.index for s in grid.sites.values() for run in s.started].count(8) == 1


def test_a_merge_ordered_just_before_a_crash_still_runs_once() -> None:
    grid = merged()
    alpha = grid["alpha"]
    alpha.running.clear()
    alpha.started = [run for run in alpha.started if run.index != 8]
    alpha.restart()
    grid.finish()
    assert [run.index for run in alpha.started].count(8) == 1
    assert view(alpha).state == "done"


@pytest.mark.parametrize(
    ("outcome", "state", "note"),
    [
        (Outcome.FAILED, "failed", "the merge command failed: exit code 1; what it wrote: diana logs --merge alpha-1"),
        (Outcome.UNKNOWN, "held", "the merge command ended without a trace"),
        (Outcome.INTERRUPTED, "held", "the merge command ended without a trace"),
    ],
)
def test_the_end_of_the_merge_is_the_end_of_the_group(outcome: Outcome, state: str, note: str) -> None:
    grid = merged()
    grid["alpha"].end(1, outcome)
    assert (view(grid["alpha"]).state, view(grid["alpha"]).note) == (state, note)
    assert view(grid["alpha"]).done == 8


def test_without_all_jobs_done_the_merge_does_not_run() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, merge=("sum",)), 2)
    alpha.end(1, Outcome.FAILED)
    grid.finish()
    assert view(alpha).state == "failed"
    assert view(alpha).note == "the merge command was not run: not every job is done"
    assert len(alpha.started) == 2


def test_the_merge_runs_where_the_user_wants_the_outputs() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    wanted = spec(1, merge=("sum",))
    wanted = decode_spec(b'{"argv":["true"],"outputs":{"to":"/data/out","merge":["sum"]}}')
    alpha.submit(wanted, 1)
    alpha.end()
    (start,) = [e for e in alpha.trace if isinstance(e, fx.Start) and e.directory]
    assert start.directory == "/data/out"


def test_a_result_told_again_while_its_outputs_move_is_acknowledged_without_them() -> None:
    grid = remote()
    alpha, beta = grid["alpha"], grid["beta"]
    message = next(e for e in beta.trace if isinstance(e, fx.SendResult))
    effects = alpha.handle(
        ev.Received(
            beta.name,
            ms.Result(
                subgroup=message.key.subgroup,
                epoch=message.key.epoch,
                batch=message.key.batch,
                facts=beta.facts[message.key],
                cancelled=message.cancelled,
            ),
        )
    )
    (ack,) = [e.message for e in effects if isinstance(e, fx.Send)]
    assert isinstance(ack, ms.ResultAck)
    assert not ack.outputs_taken
    assert len(alpha.gathers) == 1
