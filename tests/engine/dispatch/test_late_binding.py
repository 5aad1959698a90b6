"""Late binding: jobs that cannot start at once stay at their origin and wait for their turn at several sites; the site
whose turn comes calls for them, and the origin's commit alone binds them (PROMISES section 2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import turns
from diana.engine.dispatch.turns import ANSWER_S, LAND_S, MISSES, MOST_UNANSWERED, Turns
from diana.engine.guard import guard
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.placement.pull_back import UNBEGUN_S
from diana.engine.placement.reservations import Reservations
from diana.engine.queue.entries import WHOLE
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import CheckpointSpec, InputFile, Resources
from diana.model.maintenance import Window
from diana.model.views.views import GroupView, Ok
from diana.policy.allocation.ahead import Lookout, Outlook, Rolls
from diana.policy.binding.horizon import CHUNKS
from tests.engine.bench import Grid, Post
from tests.engine.builders import ALICE, BOB, OPERATOR, dataset, spec, whole
from tests.engine.handing import receive
from tests.engine.handover.test_handover_faults import FAULTS, one_fault

NAME = GroupId("alpha-1")
LONG_S = 100.0


def grid(**slots: int) -> Grid:
    return Grid({"binding": "late"}, **(slots or {"alpha": 2, "beta": 2}))


def long_group(jobs: int = 10, **slots: int) -> Grid:
    made = grid(**slots)
    made["alpha"].submit(spec(jobs, work_s=LONG_S), jobs)
    return made


def unbound(made: Grid) -> int:
    return len(made["alpha"].group(NAME).unplaced)


def view(made: Grid) -> GroupView:
    seen = made["alpha"].ask("group", NAME)
    assert isinstance(seen, GroupView)
    return seen


def reserved_at(made: Grid, site: str) -> int:
    one = made[site].engine.core.book(Turns).reserved.get(NAME)
    return one.told.jobs if one is not None else 0


def run_out(made: Grid, site: str, jobs: int) -> None:
    """Let jobs of the site end after their time."""
    made.pass_time(LONG_S)
    made[site].end(jobs)
    made.settle()


def counted(made: Grid, user: str = ALICE.name) -> float:
    """The user's queued jobs over all sites."""
    return sum(site.engine.core.queues.classes.sizes.queued_thousandths for site in made.sites.values()) / WHOLE


# --- turns ---------------------------------------------------------------------------------------------------


def test_only_jobs_that_start_at_once_are_bound() -> None:
    made = long_group()
    assert [len(site.running) for site in made.sites.values()] == [2, 2]
    assert unbound(made) == 6
    assert view(made).note == "wait for their turn at alpha, beta"


def test_a_site_that_comes_free_calls_for_the_next_job() -> None:
    made = long_group()
    before = unbound(made)
    run_out(made, "beta", 1)
    assert len(made["beta"].began) == 3
    assert unbound(made) < before


def test_a_new_program_begins_at_each_site_as_far_as_its_guard_lets_it_and_the_rest_waits_unbound() -> None:
    made = grid(alpha=50, beta=50)
    made["alpha"].submit(spec(100, work_s=LONG_S), 100)
    made.settle()
    assert [len(site.running) for site in made.sites.values()] == [10, 10]
    assert unbound(made) == 80
    for _ in range(8):
        made.pass_time(2.0)
    assert [len(site.running) for site in made.sites.values()] == [30, 30], "the first ran long enough by now"
    assert unbound(made) == 40
    made.finish()
    assert set(made.claims().values()) == {1} and len(made.claims()) == 100


def test_a_program_that_did_well_at_a_site_fills_it_at_once() -> None:
    made = grid(alpha=50, beta=50)
    made["alpha"].submit(spec(60, work_s=LONG_S), 60)
    made.finish()
    before = {name: len(site.began) for name, site in made.sites.items()}
    made["alpha"].submit(spec(60, work_s=LONG_S), 60, 2)
    made.settle()
    assert sum(len(site.began) - before[name] for name, site in made.sites.items()) == 60


