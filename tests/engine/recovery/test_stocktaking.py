"""An origin whose database was put back, sentence by sentence (PROMISES section 2, "Database lost or restored";
`tests/protocol/dbloss.py`). The name of a test's sentence there stands in its docstring."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.engine import Engine
from diana.engine.journal import events as ev
from diana.engine.journal import records
from diana.engine.journal.records import PeerReported
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holding, Holdings
from diana.engine.site.surroundings import Journal
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import no_facts, spec
from tests.engine.groups.test_dropping import drop
from tests.engine.handing import PART, go_on, offered, receive, sent, view, with_offer

ALPHA, BETA = SiteId("alpha"), SiteId("beta")


def origin_copied(when: type, jobs: int = 4, sites: tuple[str, ...] = ("beta",)) -> tuple[Grid, list[bytes]]:
    """Alpha copied before its first record of that kind; beta has all the jobs and goes on."""
    grid = Grid(alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    alpha.submit(spec(jobs, work_s=100.0, sites=sites), jobs)
    kinds = [type(r) for r in alpha.records()]
    return grid, alpha.stored[: kinds.index(when)]


def put_origin_back(grid: Grid, copy: list[bytes]) -> Site:
    alpha = grid["alpha"]
    grid.cut.add("alpha")
    alpha.stored = list(copy)
    alpha.running.clear()
    alpha.db_uuid = "db-alpha-restored"
    alpha.trace.clear()
    alpha.boot(restored=True)
    alpha.lrm_ready()
    return alpha


@pytest.mark.parametrize("when", [records.GroupPlaced, records.TransferCommitted, records.CommitAcked])
def test_a_restored_origin_takes_what_its_peers_hold_for_committed(when: type) -> None:
    """adopts, waits_for_report"""
    grid, copy = origin_copied(when)
    alpha = put_origin_back(grid, copy)
    grid.pass_time(5.0)
    assert not sent(alpha.trace, ms.Prepare)
    grid.heal("alpha")
    group = alpha.group("alpha-1")
    assert [(s.site, s.step, s.unreachable) for s in group.subgroups.values()] == [(BETA, Step.COMMITTED, "")]
    assert not group.unplaced
    grid["beta"].end()
    grid.pass_time(30.0)
    assert view(grid).done == 4
    assert set(grid.claims().values()) == {1}


def test_what_ended_elsewhere_and_was_told_to_the_lost_database_is_held_and_may_be_tried_again() -> None:
    """reports_done"""
    grid, copy = origin_copied(records.CommitAcked)
    grid["beta"].end(3)
    grid.pass_time(5.0)
    assert view(grid).done == 3
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    seen = view(grid)
    assert (seen.held, seen.done, seen.unreachable) == (3, 0, 0)
    grid["beta"].end()
    grid.pass_time(10.0)
    assert (view(grid).held, view(grid).done) == (3, 1)
    assert "diana retry --held" in view(grid).note
    assert alpha.release_jobs("alpha-1") == Ok(0)
    assert alpha.retry("alpha-1", held=True) == Ok(3)
    grid.finish()
    assert view(grid).done == 4


@pytest.mark.parametrize("lost", ["hold", "rerun"])
def test_a_group_that_was_over_in_the_copy_and_was_tried_again_since_goes_on_at_its_users_word(lost: str) -> None:
    grid = Grid(alpha=1, beta=4, gamma=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(20, work_s=100.0, sites=("beta",), on_site_lost=lost), 20)  # type: ignore[arg-type]
    while not view(grid).final:
        beta.end(outcome=Outcome.FAILED)
        grid.pass_time(5.0)
    copy = list(alpha.stored)
    assert alpha.retry("alpha-1") == Ok(20)
    grid.pass_time(5.0)
    put_origin_back(grid, copy)
    assert "beta" in str(alpha.retry("alpha-1")) and "go-on" in str(alpha.retry("alpha-1"))
    # Forgotten now, nobody would hear of the jobs that run.
    assert "beta" in str(drop(alpha, "alpha-1")) and "alpha-1" in alpha.engine.core.state.groups
    grid.heal("alpha")
    grid.pass_time(5.0)
    assert "diana release" in view(grid).note
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 20
    assert set(grid.claims().values()) == {2}


def test_a_group_submitted_since_the_restore_is_not_held_by_what_a_peer_tells_of_it() -> None:
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(3, work_s=1.0, sites=("beta",)), 3, request=2)
    grid.pass_time(5.0)
    grid.fate = None
    grid.pass_time(30.0)
    (fresh,) = [group for name, group in alpha.engine.core.state.groups.items() if name != "alpha-1"]
    assert not fresh.on_hold
    grid["beta"].end()
    grid.pass_time(10.0)
    assert len(fresh.done) == 3


def test_a_closed_transfer_is_told_of_too() -> None:
    grid, copy = origin_copied(records.CommitAcked)
    grid["beta"].end()
    grid.pass_time(5.0)
    assert not grid["beta"].engine.core.state.custodies
    put_origin_back(grid, copy)
    grid.heal("alpha")
    assert view(grid).held == 4


def test_a_new_offer_has_an_epoch_and_a_name_above_all_that_were_told_of() -> None:
    """epoch_above_reported"""
    grid, copy = origin_copied(records.GroupPlaced, jobs=40, sites=("beta", "gamma"))
    assert isinstance(grid["alpha"].move("alpha-1", "gamma"), Ok)
    grid.pass_time(5.0)
    used = {key for site in ("beta", "gamma") for key in grid[site].engine.core.state.custodies}
    assert len(used) > 1
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    group = alpha.group("alpha-1")
    assert group.epoch >= max(epoch for _, epoch in used)
    assert group.next_number > max(int(part.rpartition("/")[2]) for part, _ in used)


def test_an_offer_that_went_with_the_database_gives_its_epoch_to_no_other_also_after_a_crash() -> None:
    """epoch_above_reported: beta has it, and no word that it may run it."""
    grid = offered()
    alpha = grid["alpha"]
    copy = alpha.stored[: [type(r) for r in alpha.records()].index(records.GroupPlaced)]
    grid.deliver_one()
    ((part, epoch),) = grid["beta"].engine.core.state.custodies
    grid.post_box.clear()
    put_origin_back(grid, copy)
    grid.heal("alpha")
    alpha.restart()
    group = alpha.group("alpha-1")
    assert group.epoch >= epoch and group.next_number > int(part.rpartition("/")[2])
    assert not group.subgroups and len(group.unplaced) == 4


@pytest.mark.parametrize("when", [records.GroupPlaced, records.ControlIssued], ids=["placed since", "ordered since"])
def test_an_order_given_since_the_copy_was_made_stands_and_the_next_one_is_obeyed(when: type) -> None:
    """Its number counts on: an older one would be acknowledged there and not obeyed."""
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(20, work_s=100.0, sites=("beta",)), 20)
    alpha.hold("alpha-1", IndexSet.span(10, 15))
    alpha.hold("alpha-1", IndexSet.span(15, 20))
    copy = alpha.stored[: [type(r) for r in alpha.records()].index(when)]
    put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.pass_time(5.0)
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert (part.holding, part.control_seq) == (IndexSet.span(10, 20), 2)
    alpha.cancel("alpha-1", IndexSet.span(18, 20))
    grid.pass_time(5.0)
    assert beta.engine.core.state.custodies[(PART, 1)].cancelled == IndexSet.span(18, 20)


@pytest.mark.parametrize("when", [records.TransferCommitted, records.ControlIssued], ids=["offered", "committed"])
def test_a_cancel_before_a_restored_origin_has_heard_its_peers_is_obeyed(when: type) -> None:
    """The jobs are not over by it: some may have run."""
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(20, work_s=100.0, sites=("beta",)), 20)
    alpha.hold("alpha-1", IndexSet.span(18, 20))
    copy = alpha.stored[: [type(r) for r in alpha.records()].index(when)]
    put_origin_back(grid, copy)
    assert isinstance(alpha.cancel("alpha-1"), Ok)
    assert view(grid).state != "cancelled"
    beta.end(3)
    grid.heal("alpha")
    grid.pass_time(5.0)
    beta.end(outcome=Outcome.CANCELLED)
    grid.pass_time(30.0)
    seen = view(grid)
    assert (seen.state, seen.done, seen.cancelled) == ("cancelled", 3, 17)
    assert not beta.engine.core.state.custodies and set(grid.claims().values()) == {1}


def test_a_cancel_of_what_nobody_took_ends_it_when_its_site_has_told() -> None:
    grid, copy = origin_copied(records.TransferCommitted)
    alpha, beta = put_origin_back(grid, copy), grid["beta"]
    beta.stored, beta.db_uuid = [], "db-beta-anew"
    beta.running.clear()
    beta.boot()
    beta.lrm_ready()
    assert isinstance(alpha.cancel("alpha-1"), Ok)
    grid.heal("alpha")
    grid.pass_time(30.0)
    assert (view(grid).state, view(grid).cancelled) == ("cancelled", 4)


def test_releasing_a_restored_group_releases_what_was_held_before_as_well() -> None:
    grid = Grid(alpha=1, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=100.0, sites=("beta",)), 20)
    alpha.hold("alpha-1")
    put_origin_back(grid, alpha.stored)
    grid.heal("alpha")
    grid.pass_time(5.0)
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 20


def test_a_merge_that_may_have_run_waits_for_its_users_word() -> None:
    grid = Grid(alpha=1, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, sites=("beta",), collect=("{index}.out",), merge=("merge",)), 4)
    grid["beta"].end()
    grid.pass_time(5.0)
    copy = alpha.stored[: [type(r) for r in alpha.records()].index(records.MergeStarted)]
    started = len(alpha.started)
    put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.pass_time(30.0)
    assert len(alpha.started) == started
    assert "diana release" in view(grid).note
    alpha.release_jobs("alpha-1")
    grid.pass_time(5.0)
    assert len(alpha.started) == started + 1


def test_no_group_of_a_restored_origin_goes_on_before_all_its_peers_have_told() -> None:
    """waits_for_report"""
    grid, copy = origin_copied(records.GroupPlaced)
    alpha = put_origin_back(grid, copy)
    grid.cut.add("gamma")
    grid.heal("alpha")
    refused = str(alpha.release_jobs("alpha-1"))
    assert "gamma" in refused
    assert "diana site go-on" in refused
    assert "waits for what gamma can tell" in view(grid).note
    assert go_on(alpha, "gamma") == Ok(1)
    assert alpha.release_jobs("alpha-1") == Ok(4)
    grid["beta"].end()
    grid.pass_time(10.0)
    assert view(grid).done == 4


def test_work_that_no_peer_has_is_placed_once_it_is_released() -> None:
    grid = Grid(alpha=1, beta=4)
    alpha = grid["alpha"]
    grid.cut.add("beta")
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    copy = list(alpha.stored)
    grid.cut.discard("beta")
    put_origin_back(grid, copy)
    grid.heal("alpha")
    assert view(grid).state == "held"
    assert not grid["beta"].started
    assert alpha.release_jobs("alpha-1") == Ok(4)
    grid.finish()
    assert view(grid).done == 4


def test_jobs_at_home_are_started_again_at_their_users_word_only() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(4, sites=("alpha",)), 4)
    copy = list(alpha.stored)
    put_origin_back(grid, copy)
    grid.pass_time(60.0)
    started = len(alpha.started)
    assert view(grid).state in ("held", "unreachable")
    assert alpha.release_jobs("alpha-1") == Ok(4)
    grid.finish()
    assert len(alpha.started) > started
    assert view(grid).done == 4


def test_a_result_of_a_group_that_went_with_the_database_is_not_acknowledged_away() -> None:
    """Its site is of a release that keeps no receipts."""
    grid = Grid(alpha=1, beta=4)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid["beta"].engine.core.state.custodies[(PART, 1)].receipt = b""
    put_origin_back(grid, copy)
    grid.heal("alpha")
    grid["beta"].end()
    grid.pass_time(60.0)
    assert GroupId("alpha-1") not in alpha.engine.core.state.groups
    held = grid["beta"].engine.core.state.custodies[(PART, 1)]
    assert [batch.acked for batch in held.outgoing.values()] == [False]
    assert alpha.engine.counters["results_of_forgotten_groups"] > 0
    assert any("does not know any more" in text for text in alpha.warnings)


def test_a_report_in_several_messages_counts_when_all_are_here_and_in_any_order() -> None:
    grid, copy = origin_copied(records.GroupPlaced)
    alpha = put_origin_back(grid, copy)
    grid.part("beta")
    grid.heal("alpha")
    grid.cut.discard("beta")
    alpha.handle(ev.PeerUp(grid["beta"].hello()))
    grid.post_box.clear()
    one = with_offer(alpha, "beta", Holding(subgroup=PART, epoch=1, open=IndexSet.span(0, 4)))
    page = Holdings(db_uuid="db-beta", seq=50, part=1, parts=2, rows=(one,))
    receive(alpha, "beta", page)
    receive(alpha, "beta", page)
    assert not alpha.group("alpha-1").subgroups
    receive(alpha, "beta", msgspec.structs.replace(page, part=0, rows=()))
    assert alpha.group("alpha-1").subgroups[PART].indices == IndexSet.span(0, 4)
    assert PeerReported(site=BETA) in alpha.records()


def recalled_before_the_copy(every: IndexSet) -> Site:
    """Alpha, put back as it was when it had just called all its jobs back from beta, and met by beta alone."""
    grid, _ = origin_copied(records.CommitAcked, sites=("beta", "gamma"))
    grid.part("beta")
    grid["alpha"].move("alpha-1", "gamma")
    copy = list(grid["alpha"].stored)
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.cut.discard("beta")
    alpha.handle(ev.PeerUp(grid["beta"].hello()))
    grid.post_box.clear()
    assert alpha.group("alpha-1").subgroups[PART].recalled == every
    return alpha


def test_what_came_back_by_a_batch_that_overtook_the_report_is_not_waited_for() -> None:
    every = IndexSet.span(0, 4)
    alpha = recalled_before_the_copy(every)
    nothing = IndexSet()
    batch = ms.Result(
        subgroup=PART, epoch=1, batch=0, facts=no_facts(BETA), cancelled=nothing, revoked=every, db_uuid="db-beta"
    )
    receive(alpha, "beta", batch)
    row = Holding(subgroup=PART, epoch=1, revoked=every)
    receive(alpha, "beta", Holdings(db_uuid="db-beta", seq=50, part=0, parts=1, rows=(row,)))
    group = alpha.group("alpha-1")
    assert group.unplaced == every and not any(s.open_jobs() for s in group.subgroups.values())


def test_what_a_closed_transfer_does_not_name_came_back() -> None:
    every = IndexSet.span(0, 4)
    alpha = recalled_before_the_copy(every)
    row = Holding(subgroup=PART, epoch=1, told=IndexSet.span(0, 1), over=True)
    receive(alpha, "beta", Holdings(db_uuid="db-beta", seq=50, part=0, parts=1, rows=(row,)))
    group = alpha.group("alpha-1")
    assert (group.unplaced, len(group.held)) == (IndexSet.span(1, 4), 1)
    empty = recalled_before_the_copy(every)
    row = Holding(subgroup=PART, epoch=1, over=True)
    receive(empty, "beta", Holdings(db_uuid="db-beta", seq=50, part=0, parts=1, rows=(row,)))
    assert empty.group("alpha-1").unplaced == every and not empty.group("alpha-1").subgroups


def test_a_report_of_what_cannot_be_is_not_believed() -> None:
    grid, copy = origin_copied(records.GroupPlaced)
    alpha = put_origin_back(grid, copy)
    grid.part("beta")
    grid.heal("alpha")
    grid.cut.discard("beta")
    alpha.handle(ev.PeerUp(grid["beta"].hello()))
    rows = (
        Holding(subgroup=PART, epoch=1, open=IndexSet.span(0, 400)),
        Holding(subgroup=msgspec.convert("gamma-1/0", type(PART)), epoch=1, open=IndexSet.span(0, 4)),
    )
    receive(alpha, "beta", Holdings(db_uuid="db-beta", seq=50, part=0, parts=1, rows=rows))
    assert not alpha.group("alpha-1").subgroups
    assert len(alpha.group("alpha-1").unplaced) == 4


def test_an_offer_nobody_has_is_taken_back_when_its_site_has_told() -> None:
    grid = offered()
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    grid.post_box.clear()
    put_origin_back(grid, copy)
    grid.heal("alpha")
    assert not alpha.group("alpha-1").subgroups
    assert len(alpha.group("alpha-1").unplaced) == 4


def test_a_restored_journal_loads_again_as_it_was() -> None:
    """The new records make the same state when they are read again."""
    grid, copy = origin_copied(records.CommitAcked)
    grid["beta"].end(2)
    grid.pass_time(5.0)
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    alpha.release_jobs("alpha-1")
    journal = Journal(snapshot=None, seq=len(alpha.stored), at_s=grid.now, records=list(alpha.stored))
    read = Engine.restore(journal, site=ALPHA, keyring=alpha.keyring, now=grid.now)
    assert read.snapshot() == alpha.engine.snapshot()
    assert alpha.engine.core.state.reported == {BETA: True, SiteId("gamma"): True}
