"""Leases: on_site_lost = "rerun" places work anew once its site has surely ended it (PROMISES 1.7 and section 2)."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from diana.engine.dispatch.lease_book import LeaseBook
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.records import PartDisowned
from diana.engine.journal.state import decode_state, encode_state
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.views.answers import group_view
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Post
from tests.engine.builders import spec, whole

LEASE_S = 20.0
WAIT_S = 1.1 * LEASE_S + 30.0
NAME = GroupId("alpha-1")


def at_beta(jobs: int = 6, *, lost: Literal["hold", "rerun"] = "rerun", beta: int = 2, gamma: int = 8) -> Grid:
    """Committed to beta, where as many run as it has slots; gamma comes into play when beta is lost."""
    grid = Grid({"lease_s": LEASE_S, "claim_ahead": 1, "migration": "off"}, alpha=0, beta=beta, gamma=gamma)
    grid["gamma"].handle(ev.RoomChecked(low="not yet"))
    grid.pass_time(2.0)
    grid["alpha"].submit(spec(jobs, work_s=500.0, not_sites=("alpha",), on_site_lost=lost), jobs)
    grid.pass_time(1.0)
    assert [s.site for s in grid["alpha"].group("alpha-1").subgroups.values()] == ["beta"]
    grid["gamma"].handle(ev.RoomChecked(low=""))
    grid.pass_time(2.0)
    return grid


def sent(kind: type, grid: Grid) -> list[Post]:
    """Collects what of this kind is sent from now on."""
    found: list[Post] = []

    def fate(_: Grid, __: int, letter: Post) -> str:
        if isinstance(letter[2], kind):
            found.append(letter)
        return "deliver"

    grid.fate = fate
    return found


def lease_ends(grid: Grid, site: str = "beta") -> None:
    """End the runs as the spawner does by itself when the lease is over."""
    grid[site].end(outcome=Outcome.LEASE_OVER)


def lost_and_placed_anew(grid: Grid) -> None:
    grid.part("beta")
    grid.pass_time(LEASE_S)
    lease_ends(grid)
    grid.pass_time(WAIT_S - LEASE_S + 5.0)


def sites(grid: Grid) -> dict[str, int]:
    parts = grid["alpha"].group("alpha-1").subgroups.values()
    return {s.site: len(s.indices) for s in parts if s.open_jobs()}


def test_nothing_starts_before_the_first_lease_is_granted() -> None:
    grid = Grid({"lease_s": LEASE_S}, alpha=0, beta=2)
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], lm.Renewed) else "deliver"
    grid["alpha"].submit(spec(4, work_s=500.0, sites=("beta",), on_site_lost="rerun"), 4)
    grid.pass_time(5.0)
    assert not grid["beta"].started
    grid.fate = None
    grid.pass_time(20.0)
    assert len(grid["beta"].running) == 2


def test_a_start_names_the_lease_and_its_end_was_told_before_it() -> None:
    grid = at_beta()
    trace = grid["beta"].trace
    lease = next(at for at, e in enumerate(trace) if isinstance(e, fx.RenewLease))
    start = next(at for at, e in enumerate(trace) if isinstance(e, fx.Start))
    assert lease < start
    told, begun = trace[lease], trace[start]
    assert isinstance(told, fx.RenewLease) and isinstance(begun, fx.Start)
    assert (told.origin, begun.lease) == ("alpha", "alpha")
    assert told.until_s <= grid.now + LEASE_S


def test_work_of_groups_that_hold_asks_for_no_lease() -> None:
    grid = at_beta(lost="hold")
    found = sent(lm.Renew, grid)
    grid.pass_time(3 * LEASE_S)
    assert not found
    assert all(start.lease == "" for start in grid["beta"].running.values())
    grid.part("beta")
    grid.pass_time(4 * WAIT_S)
    assert sites(grid) == {"beta": 6}
    assert grid["alpha"].ask("group", "alpha-1").state == "unreachable"  # type: ignore[attr-defined]


def test_one_renewal_a_turn_speaks_for_all_groups_of_a_pair_of_sites() -> None:
    grid = at_beta()
    for request in range(2, 12):
        grid["alpha"].submit(spec(50, work_s=500.0, sites=("beta",), on_site_lost="rerun"), 50, request)
    grid.pass_time(LEASE_S)
    found = sent(lm.Renew, grid)
    grid.pass_time(10 * LEASE_S)
    # One every quarter of a lease.
    assert 35 <= len(found) <= 41
    assert {(sender, to) for sender, to, _ in found} == {("beta", "alpha")}


def test_the_lease_counts_from_sending_however_late_the_answer_is() -> None:
    grid = at_beta()
    beta = grid["beta"]
    grid.part("beta")
    grid.pass_time(7.0)
    core = beta.engine.core
    until_s = core.book(LeaseBook).until[SiteId("alpha")]
    late = lm.Renewed(generation=beta.engine.generation, sent_s=grid.now - 5.0, lease_s=LEASE_S)
    beta.handle(ev.Received(SiteId("alpha"), late))
    assert core.book(LeaseBook).until[SiteId("alpha")] == max(until_s, grid.now - 5.0 + LEASE_S)
    of_another_boot = lm.Renewed(generation=beta.engine.generation - 1, sent_s=grid.now, lease_s=LEASE_S)
    beta.handle(ev.Received(SiteId("alpha"), of_another_boot))
    from_the_future = lm.Renewed(generation=beta.engine.generation, sent_s=grid.now + 9.0, lease_s=LEASE_S)
    beta.handle(ev.Received(SiteId("alpha"), from_the_future))
    assert core.book(LeaseBook).until[SiteId("alpha")] == max(until_s, grid.now - 5.0 + LEASE_S)


def test_past_its_lease_a_site_starts_nothing_and_tries_again_what_ended_with_it() -> None:
    grid = at_beta()
    beta = grid["beta"]
    grid.part("beta")
    grid.pass_time(LEASE_S)
    begun = len(beta.started)
    lease_ends(grid)
    beta.lrm_ready()
    grid.pass_time(5.0)
    assert len(beta.started) == begun and not beta.running
    grid.heal("beta")
    grid.pass_time(1.0)
    assert sites(grid) == {"beta": 6}
    assert {run.attempt for run in beta.running} == {2}
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_a_silent_sites_jobs_are_placed_anew_after_a_tenth_and_half_a_minute_more_and_the_decision_says_why() -> None:
    grid = at_beta()
    grid.part("beta")
    renewed_s = grid.now
    grid.pass_time(WAIT_S - 6.0)
    assert sites(grid) == {"beta": 6}
    note = group_view(grid["alpha"].engine.core, grid["alpha"].group("alpha-1")).note
    assert "its jobs there end with their lease of 20 s and are placed anew in" in note
    lease_ends(grid)
    grid.pass_time(renewed_s + WAIT_S + 3.0 - grid.now)
    assert sites(grid) == {"gamma": 6}
    reason = grid["alpha"].group("alpha-1").decisions[-1].reason
    assert reason.startswith("moved (beta was silent for its lease of 20 s and 32 s more: on_site_lost = rerun)")


def test_the_lost_site_comes_back_and_its_results_are_put_aside() -> None:
    grid = at_beta()
    grid.part("beta")
    grid.pass_time(3.0)
    grid["beta"].end(1)
    lost_and_placed_anew(grid)
    assert sites(grid) == {"gamma": 6}
    renewals = sent(lm.Renewed, grid)
    grid.heal("beta")
    grid.pass_time(30.0)
    alpha, group = grid["alpha"], grid["alpha"].group("alpha-1")
    assert group.stale_results == 6
    assert not grid["beta"].engine.core.state.custodies
    assert not alpha.engine.core.state.disowned
    assert all(to != "beta" for _, to, _ in renewals)
    grid.finish()
    assert (len(group.done), group.state) == (6, "done")
    assert grid["beta"].engine.core.state.tombstones


def test_results_accepted_before_stay_and_only_the_rest_runs_again() -> None:
    grid = at_beta()
    grid["beta"].end(2)
    grid.pass_time(1.0)
    lost_and_placed_anew(grid)
    assert sites(grid) == {"gamma": 4}
    grid.heal("beta")
    grid.pass_time(30.0)
    group = grid["alpha"].group("alpha-1")
    assert (len(group.done), group.stale_results) == (2, 4)
    assert not grid["beta"].engine.core.state.custodies
    assert {run.attempt for run in grid["gamma"].running} == {2}
    grid.finish()
    assert (len(group.done), group.state) == (6, "done")


def test_nothing_is_granted_to_a_site_that_may_start_what_was_placed_anew() -> None:
    grid = at_beta()
    lost_and_placed_anew(grid)
    grid.fate = lambda _, __, letter: "lose" if type(letter[2]).__name__ == "ControlAck" else "deliver"
    begun = len(grid["beta"].started)
    grid.heal("beta")
    grid["alpha"].submit(spec(3, work_s=500.0, sites=("beta",), on_site_lost="rerun"), 3, 2)
    grid.pass_time(20.0)
    assert len(grid["beta"].started) == begun
    grid.fate = None
    grid.pass_time(30.0)
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].started[begun:]} == {"alpha-2"}


def test_an_origin_that_boots_waits_the_whole_time_again() -> None:
    grid = at_beta()
    grid.part("beta")
    grid.pass_time(WAIT_S - 10.0)
    lease_ends(grid)
    grid["alpha"].restart()
    grid.pass_time(WAIT_S - 1.0)
    assert sites(grid) == {"beta": 6}
    grid.pass_time(4.0)
    assert sites(grid) == {"gamma": 6}


def test_an_origin_whose_lease_was_shortened_waits_for_the_longer_one() -> None:
    grid = at_beta()
    alpha = grid["alpha"]
    alpha.settings = msgspec.structs.replace(alpha.settings, lease_s=2.0)
    alpha.handle(ev.SettingsLoaded(settings=alpha.settings))
    grid.part("beta")
    grid.pass_time(WAIT_S - 8.0)
    assert sites(grid) == {"beta": 6}


def test_an_executing_site_that_boots_starts_nothing_before_it_is_granted_a_lease() -> None:
    grid = at_beta()
    beta = grid["beta"]
    begun = len(beta.started)
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], lm.Renewed) else "deliver"
    beta.restart()
    beta.end(1)
    grid.pass_time(5.0)
    assert len(beta.started) == begun
    grid.fate = None
    grid.pass_time(16.0)
    assert len(beta.started) > begun


def test_work_at_a_lost_database_is_placed_anew_when_its_lease_is_surely_over() -> None:
    grid = at_beta()
    beta, renewals = grid["beta"], sent(lm.Renewed, grid)
    beta.stored, beta.db_uuid, beta.facts = [], "another", {}
    beta.restart()
    grid.pass_time(1.0)
    assert grid["alpha"].ask("group", "alpha-1").state == "unreachable"  # type: ignore[attr-defined]
    renewals.clear()
    beta.running.clear()
    grid.pass_time(WAIT_S + 3.0)
    assert all(to != "beta" for _, to, _ in renewals)
    assert "beta" not in sites(grid) or grid["alpha"].group("alpha-1").epoch > 1
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_cancelled_jobs_of_a_lost_site_are_cancelled_when_they_would_be_placed_anew() -> None:
    grid = at_beta()
    grid.part("beta")
    grid["alpha"].cancel("alpha-1", whole(3))
    grid.pass_time(LEASE_S)
    lease_ends(grid)
    grid.pass_time(WAIT_S)
    group = grid["alpha"].group("alpha-1")
    assert (len(group.cancelled), sites(grid)) == (3, {"gamma": 3})


def test_an_order_is_never_said_in_two_ways_by_an_origin_that_stood_still() -> None:
    """All its timers are due at once then; what is left of the part has no orders of its own any more."""
    grid = at_beta()
    grid["beta"].end(1)
    grid.settle()
    grid.part("beta")
    lease_ends(grid)
    grid.pass_time(grid["alpha"].engine.core.book(LeaseBook).waits[SiteId("beta")] - grid.now - 0.1)
    grid["alpha"].cancel("alpha-1", IndexSet.span(4, 6))
    grid.now += 60.0
    grid["alpha"].handle(ev.Tick())
    assert list(grid["alpha"].engine.core.state.disowned) == ["beta"]
    grid["alpha"].restart()
    grid.heal("beta")
    grid.pass_time(5.0)
    said: dict[tuple[str, int], set[tuple[IndexSet, IndexSet]]] = {}
    for effect in grid["alpha"].trace:
        if isinstance(effect, fx.Send) and isinstance(effect.message, ms.Control):
            order = effect.message
            said.setdefault((order.subgroup, order.control_seq), set()).add((order.cancel, order.recall))
    assert len(said) >= 2 and all(len(ways) == 1 for ways in said.values()), said


def test_a_user_has_jobs_of_an_unreachable_site_run_elsewhere_and_the_old_copies_end_there() -> None:
    grid = at_beta(lost="hold")
    grid.part("beta")
    grid.pass_time(20.0)
    answer = grid["alpha"].retry("alpha-1")
    assert "--unreachable takes those at sites out of reach too" in answer.text  # type: ignore[attr-defined]
    answer = grid["alpha"].retry("alpha-1", whole(2), unreachable=True)
    assert "write alpha-1 alone" in answer.text  # type: ignore[attr-defined]
    assert grid["alpha"].retry("alpha-1", unreachable=True) == Ok(6)
    grid.pass_time(3.0)
    assert sites(grid) == {"gamma": 6}
    assert "asked for by alice@vo, as beta is out of reach" in grid["alpha"].group("alpha-1").decisions[-1].reason
    grid.heal("beta")
    grid["beta"].obey_kills()
    grid.pass_time(5.0)
    assert not grid["beta"].running and not grid["beta"].engine.core.state.custodies
    grid.finish()
    group = grid["alpha"].group("alpha-1")
    assert (len(group.done), group.stale_results) == (6, 6)


def test_a_reachable_site_keeps_its_jobs_when_asked_for_unreachable_ones() -> None:
    grid = at_beta(lost="hold")
    answer = grid["alpha"].retry("alpha-1", unreachable=True)
    assert "has no failed jobs to retry" in answer.text  # type: ignore[attr-defined]
    assert sites(grid) == {"beta": 6}


def test_what_was_placed_anew_is_remembered_over_a_restart_and_in_a_snapshot() -> None:
    grid = at_beta()
    lost_and_placed_anew(grid)
    alpha = grid["alpha"]
    state = alpha.engine.core.state
    assert list(state.disowned) == ["beta"]
    assert decode_state(encode_state(state)).disowned == state.disowned
    alpha.restart()
    assert isinstance(alpha.engine, Engine)
    assert list(alpha.engine.core.state.disowned) == ["beta"]
    assert {type(record) for record in alpha.records()} >= {PartDisowned}


@pytest.mark.parametrize("lease_s", [0.5, 1e6])
def test_a_lease_out_of_range_is_refused_at_birth(lease_s: float) -> None:
    with pytest.raises(ValueError, match="lease_s"):
        Settings(lease_s=lease_s)


def test_an_origin_put_back_from_a_backup_places_nothing_anew_while_it_is_on_hold() -> None:
    grid = at_beta()
    grid.part("beta")
    grid["alpha"].restart(restored=True)
    grid.pass_time(2 * WAIT_S)
    assert sites(grid) == {"beta": 6}
    assert not grid["alpha"].engine.core.state.disowned


# --- an origin that forgot ------------------------------------------------------------------------------------


def test_what_an_origin_gave_before_it_lost_its_database_starts_under_no_lease_of_the_new_one() -> None:
    """It has forgotten what it placed anew meanwhile, and gamma runs that."""
    grid = at_beta()
    alpha, beta = grid["alpha"], grid["beta"]
    lost_and_placed_anew(grid)
    assert sites(grid) == {"gamma": 6}
    alpha.stored, alpha.db_uuid = [], "db-alpha-anew"
    alpha.restart()
    grid.heal("beta")
    started = len(beta.started)
    grid.pass_time(2 * WAIT_S)
    assert len(beta.started) == started
    assert set(grid.claims().values()) <= {1, 2}


def test_what_a_restored_origin_takes_over_goes_on_under_its_lease_at_the_users_word() -> None:
    """It may have placed some of it anew at home since the copy was made."""
    grid = at_beta()
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.db_uuid = "db-alpha-restored"
    alpha.restart(restored=True)
    grid.pass_time(5.0)
    started = len(beta.started)
    beta.end(1)
    grid.pass_time(5.0)
    assert len(beta.started) == started
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.pass_time(5.0)
    assert len(beta.started) > started
    assert beta.engine.core.state.custodies[("alpha-1/0", 1)].origin_db == "db-alpha-restored"  # type: ignore[index]


def test_an_order_of_the_older_database_said_again_does_not_bring_the_lease_back() -> None:
    grid = at_beta()
    alpha, beta = grid["alpha"], grid["beta"]
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], ms.Control) else "deliver"
    alpha.hold("alpha-1", IndexSet.span(5, 6))
    alpha.db_uuid = "db-alpha-restored"
    grid.fate = None
    alpha.restart(restored=True)
    grid.pass_time(5.0)
    custody = next(iter(beta.engine.core.state.custodies.values()))
    assert custody.held == IndexSet.span(5, 6) and custody.origin_db == "db-alpha"


def test_jobs_of_a_restored_origin_that_nothing_starts_under_a_former_lease_are_shown_held() -> None:
    grid = at_beta()
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.db_uuid = "db-alpha-restored"
    alpha.restart(restored=True)
    grid.pass_time(5.0)
    while beta.running:
        beta.end()
        grid.pass_time(5.0)
    view = group_view(alpha.engine.core, alpha.group("alpha-1"))
    assert (view.state, view.queued, view.running, view.held) == ("held", 0, 0, 6 - view.done)
    assert 2 <= view.done < 6 and "diana release alpha-1" in view.note


def test_jobs_taken_from_a_lost_site_stay_taken_when_their_origin_is_put_back() -> None:
    """The order that ends them there stands: else they would come back cancelled, though no user said so."""
    grid = at_beta()
    alpha = grid["alpha"]
    grid.part("beta")
    grid.part("gamma")
    grid.pass_time(LEASE_S)
    lease_ends(grid)
    grid.pass_time(WAIT_S - LEASE_S + 5.0)
    assert alpha.group("alpha-1").unplaced == whole(6)
    alpha.db_uuid = "db-alpha-restored"
    alpha.restart(restored=True)
    grid.heal("beta")
    grid.heal("gamma")
    grid.pass_time(5.0)
    alpha.release_jobs("alpha-1")
    grid.finish()
    view = group_view(alpha.engine.core, alpha.group("alpha-1"))
    assert (view.state, view.done) == ("done", 6)


def test_a_lease_is_renewed_for_work_that_comes_after_a_renewal_found_none() -> None:
    grid = at_beta(jobs=2)
    grid["beta"].end()
    # The renewal that comes due now finds nothing to ask for; the lease stands for a while yet.
    grid.pass_time(LEASE_S / 4 + 1.0)
    grid["alpha"].submit(spec(2, work_s=500.0, sites=("beta",), on_site_lost="rerun"), 2, 2)
    grid.pass_time(2.0)
    assert len(grid["beta"].running) == 2
    found = sent(lm.Renew, grid)
    grid.pass_time(2 * LEASE_S)
    assert found, "without one, its jobs end and are placed anew"