def test_a_site_that_calls_is_handed_jobs_whose_data_it_has() -> None:
    made = grid(alpha=1, beta=1)
    made["beta"].handle(ev.AddDataset(request=9, principal=OPERATOR, dataset=dataset("d", *"012345678")))
    made.pass_time(3.0)
    here = IndexSet.span(12, 20)
    inputs = (InputFile(source="dataset:d", path="d"),)
    wanted = msgspec.structs.replace(spec(20, work_s=LONG_S), inputs=inputs)
    made["alpha"].submit(wanted, 20, refs=(("dataset:d", here),))
    assert unbound(made) == 18
    for _ in range(4):
        run_out(made, "beta", 1)
    assert {run.index for run in made["beta"].began} <= set(here)
    for _ in range(4):
        run_out(made, "alpha", 1)
    assert not {run.index for run in made["alpha"].began} & set(here)


def reading_group(size_bytes: int) -> Grid:
    """Two jobs that read data of beta, where both processors are busy for `LONG_S` yet; alpha is idle."""
    made = grid(alpha=2, beta=2)
    made["beta"].handle(ev.AddDataset(request=9, principal=OPERATOR, dataset=dataset("d", "f", size_bytes=size_bytes)))
    made.pass_time(3.0)
    made["beta"].submit(msgspec.structs.replace(spec(2, work_s=LONG_S), sites=("beta",)), 2, 5, who=BOB)
    wanted = msgspec.structs.replace(
        spec(2, work_s=LONG_S), inputs=(InputFile(source="dataset:d", path="d"),), bind="late"
    )
    made["alpha"].submit(wanted, 2, refs=(("dataset:d", whole(2)),))
    return made


def test_jobs_wait_for_their_turn_where_their_data_lie_and_not_at_a_site_that_fetches_for_longer() -> None:
    made = reading_group(10_000_000_000)
    assert unbound(made) == 2
    assert view(made).note == "wait for their turn at beta"
    run_out(made, "beta", 2)
    assert len(made["beta"].running) == 2


def test_where_fetching_is_short_an_idle_site_is_handed_them_at_once() -> None:
    made = reading_group(1_000)
    assert unbound(made) == 0
    assert len(made["alpha"].running) == 2


def test_a_group_that_waited_for_its_data_as_long_as_fetching_takes_waits_no_longer_for_them() -> None:
    made = reading_group(2_000_000_000)
    rows = made["alpha"].engine.core.book(Reservations).groups[NAME].told.candidates
    fetch_s = next(row.stage_in_s for row in rows if row.site == "alpha")
    assert LONG_S < fetch_s < 10 * LONG_S
    for _ in range(int(fetch_s / 10.0) + 7):
        made.pass_time(10.0)
    assert len(made["alpha"].running) == 2


def test_all_jobs_run_once_and_the_waiting_is_over_with_them() -> None:
    made = long_group(jobs=30)
    made.finish()
    assert set(made.claims().values()) == {1} and len(made.claims()) == 30
    assert not any(site.engine.core.book(Turns).reserved for site in made.sites.values())
    assert not made["alpha"].engine.core.book(Reservations).groups
    assert made["alpha"].engine.core.waiting_notes == {}


def test_a_fast_site_gets_more_than_a_slow_one() -> None:
    made = long_group(jobs=24)
    while not made.all_final():
        run_out(made, "beta", 2)
        run_out(made, "beta", 2)
        made["alpha"].end(2)
        made.settle()
    share = {site.name: len(site.started) for site in made.sites.values()}
    assert share["beta"] > share["alpha"]


def test_the_sites_priority_says_whose_turn_it_is() -> None:
    """Bob queues one job, Alice twenty: the next processor is Bob's, though Alice waited before him."""
    made = long_group(jobs=24)
    made["alpha"].submit(spec(1, work_s=LONG_S), 1, who=BOB)
    assert len(made["alpha"].group("alpha-2").unplaced) == 1
    run_out(made, "beta", 1)
    assert not made["alpha"].group("alpha-2").unplaced


def test_no_job_counts_more_than_once_over_the_sites() -> None:
    made = long_group(jobs=34, alpha=2, beta=2, gamma=4)
    waiting = unbound(made)
    assert waiting == 34 - 8
    assert waiting - 1 <= counted(made) <= waiting


