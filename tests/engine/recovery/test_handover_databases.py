"""Databases that are lost, or put back from an older copy, are noticed before anything runs twice (PROMISES 1.7)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import codec, records
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec
from tests.engine.handing import PART, committed, offered, receive, view

# --- lost and restored databases ---------------------------------------------------------------------------------


def lose_database(site: Site) -> None:
    site.stored.clear()
    site.facts.clear()
    site.running.clear()
    site.db_uuid += "-new"


def test_a_site_with_a_new_database_makes_what_was_committed_there_unreachable() -> None:
    grid = committed()
    beta = grid["beta"]
    beta.end(1)
    grid.settle()
    lose_database(beta)
    beta.restart()
    grid.pass_time(100.0)
    seen = view(grid)
    assert seen.state == "unreachable"
    assert (seen.done, seen.unreachable, seen.unplaced) == (1, 3, 0)
    assert "beta has another database" in seen.note
    assert len(beta.started) == 4, "nothing was started again"
    assert not seen.final


def test_a_lost_database_found_out_by_a_commit_shows_too() -> None:
    """No new stream told of it: COMMIT is answered LOST."""
    grid = offered()
    for _ in range(2):
        grid.deliver_one()
    beta = grid["beta"]
    lose_database(beta)
    beta.boot()
    grid.settle()
    assert "beta lost its database" in view(grid).note
    assert view(grid).unreachable == 4


def test_a_commit_for_another_database_makes_nothing_runnable() -> None:
    """A database that was put back from a backup knows the offer, but is not the database that prepared it."""
    grid = offered()
    for _ in range(2):
        grid.deliver_one()
    beta = grid["beta"]
    beta.db_uuid = "db-beta-restored"
    beta.boot(restored=True)
    beta.lrm_ready()
    grid.settle()
    assert beta.started == []
    assert view(grid).unreachable == 4


def test_an_offer_to_a_site_that_lost_its_database_goes_elsewhere() -> None:
    grid = Grid(alpha=1, beta=4, gamma=4)
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta", "gamma")), 4, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepared):
        grid.deliver_one()
    lose_database(grid["beta"])
    grid["beta"].restart()
    grid.finish()
    assert set(grid.claims().values()) == {1}


def booted_from_a_copy(site: Site, copy: list[bytes]) -> None:
    """The site's machine died; an older copy of its database was put back and started, alone at first."""
    site.grid.cut.add(site.name)
    site.stored = list(copy)
    site.running.clear()
    site.boot()


def check_noticed(grid: Grid) -> None:
    grid["beta"].lrm_ready()
    grid.heal("beta")
    grid.pass_time(60.0)
    assert "beta came back with an older database" in view(grid).note
    assert view(grid).unreachable == 4
    assert not view(grid).final


def check_noticed_before_a_start(grid: Grid) -> None:
    started = len(grid["beta"].started)
    check_noticed(grid)
    assert len(grid["beta"].started) == started


@pytest.mark.parametrize("behind", [1, 0])
def test_an_older_copy_of_a_database_is_noticed_before_its_first_start(behind: int) -> None:
    """A falling generation, or a known generation with another nonce: the copy booted to it once more."""
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"]
    if behind:
        beta.restart()
    copy = list(beta.stored[: -len(beta.stored)])
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    booted_from_a_copy(beta, copy)
    check_noticed_before_a_start(grid)


def test_an_older_copy_that_booted_more_often_than_its_peers_saw_is_noticed() -> None:
    """Its generation is new to them, but its journal is shorter than the one that took the work."""
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"]
    copy = list(beta.stored)
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid["alpha"].restart()
    booted_from_a_copy(beta, copy)
    check_noticed_before_a_start(grid)


def test_a_copy_made_after_the_work_was_taken_but_before_it_started_is_noticed() -> None:
    """A site's last word on its journal counts, not only its word when it last booted."""
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    copy = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    assert len(copy) < len(beta.stored)
    grid.pass_time(30.0)
    booted_from_a_copy(beta, copy)
    check_noticed(grid)


@pytest.mark.parametrize("lost", [(records.RunsStarted,), (records.RunsStarted, records.CustodyRunnable)], ids=len)
def test_what_the_spawner_claimed_is_not_started_again_from_a_copy_that_does_not_know_of_it(
    lost: tuple[type, ...],
) -> None:
    """The journal alone was put back; the claims say what has started, and that it was committed."""
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid.cut.add(beta.name)
    beta.stored = [stored for stored in beta.stored if not isinstance(codec.decode(stored), lost)]
    beta.boot()
    beta.lrm_ready()
    grid.heal("beta")
    grid.pass_time(60.0)
    assert len(beta.started) == 4 == len(beta.running)
    beta.end()
    grid.pass_time(5.0)
    assert view(grid).done == 4 == len(beta.started)


def test_a_site_with_an_older_database_is_heard_again_and_gets_work() -> None:
    """Its summaries count from a lower generation than those it gave before."""
    grid = Grid(alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    for _ in range(3):
        beta.restart()
    grid.pass_time(30.0)
    lose_database(beta)
    beta.restart()
    grid.pass_time(30.0)
    told = alpha.engine.core.view.peers[SiteId("beta")].summary
    assert told is not None and told.generation == 1
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    assert len(beta.started) == 4


def test_a_commit_is_not_repeated_to_a_database_nobody_trusts() -> None:
    grid = offered()
    alpha, beta = grid["alpha"], grid["beta"]
    for _ in range(2):
        grid.deliver_one()
    grid.post_box.clear()
    hello = msgspec.structs.replace(beta.hello(), generation=0)
    alpha.handle(ev.PeerUp(hello))
    grid.post_box.clear()
    receive(alpha, "beta", ms.Prepared(subgroup=PART, epoch=1, db_uuid=beta.db_uuid, seq=9))
    assert not grid.post_box
    grid.pass_time(60.0)
    assert beta.started == []


def test_another_database_is_another_also_when_it_booted_more_often() -> None:
    grid = committed()
    other = msgspec.structs.replace(grid["beta"].hello(), db_uuid="db-other", generation=99)
    grid["alpha"].handle(ev.PeerUp(other))
    assert view(grid).unreachable == 4


def test_an_ordinary_restart_of_a_peer_raises_no_suspicion() -> None:
    grid = committed()
    for _ in range(3):
        grid["beta"].restart()
        grid.settle()
    assert view(grid).unreachable == 0
    grid.finish()
    assert view(grid).done == 4
