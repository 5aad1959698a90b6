"""A site of the VO that lies about lost databases: what it says of this site's, and what it says that it holds of this
site's groups (PROMISES sections 2 and 5.5). The honest cases stand in `test_recovery.py` and `test_stocktaking.py`."""

from __future__ import annotations

import pytest

from diana.engine.journal import codec as lines
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holding, Holdings, Met
from diana.engine.recovery import stocktaking
from diana.engine.site import journal_doubt
from diana.engine.site.journal_doubt import JournalDoubt
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec
from tests.engine.handing import PART, committed, go_on, offered, receive, view
from tests.engine.recovery.test_recovery import unsure_at_home
from tests.engine.recovery.test_stocktaking import origin_copied, put_origin_back

ALPHA, BETA, GAMMA, MALLORY = SiteId("alpha"), SiteId("beta"), SiteId("gamma"), SiteId("mallory")
NEW = SubgroupId("alpha-1/7")
"""A part that the origin's copy does not have."""


def meet(site: Site, name: SiteId = MALLORY) -> None:
    """A first stream with that site."""
    hello = ms.Hello(
        site=name,
        protocol=1,
        release="t",
        capabilities=(),
        db_uuid=f"db-{name}",
        generation=1,
        boot_nonce=f"{name}1",
        seq=1,
        term=0,
        data_address="",
    )
    site.handle(ev.PeerUp(hello))


def say_it_fell(site: Site, sender: SiteId) -> bool:
    """Whether the site starts anew at that word."""
    met = Met(boot_nonce=site.engine.core.state.boot_nonce, fell=True)
    effects = site.engine.handle(ev.Received(sender, met), site.grid.now)
    assert bool(site.engine.core.book(JournalDoubt).fallen) == any(isinstance(e, fx.StartAnew) for e in effects)
    site.run([e for e in effects if not isinstance(e, fx.StartAnew)])
    return bool(site.engine.core.book(JournalDoubt).fallen)


def run_on(grid: Grid, seconds: int = 100) -> None:
    for _ in range(seconds // 5):
        for site in grid.sites.values():
            site.end()
        grid.pass_time(5.0)


# --- a fall that was none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sender", [ALPHA, MALLORY])
def test_no_word_of_a_peer_counts_against_the_mark_that_shows_the_newest_journal(sender: SiteId) -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.restart()
    meet(beta)
    assert not say_it_fell(beta, sender)
    assert f"{sender} says that it knows a later state" in beta.warnings[-1]


def test_a_site_that_lies_so_stops_its_own_jobs_and_nobody_elses() -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=2, gamma=0)
    beta = grid["beta"]
    for name in ("alpha", "gamma"):
        grid[name].submit(spec(6, work_s=10.0, sites=("beta",)), 6)
    beta.submit(spec(6, work_s=10.0, sites=("beta",)), 6, 2)
    beta.boot()
    beta.lrm_ready()
    grid.post_box.clear()
    assert not say_it_fell(beta, GAMMA)
    core = beta.engine.core
    why = {custody.origin: journal_doubt.stays(core, custody) for custody in core.state.custodies.values()}
    assert why[ALPHA] == why[BETA] == ""
    assert "gamma says that it knows a later state" in why[GAMMA] and "diana site go-on gamma" in why[GAMMA]
    run_on(grid)
    assert len(grid["alpha"].group("alpha-1").done) == len(beta.group("beta-1").done) == 6
    assert len(grid["gamma"].group("gamma-1").done) < 6
    assert go_on(beta, "gamma") == Ok(1)
    assert not say_it_fell(beta, GAMMA)
    run_on(grid)
    assert len(grid["gamma"].group("gamma-1").done) == 6


def test_who_takes_back_that_it_knows_better_has_its_jobs_run() -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.boot()
    beta.lrm_ready()
    assert not say_it_fell(beta, ALPHA)
    assert beta.engine.core.book(JournalDoubt).denied_by == {ALPHA}
    grid.part("alpha")
    grid.heal("alpha")
    run_on(grid)
    assert view(grid).done == 20