def test_a_wide_job_gets_its_place_though_narrow_ones_wait_too() -> None:
    made = long_group(jobs=40, alpha=0, beta=4)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1, who=BOB)
    for _ in range(12):
        run_out(made, "beta", 1)
    assert any(run.subgroup.startswith("alpha-2/") for run in made["beta"].started)


def test_a_site_with_a_full_call_of_a_large_group_calls_for_no_more_of_it() -> None:
    """Committed jobs beyond the job threshold stand before those that are still to be called."""
    made = grid()
    made["alpha"].submit(spec(1_000_000, work_s=4.0), 1_000_000)
    for _ in range(4):
        made.pass_time(4.0)
        made["beta"].end(2)
        made.settle()
    here = sum(len(part.indices) for part in made["alpha"].group(NAME).subgroups.values() if part.site == "beta")
    assert 10_000 < here <= 2 * 1_000_000 // CHUNKS // 2


# --- who binds at once -----------------------------------------------------------------------------------------


def test_a_group_may_ask_to_be_bound_at_once() -> None:
    made = grid()
    made["alpha"].submit(spec(10, work_s=LONG_S, bind="early"), 10)
    assert unbound(made) == 0


def test_where_no_site_takes_reservations_all_is_bound_at_once() -> None:
    made = Grid({}, alpha=0, beta=2)
    made["alpha"].submit(spec(10, work_s=LONG_S, bind="late"), 10)
    assert unbound(made) == 0


def test_a_drained_origin_binds_what_waits() -> None:
    made = long_group()
    made["alpha"].handle(ev.DrainSite(request=5, principal=OPERATOR, on=True, reason="mending"))
    made.settle()
    assert unbound(made) == 0
    assert not made["beta"].engine.core.book(Turns).reserved


def test_a_drained_site_calls_for_nothing() -> None:
    made = long_group()
    made["beta"].handle(ev.DrainSite(request=5, principal=OPERATOR, on=True, reason="mending"))
    made.settle()
    run_out(made, "beta", 2)
    assert not made["beta"].running and len(made["beta"].started) == 2


def test_jobs_that_a_site_calls_and_does_not_begin_go_to_one_that_is_idle_and_it_gets_no_more_for_a_while() -> None:
    """A site that offers its surplus would lose them sooner: this one says nothing."""
    made = Grid({"binding": "late", "migration": "off"}, alpha=2, beta=2)
    made["alpha"].submit(spec(10, work_s=LONG_S), 10)
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1 << 60, jobs=6))
    made.settle()
    assert unbound(made) == 0 and len(made["beta"].running) == 2, "six wait behind two"
    run_out(made, "alpha", 2)
    assert not made["alpha"].running
    made.pass_time(UNBEGUN_S + 30.0)
    made.settle()
    assert len(made["alpha"].running) == 2 and unbound(made) == 4
    assert view(made).note == "wait for their turn at alpha"
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=(1 << 60) + 1, jobs=4))
    made.settle()
    assert unbound(made) == 4
    made.finish(rounds=400)
    assert set(made.claims().values()) == {1} and len(made.claims()) == 10


def test_jobs_that_a_site_calls_and_begins_late_stay_there_while_no_other_is_idle() -> None:
    made = long_group()
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1 << 60, jobs=6))
    made.settle()
    made.pass_time(3 * UNBEGUN_S)
    made.settle()
    assert unbound(made) == 0 and len(made["alpha"].running) == 2


# --- what users order --------------------------------------------------------------------------------------------


