"""Lost and old databases (PROMISES section 2): what the simulator's seeds found beyond the sentences of the model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from diana.engine.journal import columns, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holding, Holdings, Met
from diana.engine.site.journal_doubt import JournalDoubt
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.handing import PART, committed, receive, sent, view, with_offer
from tests.engine.recovery.test_recovery import put_back
from tests.engine.recovery.test_stocktaking import origin_copied, put_origin_back

ALPHA, BETA = SiteId("alpha"), SiteId("beta")


def test_whoever_comes_back_under_a_name_it_had_before_is_an_older_copy() -> None:
    """Put back twice: the second copy is older than the name that was taken after the first. It looks like another
    database, and would not be told that it fell."""
    grid = committed()
    alpha, hello = grid["alpha"], grid["beta"].hello()
    alpha.handle(ev.PeerDown(BETA))
    renamed = replace(hello, db_uuid="db-beta-anew", generation=hello.generation + 1, boot_nonce="second")
    assert [one.fell for one in sent(alpha.handle(ev.PeerUp(renamed)), Met)] == [False]  # type: ignore[attr-defined]
    alpha.handle(ev.PeerDown(BETA))
    again = replace(hello, generation=hello.generation + 1, boot_nonce="third", seq=hello.seq + 1000)
    for _ in range(2):
        assert [one.fell for one in sent(alpha.handle(ev.PeerUp(again)), Met)] == [True]  # type: ignore[attr-defined]
    assert alpha.engine.core.state.peers[BETA].db_uuid == "db-beta-anew"


def test_names_a_peer_had_are_remembered_in_order_and_not_for_ever() -> None:
    grid = committed()
    alpha, hello = grid["alpha"], grid["beta"].hello()
    names = [f"db-{number}" for number in range(40)]
    for number, name in enumerate(names, 2):
        alpha.handle(ev.PeerDown(BETA))
        alpha.handle(ev.PeerUp(replace(hello, db_uuid=name, generation=number, boot_nonce=name)))
    assert alpha.engine.core.state.peers[BETA].former == tuple(names[-17:-1])


@pytest.mark.parametrize("dropped", [True, False])
def test_a_part_that_a_report_ends_is_not_told_of_again_when_its_site_comes_back(dropped: bool) -> None:
    """The list of what is open at a site follows what was reported."""
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    part = SubgroupId("alpha-1/7")
    row = Holding(subgroup=PART, epoch=1, dropped=True)
    if not dropped:
        # Another part has all its jobs by now.
        row = with_offer(alpha, "gamma", Holding(subgroup=part, epoch=9, open=IndexSet.span(0, 4)))
    receive(alpha, "gamma" if not dropped else "beta", Holdings(db_uuid="db", seq=9, part=0, parts=1, rows=(row,)))
    assert PART not in alpha.group("alpha-1").subgroups
    assert alpha.engine.core.parties.handed_to(BETA) == []
    grid.heal("alpha")
    found = {subgroup.subgroup for _, subgroup in alpha.engine.core.parties.handed_to(None)}
    assert found == {name for name, s in alpha.group("alpha-1").subgroups.items() if s.open_jobs()}


def test_a_told_job_that_has_its_result_here_stays_with_the_part_it_came_from() -> None:
    """A retry that was made after the copy, and is over: the copy has the first attempt's result. The part of the retry
    must not wait for ever for results that it has told."""
    grid, copy = origin_copied(records.CommitAcked)
    grid["beta"].end(2)
    grid.pass_time(5.0)
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    held = view(grid).held
    assert held == 2
    group = alpha.group("alpha-1")
    retried = Holding(subgroup=SubgroupId("alpha-1/5"), epoch=6, told=IndexSet.span(0, 2))
    alpha.engine.core.state.reported[SiteId("gamma")] = False
    receive(alpha, "gamma", Holdings(db_uuid="db-gamma", seq=99, part=0, parts=1, rows=(retried,)))
    late = group.subgroups.get(SubgroupId("alpha-1/5"))
    assert late is None or not late.open_jobs()
    assert [s.step for s in group.subgroups.values()] == [Step.COMMITTED]
    assert view(grid).held == held


def test_the_word_of_an_origin_is_asked_for_when_its_first_jobs_come() -> None:
    """Nobody had anything to ask when the stream began, and what was said then was lost: they would wait for ever."""
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"]
    put_back(beta, beta.stored, newest=False)
    grid.heal("beta")
    beta.engine.core.book(JournalDoubt).spoken.clear()
    beta.engine.core.book(JournalDoubt).unsure = False
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid.pass_time(30.0)
    assert len(beta.started) == 4


def test_recalled_jobs_that_came_back_before_the_report_stay_back() -> None:
    """The batch that brings them overtakes the report that still names them, of a part that is through by now."""
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    back = IndexSet.span(2, 4)
    facts = columns.empty(BETA)
    batch = ms.Result(subgroup=PART, epoch=1, batch=0, facts=facts, cancelled=IndexSet(), revoked=back)
    # As in a copy that was made after the recall.
    alpha.group("alpha-1").subgroups[PART].recalled = back
    receive(alpha, "beta", batch)
    assert alpha.group("alpha-1").unplaced == back
    row = Holding(subgroup=PART, epoch=1, open=IndexSet.span(0, 2), revoked=back)
    receive(alpha, "beta", Holdings(db_uuid="db-beta", seq=50, part=0, parts=1, rows=(row,)))
    assert alpha.group("alpha-1").subgroups[PART].indices == IndexSet.span(0, 2)
    assert alpha.group("alpha-1").unplaced == back


def test_a_doubted_store_is_trusted_once_all_sites_it_knew_have_spoken() -> None:
    """Else the next start, perhaps a second later, would take it for the newest and start what has run."""
    grid = Grid(alpha=1, beta=4, gamma=1)
    beta = grid["beta"]
    grid.settle()
    beta.trace.clear()
    put_back(beta, beta.stored, newest=False)
    assert not any(isinstance(effect, fx.Confirmed) for effect in beta.trace)
    grid.heal("beta")
    assert beta.engine.core.book(JournalDoubt).spoken == {ALPHA, SiteId("gamma")}
    assert sum(isinstance(effect, fx.Confirmed) for effect in beta.trace) == 1


def test_a_store_is_not_trusted_while_one_site_is_away() -> None:
    grid = Grid(alpha=1, beta=4, gamma=1)
    beta = grid["beta"]
    grid.settle()
    beta.trace.clear()
    put_back(beta, beta.stored, newest=False)
    grid.cut.add("gamma")
    grid.heal("beta")
    grid.pass_time(300.0)
    assert not beta.engine.core.book(JournalDoubt).unsure, "its own work does not wait for ever"
    assert not any(isinstance(effect, fx.Confirmed) for effect in beta.trace)