def test_a_site_that_found_this_boots_journal_whole_cannot_deny_it_afterwards() -> None:
    grid = committed(jobs=20)
    assert not say_it_fell(grid["beta"], ALPHA)
    run_on(grid)
    assert view(grid).done == 20


def test_whom_a_doubtful_journal_does_not_know_cannot_have_it_renamed_and_it_waits_for_an_operator() -> None:
    """It may have been met since the copy was made, so this site shows that it waits, for longer than it does for those
    that are silent."""
    grid, alpha = unsure_at_home(20)
    started = len(alpha.started)
    meet(alpha)
    assert not say_it_fell(alpha, MALLORY)
    grid.heal("alpha")
    grid.pass_time(3 * journal_doubt.PATIENCE_S)
    assert len(alpha.started) == started
    assert "waits for a word of mallory" in journal_doubt.waiting_for(alpha.engine.core)
    assert go_on(alpha, "mallory") == Ok(1)
    assert len(alpha.started) > started


def test_a_journal_that_knew_no_peer_when_it_was_copied_waits_for_an_operator_too() -> None:
    grid = Grid(alpha=2, beta=0)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=50.0, sites=("alpha",)), 20)
    grid.part("alpha")
    alpha.stored = [one for one in alpha.stored if not isinstance(lines.decode(one), records.PeerSeen)]
    alpha.running.clear()
    alpha.boot(newest=False)
    meet(alpha, BETA)
    assert not say_it_fell(alpha, BETA)
    started = len(alpha.started)
    alpha.lrm_ready()
    assert len(alpha.started) == started
    assert go_on(alpha, "beta") == Ok(1)
    assert len(alpha.started) > started


def test_a_doubtful_journal_believes_whom_it_knows() -> None:
    _, alpha = unsure_at_home()
    assert say_it_fell(alpha, BETA)


def test_a_site_that_was_restored_is_not_made_to_start_anew_again_and_again() -> None:
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    assert not say_it_fell(alpha, BETA)


# --- holdings that are none ----------------------------------------------------------------------------------------


def tell(site: Site, sender: SiteId, *rows: Holding) -> None:
    receive(site, sender, Holdings(db_uuid=f"db-{sender}", seq=9, part=0, parts=1, rows=rows))


def every(jobs: int = 4) -> IndexSet:
    return IndexSet.span(0, jobs)


def restored(when: type = records.CommitAcked) -> tuple[Grid, Site]:
    """Alpha, put back as it was before its first record of that kind, when beta has all four jobs; nobody has told."""
    grid, copy = origin_copied(when)
    return grid, put_origin_back(grid, copy)


def test_a_site_that_asked_nobody_takes_no_stock() -> None:
    grid = committed()
    alpha = grid["alpha"]
    tell(alpha, BETA, Holding(subgroup=NEW, epoch=2, open=every()))
    assert list(alpha.group("alpha-1").subgroups) == [PART]


def test_whom_a_copy_does_not_know_takes_nothing_over_and_is_named_to_the_user() -> None:
    grid, alpha = restored()
    meet(alpha)
    tell(alpha, MALLORY, Holding(subgroup=NEW, epoch=2, open=every()))
    assert [s.site for s in alpha.group("alpha-1").subgroups.values()] == [BETA]
    grid.heal("alpha")
    assert "mallory, which this site's database does not know, says that it has jobs of it" in view(grid).note
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    run_on(grid)
    assert view(grid).done == 4


def test_whom_a_copy_does_not_know_is_named_again_after_the_next_start() -> None:
    grid, alpha = restored()
    for _ in range(2):
        meet(alpha)
        grid.heal("alpha")
        tell(alpha, MALLORY, Holding(subgroup=NEW, epoch=2, open=every()))
        assert "mallory" in view(grid).note
        alpha.boot()


def test_whom_a_copy_does_not_know_tells_of_parts_that_the_journal_has_at_it() -> None:
    """A journal that was lost as a whole knows no peer, and what it gives out since is in it."""
    grid = Grid(alpha=1, beta=4)
    alpha = put_origin_back(grid, [])
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid.fate = None
    grid.pass_time(60.0)
    (group,) = alpha.engine.core.state.groups.values()
    assert alpha.engine.core.state.reported == {BETA: True}
    run_on(grid)
    assert len(group.done) == 4