def test_held_and_cancelled_jobs_are_not_called() -> None:
    made = long_group()
    assert isinstance(made["alpha"].hold(NAME), Ok)
    made.settle()
    assert reserved_at(made, "beta") == 0
    run_out(made, "beta", 2)
    assert not made["beta"].running
    made["alpha"].release_jobs(NAME)
    made.settle()
    assert len(made["beta"].running) == 2
    made["alpha"].cancel(NAME)
    made.settle()
    assert reserved_at(made, "alpha") == reserved_at(made, "beta") == 0


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [1, 2, 5])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [Reserve, TurnCall, ms.Prepare, ms.Commit, ms.Quote], ids=lambda kind: kind.__name__)
def test_any_message_may_be_lost_doubled_late_or_end_in_a_crash(kind: type, fault: str, which: int) -> None:
    made = grid()
    made.fate = one_fault(kind, fault, which)
    made["alpha"].submit(spec(12, work_s=LONG_S), 12)
    made.finish(rounds=400)
    assert set(made.claims().values()) == {1} and len(made.claims()) == 12


@pytest.mark.parametrize("who", ["alpha", "beta"])
def test_a_restart_of_origin_or_site_takes_the_waiting_up_again(who: str) -> None:
    made = long_group()
    made[who].restart()
    made.settle()
    assert unbound(made) == 6 and reserved_at(made, "beta") == 6
    made.finish()
    assert set(made.claims().values()) == {1} and len(made.claims()) == 10


def test_while_the_origin_is_away_its_unbound_jobs_wait_and_others_take_the_processors() -> None:
    made = long_group()
    made.part("alpha")
    assert not made["beta"].engine.core.book(Turns).reserved
    made["beta"].submit(spec(4, work_s=LONG_S), 4)
    run_out(made, "beta", 2)
    assert sum(run.subgroup.startswith("beta-1/") for run in made["beta"].running) == 2
    made.heal("alpha")
    made.finish()
    assert set(made.claims().values()) == {1}


def test_a_site_that_was_not_answered_asks_no_more() -> None:
    made = long_group()
    calls: list[TurnCall] = []

    def lost(_: Grid, __: int, post: Post) -> str:
        if not isinstance(post[2], TurnCall):
            return "deliver"
        calls.append(post[2])
        return "lose"

    made.fate = lost
    run_out(made, "beta", 2)
    made.pass_time((MOST_UNANSWERED + 2) * (ANSWER_S + 5.0))
    assert len(calls) == MOST_UNANSWERED
    made.fate = None
    made.finish(rounds=400)
    assert set(made.claims().values()) == {1}


def test_a_site_that_lost_its_disk_and_counts_its_calls_anew_is_heard() -> None:
    made = long_group(jobs=40)
    run_out(made, "beta", 2)
    before = len(made["beta"].started)
    made.part("beta")
    assert not any("beta" in told for told in made["alpha"].engine.core.book(Reservations).told.values())
    made.heal("beta")
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1, jobs=1))
    made.settle()
    assert unbound(made) < 40 - before


def test_a_site_that_refused_is_not_asked_to_call_again_at_once() -> None:
    """Else both would talk without end."""
    made = long_group(jobs=40)
    alpha = made["alpha"]
    alpha.engine.core.view.avoid(NAME, SiteId("beta"), made.now + 1000.0, "no")
    waiting = unbound(made)
    receive(alpha, "beta", TurnCall(group=NAME, call=1 << 60, jobs=1))
    made.settle()
    assert unbound(made) == waiting and reserved_at(made, "beta") == 0


# --- lies ---------------------------------------------------------------------------------------------------------


def reservation(**changes: object) -> Reserve:
    told = Reserve(
        group=GroupId("gamma-1"),
        seq=1,
        jobs=5,
        share=5000,
        called=0,
        processors=1,
        submitted_s=0.0,
        stage_s=0.0,
        owner="eve@vo",
        work_s=10.0,
    )
    return msgspec.structs.replace(told, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"group": GroupId("beta-9")},
        {"jobs": -1},
        {"share": -1},
        {"share": 5001},
        {"processors": 0},
        {"stage_s": float("inf")},
        {"stage_s": -1.0},
        {"begins_before_s": float("nan")},
        {"begins_before_s": -1.0},
        {"gpus": -1},
        {"memory_bytes": -1},
        {"memory_bytes": 2**62 + 1},
        {"scratch_bytes": 2**63 - 1},
        {"group_bytes": -1},
        {"group_work_s": float("nan")},
        {"time_limit_s": float("inf")},
        {"submitted_s": float("-inf")},
    ],
    ids=str,
)
def test_a_reservation_that_is_anothers_or_makes_no_sense_changes_nothing(changes: dict[str, object]) -> None:
    made = grid(alpha=1, gamma=1)
    alpha = made["alpha"]
    receive(alpha, "gamma", reservation(**changes))
    assert not alpha.engine.core.book(Turns).reserved and alpha.warnings


