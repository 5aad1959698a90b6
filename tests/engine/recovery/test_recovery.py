"""The model of lost databases, sentence by sentence (PROMISES section 2, "Database lost or restored";
`tests/protocol/dbloss.py`). The name of a test's sentence there stands in its docstring."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Met
from diana.engine.site import journal_doubt
from diana.engine.site.journal_doubt import JournalDoubt
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import ALICE, spec
from tests.engine.handing import PART, committed, go_on, offered, own_word, receive, sent, view

ALPHA, BETA = SiteId("alpha"), SiteId("beta")


def put_back(site: Site, copy: list[bytes], *, newest: bool = True) -> None:
    """The machine died and lost its claims; an older copy of its database was put back and started, alone at first."""
    site.grid.cut.add(site.name)
    site.stored = list(copy)
    site.running.clear()
    site.boot(newest=newest)
    site.lrm_ready()


# --- a destination that fell --------------------------------------------------------------------------------------


def fallen() -> tuple[Grid, Site]:
    """Beta was copied when it had the jobs and had not started them; all four ran since, and nobody told beta."""
    grid = offered()
    beta = grid["beta"]
    while not any(isinstance(r, records.CustodyRunnable) for r in beta.records()):
        grid.deliver_one()
    copy = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    grid.settle()
    beta.end(2)
    grid.pass_time(3.0)
    put_back(beta, copy, newest=False)
    return grid, beta


def test_whoever_fell_is_told_so_takes_another_name_and_starts_nothing() -> None:
    """fallen_mints_anew, restored_holds"""
    grid, beta = fallen()
    started, name = len(beta.started), beta.db_uuid
    grid.heal("beta")
    grid.pass_time(60.0)
    assert beta.db_uuid != name
    assert len(beta.started) == started == 4, "nothing that may have run is started again"
    assert view(grid).done == 2
    assert view(grid).unreachable == 2
    assert "older database" in view(grid).note


def test_whoever_asks_again_is_told_again_that_it_fell() -> None:
    """verdict_stands"""
    grid, beta = fallen()
    alpha, hello = grid["alpha"], beta.hello()
    for _ in range(3):
        met = sent(alpha.handle(ev.PeerUp(hello)), Met)
        assert [one.fell for one in met] == [True]  # type: ignore[attr-defined]
    later = msgspec.structs.replace(hello, boot_nonce="later", generation=hello.generation + 5)
    assert sent(alpha.handle(ev.PeerUp(later)), Met)[0].fell  # type: ignore[attr-defined]
    other = msgspec.structs.replace(later, db_uuid="another")
    assert not sent(alpha.handle(ev.PeerUp(other)), Met)[0].fell  # type: ignore[attr-defined]


def test_that_it_fell_is_said_until_the_other_comes_back_under_another_name() -> None:
    """The word may be lost; meanwhile jobs of an origin whose word is missing are not started."""
    grid, beta = fallen()
    started, lost = len(beta.started), 0

    def lose_some(_: Grid, __: int, letter: Post) -> str:
        nonlocal lost
        lost += isinstance(letter[2], Met) and lost < 4
        return "lose" if isinstance(letter[2], Met) and lost < 4 else "deliver"

    grid.fate = lose_some
    grid.heal("beta")
    grid.pass_time(120.0)
    assert beta.db_uuid != "db-beta"
    assert len(beta.started) == started


def test_what_a_fallen_site_holds_is_run_elsewhere_at_its_users_word_and_then_not_there() -> None:
    """Promise 7; the copy that is held there goes back like any other that was placed anew."""
    grid = Grid({"migration": "off"}, alpha=0, beta=2, gamma=2)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(24, work_s=10.0, sites=("beta", "gamma")), 24)
    beta.db_uuid = "db-beta-2"
    beta.restart(restored=True)
    grid.pass_time(10.0)
    assert view(grid).unreachable
    assert isinstance(alpha.retry("alpha-1", unreachable=True), Ok)
    grid.finish()
    assert view(grid).done == 24
    assert not beta.engine.core.state.custodies


def test_the_word_of_a_former_boot_changes_nothing() -> None:
    grid = committed()
    beta = grid["beta"]
    before = beta.db_uuid
    receive(beta, "alpha", Met(boot_nonce="another boot", fell=True))
    assert beta.db_uuid == before


# --- who may begin at once ----------------------------------------------------------------------------------------


def test_a_boot_that_cannot_show_the_newest_journal_starts_nothing_of_an_origin_that_has_not_spoken() -> None:
    """waits_for_origin"""
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.end(1)
    grid.cut.add("beta")
    beta.boot(newest=False)
    beta.lrm_ready()
    beta.end()
    started = len(beta.started)
    grid.now += 60.0
    beta.handle(ev.Tick())
    assert len(beta.started) == started
    core = beta.engine.core
    assert "waits for a word of alpha" in journal_doubt.stays(core, core.state.custodies[(PART, 1)])
    grid.heal("beta")
    assert len(beta.started) > started
    grid.finish()
    assert set(grid.claims().values()) == {1}


def test_a_boot_with_the_newest_journal_begins_at_once_though_its_origin_is_away() -> None:
    """An ordinary restart costs nothing: the mark beside the journal says that it has all."""
    grid = committed(jobs=20)
    beta = grid["beta"]
    grid.cut.add("beta")
    beta.boot()
    beta.lrm_ready()
    beta.end()
    assert len(beta.started) > 12


def test_an_operator_ends_the_wait_for_an_origin() -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    grid.cut.add("beta")
    beta.boot(newest=False)
    beta.lrm_ready()
    beta.end()
    started = len(beta.started)
    assert "does not wait for gamma; it waits for alpha" in str(go_on(beta, "gamma"))
    assert go_on(beta, "alpha") == Ok(1)
    assert len(beta.started) > started


def test_only_an_operator_ends_a_wait() -> None:
    grid = committed()
    beta = grid["beta"]
    beta.boot(newest=False)
    beta.handle(ev.GoOn(request=7, principal=ALICE, site=ALPHA))
    assert "denied" in str(beta.replies.pop(7))


def unsure_at_home(jobs: int = 6) -> tuple[Grid, Site]:
    grid = Grid(alpha=2, beta=0, gamma=0)
    alpha = grid["alpha"]
    alpha.submit(spec(jobs, work_s=50.0, sites=("alpha",)), jobs)
    grid.part("alpha")
    alpha.running.clear()
    alpha.boot(newest=False)
    alpha.lrm_ready()
    return grid, alpha


def test_a_sites_own_jobs_wait_for_all_its_peers_but_not_for_ever() -> None:
    """Whatever ran here was told to nobody else; but any of them may have heard a longer journal."""
    grid, alpha = unsure_at_home(20)
    started = len(alpha.started)
    grid.pass_time(60.0)
    assert len(alpha.started) == started
    assert "waits for a word of beta, gamma" in str(alpha.submit(spec(1, sites=("alpha",)), 1, 2))
    assert "waits for a word of beta" in journal_doubt.waiting_for(alpha.engine.core)
    grid.pass_time(journal_doubt.PATIENCE_S)
    assert len(alpha.started) > started
    grid.finish()


def test_a_sites_own_jobs_begin_when_all_peers_have_spoken_or_an_operator_has() -> None:
    grid, alpha = unsure_at_home(20)
    started = len(alpha.started)
    grid.cut.add("gamma")
    grid.heal("alpha")
    assert len(alpha.started) == started
    assert go_on(alpha, "gamma") == Ok(1)
    assert len(alpha.started) > started


def test_a_journal_is_the_newest_also_after_the_next_start_once_all_peers_or_an_operator_have_spoken() -> None:
    grid, alpha = unsure_at_home()
    grid.pass_time(journal_doubt.PATIENCE_S + 1.0)
    grid.cut.add("gamma")
    grid.heal("alpha")
    assert not [e for e in alpha.trace if isinstance(e, fx.Confirmed)], "gamma may know better"
    assert go_on(alpha, "gamma") == Ok(1)
    assert [e for e in alpha.trace if isinstance(e, fx.Confirmed)]
    alone = Grid(alpha=1)["alpha"]
    alone.boot(newest=False)
    assert [e for e in alone.trace if isinstance(e, fx.Confirmed)]


def test_a_site_without_peers_waits_for_nobody() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(6, sites=("alpha",)), 6)
    alpha.boot(newest=False)
    alpha.lrm_ready()
    grid.finish()
    assert alpha.group("alpha-1").state == "done"


# --- tombstones ----------------------------------------------------------------------------------------------------


def inert_again(*, claims: bool) -> tuple[Grid, Site]:
    """The copy knows the offer only; it was committed since, and with `claims` the spawner is still the same."""
    grid = offered()
    beta = grid["beta"]
    while not any(isinstance(r, records.CustodyTaken) for r in beta.records()):
        grid.deliver_one()
    copy = list(beta.stored)
    grid.settle()
    grid.cut.add("beta")
    beta.stored = copy
    if not claims:
        beta.running.clear()
    beta.boot(newest=False)
    grid.cut.discard("beta")
    return grid, beta


def test_no_tombstone_is_written_before_the_spawner_told_what_it_claimed() -> None:
    """tombstone_asks_spawner"""
    _, beta = inert_again(claims=True)
    abort = ms.Abort(subgroup=PART, epoch=1)
    assert not sent(receive(beta, "alpha", abort), ms.Aborted)
    beta.lrm_ready()
    assert not sent(receive(beta, "alpha", abort), ms.Aborted)
    assert (PART, 1) not in beta.engine.core.state.tombstones
    assert len(beta.running) == 4


def test_a_tombstone_is_written_once_no_spawner_has_a_claim() -> None:
    _, beta = inert_again(claims=False)
    abort = ms.Abort(subgroup=PART, epoch=1)
    assert not sent(receive(beta, "alpha", abort), ms.Aborted)
    beta.lrm_ready()
    assert sent(receive(beta, "alpha", abort), ms.Aborted)


def test_nothing_is_revoked_before_the_spawner_told_what_it_claimed() -> None:
    grid = committed(jobs=2)
    beta = grid["beta"]
    order = ms.Control(
        subgroup=PART, epoch=1, control_seq=1, cancel=IndexSet(), hold=IndexSet(), recall=IndexSet.span(0, 2)
    )
    beta.stored = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    beta.boot(newest=False)
    assert not receive(beta, "alpha", order)
    beta.lrm_ready()
    receive(beta, "alpha", order)
    assert not [r for r in beta.records(records.RunsEnded)], "both have started"


RECALL = ms.Control(
    subgroup=PART, epoch=1, control_seq=1, cancel=IndexSet(), hold=IndexSet(), recall=IndexSet.span(0, 20)
)


def given_back(beta: Site) -> IndexSet:
    return IndexSet.union(record.revoked for record in beta.records(records.RunsEnded))


def test_nothing_goes_back_from_an_older_copy_as_if_it_had_not_started() -> None:
    """Neither before the site knows that it fell, nor when it came back and holds what may have run."""
    grid, beta = fallen()
    receive(beta, "alpha", RECALL)
    assert not given_back(beta), "all four have started once"
    grid.heal("beta")
    grid.pass_time(60.0)
    receive(beta, "alpha", msgspec.structs.replace(RECALL, control_seq=2))
    assert not given_back(beta)
    assert set(grid.claims().values()) == {1}
    assert view(grid).done == view(grid).unreachable == 2


def test_what_was_recalled_before_the_origin_spoke_goes_back_once_it_has() -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    grid.cut.add("beta")
    beta.boot(newest=False)
    beta.lrm_ready()
    receive(beta, "alpha", RECALL)
    assert not given_back(beta)
    core = beta.engine.core
    beta.handle(ev.Received(ALPHA, Met(boot_nonce=core.state.boot_nonce, fell=False, asks=False, unanswered=False)))
    assert len(given_back(beta)) == 20 - len(beta.started)


def test_the_tombstone_of_another_database_frees_nothing_that_was_committed() -> None:
    """aborted_names_db"""
    grid = committed()
    alpha = grid["alpha"]
    alpha.group("alpha-1").subgroups[PART].acked = False
    receive(alpha, "beta", ms.Aborted(subgroup=PART, epoch=1, db_uuid="another", seq=99))
    assert alpha.group("alpha-1").subgroups[PART].step is Step.COMMITTED
    assert "in another database" in alpha.warnings[-1]
    receive(alpha, "beta", ms.Aborted(subgroup=PART, epoch=1, db_uuid="db-beta", seq=99))
    assert PART not in alpha.group("alpha-1").subgroups


@pytest.mark.parametrize("restarted", [False, True])
def test_a_result_tells_how_long_the_journal_was(restarted: bool) -> None:
    """answers_carry_seq: also over a restart of the origin."""
    grid = committed()
    alpha, beta = grid["alpha"], grid["beta"]
    before = list(beta.stored)
    beta.end(1)
    grid.settle()
    if restarted:
        alpha.boot()
        alpha.lrm_ready()
    put_back(beta, before)
    beta.boots += 5
    grid.heal("beta")
    assert "older database" in view(grid).note


@pytest.mark.parametrize("order", [ms.Control, ms.ResultAck], ids=lambda kind: kind.__name__)
def test_an_order_tells_how_long_the_journal_was(order: type) -> None:
    """An origin that lost only what it had ordered since is told so by who obeyed."""
    grid = committed(jobs=20)
    alpha, beta = grid["alpha"], grid["beta"]
    grid.settle()
    before = list(alpha.stored)
    if order is ms.Control:
        alpha.hold("alpha-1", settle=False)
    else:
        beta.end(1)
    while not (grid.post_box and isinstance(grid.post_box[0][2], order)):
        grid.deliver_one()
    grid.deliver_one()
    put_back(alpha, before, newest=False)
    name = alpha.db_uuid
    grid.heal("alpha")
    grid.pass_time(20.0)
    assert alpha.db_uuid != name
    assert "older copy" in " ".join(alpha.warnings)


def test_what_a_site_said_under_a_former_name_says_nothing_of_the_new_one() -> None:
    grid = committed()
    alpha, beta = grid["alpha"], grid["beta"]
    beta.db_uuid = "db-beta-2"
    beta.restart(restored=True)
    journal_doubt.heard(alpha.engine.core, BETA, "db-beta", 10**6, b"seal")
    grid.pass_time(5.0)
    beta.restart()
    assert BETA not in alpha.engine.core.book(JournalDoubt).fell


def test_start_anew_follows_what_made_it_necessary() -> None:
    grid = committed()
    beta = grid["beta"]
    beta.boot(newest=False)
    met = Met(boot_nonce=beta.engine.core.state.boot_nonce, fell=True, evidence=own_word(beta, later=1))
    effects = beta.engine.handle(ev.Received(ALPHA, met), grid.now)
    assert [e.db_uuid for e in effects if isinstance(e, fx.StartAnew)] == [beta.engine.core.state.boot_nonce]
    assert not beta.engine.handle(ev.Received(ALPHA, ms.Commit(subgroup=PART, epoch=1, db_uuid="db-beta")), grid.now)