@pytest.mark.parametrize("epoch", [10**6, 2**63 - 1, stocktaking.MOST_SINCE + 4 + 2])
def test_an_epoch_that_no_origin_came_to_since_the_copy_is_refused(epoch: int) -> None:
    """Beyond the last of them nothing could ever be offered again."""
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=epoch, open=every()))
    group = alpha.group("alpha-1")
    assert [s.site for s in group.subgroups.values()] == [BETA]
    assert group.epoch == 1


@pytest.mark.parametrize("dropped", [True, False])
def test_the_number_of_a_part_is_bounded_as_its_epoch_is(dropped: bool) -> None:
    _, alpha = restored()
    row = Holding(
        subgroup=SubgroupId(f"alpha-1/{2**62}"), epoch=2, dropped=dropped, open=IndexSet() if dropped else every()
    )
    tell(alpha, GAMMA, row)
    assert alpha.group("alpha-1").next_number == 1


def test_the_number_of_an_order_is_bounded_as_an_epoch_is() -> None:
    """The next one could not be said."""
    _, alpha = restored()
    tell(alpha, BETA, Holding(subgroup=PART, epoch=1, open=every(), control_seq=2**63 - 1))
    assert alpha.group("alpha-1").subgroups[PART].control_seq == 0


def test_a_part_of_the_same_epoch_as_one_that_is_known_takes_none_of_its_jobs() -> None:
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=1, open=every()))
    group = alpha.group("alpha-1")
    assert {part: s.indices for part, s in group.subgroups.items()} == {PART: every()}


@pytest.mark.parametrize("epoch", [1, 2, 10**6])
def test_a_part_that_the_copy_knows_at_one_site_is_not_told_of_by_another(epoch: int) -> None:
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=PART, epoch=epoch, open=every()))
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert (part.site, part.epoch, part.unreachable != "") == (BETA, 1, True)


def test_a_part_that_came_back_from_one_site_is_not_told_of_by_another() -> None:
    grid = offered(alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    while not isinstance(grid.post_box[0][2], ms.Prepared):
        grid.deliver_one()
    grid.post_box.clear()
    receive(alpha, "beta", ms.Refused(subgroup=PART, epoch=1, reason="full"))
    assert PART in alpha.group("alpha-1").past
    alpha = put_origin_back(grid, list(alpha.stored))
    tell(alpha, GAMMA, Holding(subgroup=PART, epoch=1, open=every()))
    assert PART not in alpha.group("alpha-1").subgroups


@pytest.mark.parametrize("how", ["open", "revoked"])
def test_a_job_that_is_done_is_nobodys_to_do_again(how: str) -> None:
    grid, _ = origin_copied(records.CommitAcked)
    grid["beta"].end(3)
    grid.pass_time(5.0)
    assert view(grid).done == 3
    alpha = put_origin_back(grid, list(grid["alpha"].stored))
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=2, **{how: every()}))  # type: ignore[arg-type]
    assert view(grid).done == 3
    group = alpha.group("alpha-1")
    done = group.done.within(every())
    assert all(s.indices.isdisjoint(done) for s in group.subgroups.values() if s.subgroup == NEW)


def test_of_a_group_submitted_since_the_copy_no_part_is_unknown() -> None:
    grid, alpha = restored()
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4, 2)
    (name,) = alpha.engine.core.state.groups.keys() - {"alpha-1"}
    tell(alpha, GAMMA, Holding(subgroup=SubgroupId(f"{name}/7"), epoch=2, open=every()))
    assert not any(s.site == GAMMA for s in alpha.group(name).subgroups.values())


def test_a_failed_job_that_was_tried_again_since_the_copy_is_its_new_sites() -> None:
    """The honest case beside that of the done ones."""
    grid, _ = origin_copied(records.CommitAcked)
    while not view(grid).final:
        grid["beta"].end(outcome=Outcome.FAILED)
        grid.pass_time(5.0)
    alpha = put_origin_back(grid, list(grid["alpha"].stored))
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=2, open=every()))
    assert alpha.group("alpha-1").subgroups[NEW].indices == every()