def test_an_older_word_does_not_replace_a_newer_one() -> None:
    made = grid(alpha=0, gamma=1)
    receive(made["alpha"], "gamma", reservation(seq=7, jobs=3, share=3000))
    receive(made["alpha"], "gamma", reservation(seq=6))
    assert made["alpha"].engine.core.book(Turns).reserved[GroupId("gamma-1")].told.jobs == 3
    receive(made["alpha"], "gamma", reservation(seq=8, jobs=0, share=0))
    assert not made["alpha"].engine.core.book(Turns).reserved


def test_a_call_gets_what_waits_there_and_no_more_and_once() -> None:
    made = long_group(jobs=40, alpha=2, beta=2, gamma=2)
    alpha = made["alpha"]
    waiting = unbound(made)
    calls: list[TurnCall] = []

    def note(_: Grid, __: int, post: Post) -> str:
        calls.extend([post[2]] if isinstance(post[2], TurnCall) else [])
        return "deliver"

    made.fate = note
    run_out(made, "beta", 1)
    assert 0 < unbound(made) < waiting
    waiting, call = unbound(made), calls[0]
    receive(alpha, "beta", call)
    made.settle()
    assert unbound(made) == waiting
    receive(alpha, "beta", TurnCall(group=NAME, call=1 << 60, jobs=3))
    made.settle()
    assert unbound(made) == waiting - 3


def test_a_call_from_a_site_that_was_told_nothing_gets_nothing() -> None:
    made = grid(alpha=2, beta=2, gamma=2)
    made["alpha"].submit(spec(10, work_s=LONG_S, sites=("alpha", "beta")), 10)
    before = unbound(made)
    receive(made["alpha"], "gamma", TurnCall(group=NAME, call=1 << 60, jobs=3))
    receive(made["alpha"], "gamma", TurnCall(group=GroupId("alpha-77"), call=1 << 60, jobs=3))
    made.settle()
    assert unbound(made) == before == len(whole(10)) - 4


def word_of_eve(seq: int, called: int = 0, **changes: object) -> Reserve:
    return reservation(seq=seq, called=called, jobs=1000, share=1_000_000, work_s=LONG_S, **changes)


def lie_on(made: Grid, seconds: int, **changes: object) -> int:
    """Gamma answers every call of beta at once, with a reservation and no jobs, for so long. Return the calls."""
    calls: list[TurnCall] = []

    def note(grid: Grid, _: int, post: Post) -> str:
        if post[1] == SiteId("gamma") and isinstance(post[2], TurnCall):
            calls.append(post[2])
            told = word_of_eve(len(calls) + 1, post[2].call, **changes)
            grid.post_box.append((SiteId("gamma"), SiteId("beta"), told))
            return "lose"
        return "deliver"

    made.fate = note
    receive(made["beta"], "gamma", word_of_eve(1, **changes))
    for _ in range(seconds):
        made.pass_time(1.0)
    return len(calls)


@pytest.mark.parametrize("stage_s", [0.0, 365 * 86400.0])
def test_an_origin_that_is_called_and_never_offers_holds_nobody_up(stage_s: float) -> None:
    """Though its user stands before all others, and though it says that its inputs take a year."""
    favour: dict[str, object] = {"binding": "late", "quotas": {"eve@vo": 1000.0}}
    made = Grid(favour, alpha=0, beta=2, gamma=0)
    calls = lie_on(made, 120, stage_s=stage_s)
    assert 0 < calls < 40
    made["alpha"].submit(spec(4, work_s=LONG_S), 4)
    for _ in range(20):
        made.pass_time(1.0)
    assert len(made["beta"].running) == 2


def test_room_for_calls_whose_answer_is_late_is_free_after_seconds() -> None:
    made = long_group()
    made.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Prepare) else "deliver"
    run_out(made, "beta", 1)
    book = made["beta"].engine.core.book(Turns)
    made.pass_time(LAND_S + 6.0)
    assert all(one.until_s <= made.now + LAND_S for some in book.coming.values() for one in some)


def test_an_origin_waits_at_a_site_with_so_many_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_OF_ONE", 3)
    made = grid(alpha=0, gamma=1)
    alpha = made["alpha"]
    for number in range(1, 6):
        receive(alpha, "gamma", reservation(group=GroupId(f"gamma-{number}")))
    assert len(alpha.engine.core.book(Turns).reserved) == 3 and "no more are taken in" in alpha.warnings[-1]
    receive(alpha, "gamma", reservation(group=GroupId("gamma-1"), seq=2, jobs=0, share=0))
    receive(alpha, "gamma", reservation(group=GroupId("gamma-5"), seq=3))
    assert GroupId("gamma-5") in alpha.engine.core.book(Turns).reserved


# --- a stop in good order --------------------------------------------------------------------------------------


def test_an_origin_that_is_about_to_stop_binds_what_waits() -> None:
    made = long_group()
    alpha = made["alpha"].engine
    assert unbound(made) == 6 and alpha.is_binding()
    made["alpha"].handle(ev.BindAll())
    made.settle()
    assert not unbound(made) and not alpha.is_binding()
    assert not reserved_at(made, "alpha") and not reserved_at(made, "beta")
    # Nor does what comes now wait for a turn that nobody would answer.
    made["alpha"].submit(spec(10, work_s=LONG_S), 10)
    assert not made["alpha"].group("alpha-2").unplaced


def test_a_sites_own_calls_leave_nothing_that_is_still_to_come() -> None:
    made = long_group(jobs=12)
    for _ in range(2):
        run_out(made, "alpha", 2)
    assert unbound(made) and len(made["alpha"].running) == 2
    assert not made["alpha"].engine.core.book(Turns).coming


def test_ends_of_parts_do_not_price_a_waiting_group_anew() -> None:
    made = long_group()
    made["alpha"].trace.clear()
    for site in made.sites.values():
        made.pass_time(5.0)
        site.end(2)
        made.settle()
    assert not [p for p in made["alpha"].trace if isinstance(p, fx.Send) and isinstance(p.message, ms.QuoteRequest)]


def test_the_decision_says_which_jobs_start_now_and_prices_the_whole() -> None:
    made = long_group()
    decision = made["alpha"].group(NAME).decisions[0]
    assert decision.reason == "4 jobs of 10 can start now, at 2 sites; the others wait for their turn"
    assert sum(part.jobs for part in decision.parts) == 4
    assert {row.site: row.run_s for row in decision.candidates} == {"alpha": 5 * LONG_S, "beta": 5 * LONG_S}


def test_a_group_of_which_nothing_can_start_keeps_its_prices_with_the_first_call() -> None:
    made = long_group()
    made["alpha"].submit(spec(3, work_s=LONG_S), 3)
    assert not made["alpha"].group("alpha-2").decisions
    for _ in range(6):
        for site in list(made.sites):
            run_out(made, site, 2)
    first = made["alpha"].group("alpha-2").decisions[0]
    assert first.reason.startswith("their turn came at ") and len(first.candidates) == 2


def test_a_call_says_which_sites_fail_the_group_though_its_prices_were_kept_before() -> None:
    made = long_group(jobs=20, alpha=2, beta=2)
    alpha = made["alpha"]
    run_out(made, "alpha", 2)
    core, group = alpha.engine.core, alpha.group(NAME)
    guard.shun(core, group, SiteId("beta"), "3 jobs failed at once", core.now + 10 * LONG_S)
    # The group is not priced anew before the next call.
    core.to_place.clear()
    for _ in range(3):
        run_out(made, "alpha", 2)
    last = alpha.group(NAME).decisions[-1]
    assert last.reason == "their turn came at alpha (beta fails them fast: 3 jobs failed at once)"
    assert not last.candidates


def test_a_plan_where_nobody_takes_reservations_foretells_an_end() -> None:
    """The origin has no slots, and its peer binds early, as sites of 0.1.0 do."""
    made = grid(alpha=0, beta=2)
    beta = made["beta"]
    beta.settings = msgspec.structs.replace(beta.settings, binding="early")
    beta.restart()
    made.settle()
    made["alpha"].submit(spec(10, work_s=LONG_S), 10, request=7, plan_only=True)
    made.pass_time(5.0)
    made_decision = made["alpha"].replies[7]
    assert isinstance(made_decision, fx.DecisionMade) and made_decision.decision.expected_s > 0
    made["alpha"].submit(spec(10, work_s=LONG_S), 10)
    assert not unbound(made)


def test_an_offer_that_nobody_answers_holds_up_no_stop() -> None:
    made = grid()
    made.fate = lambda grid, number, post: "lose" if isinstance(post[2], ms.Prepare) else "deliver"
    made["alpha"].submit(spec(4, work_s=LONG_S), 4)
    alpha = made["alpha"].engine
    assert any(part.step is Step.OFFERED for part in made["alpha"].group(NAME).subgroups.values())
    assert not unbound(made) and not alpha.is_binding()


# --- a look ahead --------------------------------------------------------------------------------------------------


def test_a_group_is_looked_at_once_however_often_what_waits_is_priced_anew() -> None:
    made = grid()
    seen: list[int] = []

    def look(lookout: Lookout) -> Outlook:
        seen.append(lookout.jobs)
        return Outlook(tuple(Rolls(way.name, (1.0,)) for way in lookout.alternatives), events=1)

    alpha = made["alpha"]
    alpha.engine.look_ahead_by(look)
    alpha.submit(spec(20, work_s=LONG_S), 20)
    made.settle()
    core = alpha.engine.core
    for _ in range(2):
        guard.shun(core, alpha.group(NAME), SiteId("beta"), "3 jobs failed at once", core.now + LONG_S)
        assert NAME in core.to_place
        run_out(made, "alpha", 2)
        made.pass_time(2 * LONG_S)
    assert not core.to_place and seen == [20]


# --- windows of maintenance ----------------------------------------------------------------------------------


def closing(made: Grid, site: str, from_s: float, to_s: float = 9000.0) -> None:
    now = made[site].engine.core.now
    window = Window(from_wall_s=now + from_s, to_wall_s=now + to_s, reason="new switches")
    made[site].handle(ev.CalendarTold(windows=(window,), wall_ahead_s=0.0))
    made.settle()


def test_jobs_that_would_outlast_the_site_are_not_bound_to_it_and_run_where_others_come_free() -> None:
    made = grid(alpha=4, beta=4)
    made["beta"].submit(spec(4, work_s=30.0, sites=("beta",)), 4)
    closing(made, "alpha", 3600.0)
    made["alpha"].submit(spec(4, work_s=4000.0), 4, 2)
    made.settle()
    assert unbound(made) == 4 and not made["alpha"].running
    made.pass_time(30.0)
    made["beta"].end(4)
    made.settle()
    assert len(made["beta"].running) == 4 and not unbound(made)


@pytest.mark.parametrize(("limit_s", "begin"), [(60.0, 2), (68.0, 2), (71.0, 0), (4000.0, 0)])
def test_a_site_calls_for_what_ends_before_it_closes_by_its_time_limit_and_for_nothing_else(
    limit_s: float, begin: int
) -> None:
    made = grid(alpha=2, beta=2)
    closing(made, "alpha", 50.0)
    closing(made, "beta", 100.0)
    made["beta"].submit(spec(2, work_s=30.0, sites=("beta",)), 2)
    limited = msgspec.structs.replace(spec(6), resources=Resources(work_s=10.0, time_limit_s=limit_s))
    made["alpha"].submit(limited, 6)
    made.pass_time(30.0)
    made["beta"].end(2)
    made.settle()
    assert (len(made["alpha"].began), len(made["beta"].began) - 2) == (0, begin)
    assert unbound(made) == 6 - begin


def beside_a_busy_site(slots: int) -> Grid:
    """Beta has one slot, and it is taken for long."""
    made = grid(alpha=slots, beta=1)
    made["beta"].submit(spec(1, work_s=1e6, sites=("beta",)), 1)
    made.settle()
    return made


def test_a_job_that_saves_its_state_is_called_though_the_site_closes_before_it_ends() -> None:
    made = beside_a_busy_site(1)
    closing(made, "alpha", 3600.0)
    saves = CheckpointSpec(paths=("state",), wait_s=5.0)
    made["alpha"].submit(spec(1, work_s=30.0), 1)
    made["alpha"].submit(spec(1, work_s=4000.0), 1)
    made["alpha"].submit(msgspec.structs.replace(spec(1, work_s=4000.0), checkpoint=saves), 1)
    made.pass_time(30.0)
    made["alpha"].end(1)
    made.settle()
    assert [run.subgroup for run in made["alpha"].began] == ["alpha-1/0", "alpha-3/0"]


def test_groups_that_would_outlast_the_site_hold_up_nobody_behind_them() -> None:
    made = beside_a_busy_site(1)
    closing(made, "alpha", 3600.0)
    made["alpha"].submit(spec(1, work_s=30.0), 1)
    for _ in range(MISSES + 1):
        made["alpha"].submit(spec(1, work_s=4000.0), 1)
    made.pass_time(10.0)
    made["alpha"].submit(spec(1, work_s=20.0), 1)
    made.pass_time(20.0)
    made["alpha"].end(1)
    made.settle()
    assert [run.subgroup for run in made["alpha"].began] == ["alpha-1/0", f"alpha-{MISSES + 3}/0"]


def test_no_more_of_a_large_group_is_called_than_begins_before_the_site_closes() -> None:
    made = beside_a_busy_site(2)
    closing(made, "alpha", 45.0)
    jobs = 20 * CHUNKS
    limited = msgspec.structs.replace(spec(jobs), resources=Resources(work_s=20.0, time_limit_s=20.0))
    made["alpha"].submit(limited, jobs)
    for _ in range(2):
        made.pass_time(20.0)
        made["alpha"].end(2)
        made.settle()
    assert len(made["alpha"].began) == 4 and unbound(made) == jobs - 4


def test_a_wide_job_gets_no_place_where_it_would_begin_too_late_to_end_before_the_site_closes() -> None:
    made = grid(alpha=2, beta=2)
    made["beta"].submit(spec(2, work_s=1e6, sites=("beta",)), 2)
    wide = msgspec.structs.replace(spec(1), resources=Resources(processors=2, work_s=50.0))
    made["alpha"].submit(spec(2, work_s=500.0, sites=("alpha",)), 2)
    made["alpha"].submit(wide, 1)
    made.pass_time(400.0)
    closing(made, "alpha", 140.0)
    made.pass_time(75.0)
    assert len(made["alpha"].group("alpha-2").unplaced) == 1


@pytest.mark.parametrize(("run_s", "called"), [(50.0, 1), (70.0, 0)])
def test_jobs_whose_inputs_take_long_are_not_called_to_begin_too_late(run_s: float, called: int) -> None:
    """The one slot comes free in 40 s, and the site closes in 100 s."""
    made = grid(alpha=1, beta=1, gamma=1)
    beta = made["beta"]
    beta.submit(spec(1, work_s=40.0, sites=("beta",)), 1)
    closing(made, "beta", 100.0)
    receive(beta, "gamma", reservation(jobs=1, share=1000, stage_s=60.0, work_s=run_s))
    made.pass_time(1.0)
    assert len(beta.engine.core.book(Turns).calling) == called


def test_a_window_of_one_machine_keeps_no_job_from_the_others() -> None:
    made = grid(alpha=2)
    now = made["alpha"].engine.core.now
    window = Window(from_wall_s=now + 50.0, to_wall_s=now + 500.0, machines=("m1",))
    made["alpha"].handle(ev.CalendarTold(windows=(window,), wall_ahead_s=0.0))
    made["alpha"].submit(spec(3, work_s=LONG_S), 3)
    made.settle()
    assert len(made["alpha"].running) == 2
