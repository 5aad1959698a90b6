"""Late binding among sites of ill will: what one says of its reservations, and what it calls for, costs others a
bounded part of their turns and jobs."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import turns
from diana.engine.dispatch.turns import ANSWER_S, BACKDATED_S, LAND_S, MISSES, MOST_NEWS, MOST_VAIN, TURN_ORIGINS, Turns
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.placement.pull_back import MOST_LOOKS, UNBEGUN_S
from diana.engine.queue.entries import QueueEntry
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Post
from tests.engine.builders import BOB, spec
from tests.engine.dispatch.test_late_binding import LONG_S, NAME, grid, long_group, reservation, run_out, unbound
from tests.engine.handing import receive

NEVER = 1 << 62
LONG_AGO_S = -1e9
DAYS_S = 1e6


def honest(**settings: object) -> Grid:
    """Alpha has no slots, and its users' jobs wait for those of beta; gamma is of ill will."""
    return Grid({"binding": "late", **settings}, alpha=0, beta=2, gamma=0)


def beside_days(made: Grid) -> None:
    """Let beta have a job that ends next, and one that runs for days."""
    made["alpha"].submit(spec(1, work_s=LONG_S), 1, who=BOB)
    made["alpha"].submit(spec(1, work_s=DAYS_S), 1)
    made.pass_time(5.0)
    assert len(made["beta"].running) == 2


def crowd(made: Grid, groups: int, **changes: object) -> None:
    """Let gamma reserve for so many groups at beta, each of another user."""
    for number in range(1, groups + 1):
        told = {"share": 1, "jobs": 1, "submitted_s": LONG_AGO_S, "owner": f"eve{number}@vo", **changes}
        receive(made["beta"], "gamma", reservation(group=GroupId(f"gamma-{number}"), **told))


def standing(made: Grid, group: str) -> QueueEntry | None:
    return made["beta"].engine.core.queues.entries.get((SubgroupId(group), 0))


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": NEVER},
        {"gpus": 9},
        {"processors": 3},
        {"software": ("module nowhere/1",)},
        {"jobs": 10**12},
    ],
    ids=str,
)
def test_reservations_that_never_fit_keep_no_turn_from_others(changes: dict[str, object]) -> None:
    """The last is of jobs beyond what the site queues."""
    made = honest(memory_bytes=2**33)
    crowd(made, 100, **changes)
    made["alpha"].submit(spec(4, work_s=LONG_S), 4)
    made.pass_time(5.0)
    assert len(made["beta"].running) == 2
    run_out(made, "beta", 2)
    assert len(made["beta"].running) == 2


def test_a_reservation_that_no_machine_could_run_stands_in_no_queue_until_one_can() -> None:
    made = honest()
    beside_days(made)
    crowd(made, 1, processors=4)
    made.pass_time(1.0)
    beta = made["beta"]
    one = beta.engine.core.book(Turns).reserved[GroupId("gamma-1")]
    assert standing(made, "gamma-1") is None and not one.last_call
    beta.handle(ev.LrmReady(worker="m1", session=1, slots=4, known=()))
    made.pass_time(1.0)
    assert one.last_call


def test_a_machine_that_changes_again_and_again_has_few_reservations_looked_at_anew_and_each_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MOST_JUDGED", 8)
    made = honest(memory_bytes=2**33)
    beta, book = made["beta"], made["beta"].engine.core.book(Turns)
    crowd(made, 64, memory_bytes=NEVER)
    made.pass_time(30.0)
    looked_at: list[str] = []
    unfit = turns._is_unfit
    monkeypatch.setattr(turns, "_is_unfit", lambda core, one: looked_at.append(one.told.group) or unfit(core, one))
    for number in range(40):
        beta.handle(ev.LrmReady(worker="m1", session=1, slots=3 + number % 2, known=()))
    assert len(looked_at) <= 8
    for _ in range(16):
        made.pass_time(turns.SOON_S)
        beta.handle(ev.LrmReady(worker="m1", session=1, slots=3 + len(looked_at) % 2, known=()))
    every = {f"gamma-{number}" for number in range(1, 65)}
    assert set(looked_at) == every and len(book.unfit) == 64
    # As soon as may be, though nothing else happens.
    looked_at.clear()
    beta.handle(ev.LrmReady(worker="m1", session=1, slots=6, known=()))
    made.pass_time(9 * turns.SOON_S)
    assert set(looked_at) == every


@pytest.mark.parametrize("groups", [1, MISSES, turns.LOOKS + 1])
def test_wide_jobs_said_to_wait_since_long_ago_keep_no_processor_from_others(groups: int) -> None:
    """They stand first, and there is room for one when both slots are free."""
    made = honest()
    beside_days(made)
    crowd(made, groups, processors=2, work_s=LONG_S)
    made["alpha"].submit(spec(1, work_s=LONG_S), 1, who=BOB)
    made.pass_time(1.0)
    made["beta"].end(1)
    made.settle()
    made.pass_time(2.0)
    assert {run.subgroup for run in made["beta"].running} == {"alpha-2/0", "alpha-3/0"}


def test_each_origin_is_looked_at_in_turn_however_many_there_are() -> None:
    """Of other origins, whose reservations no look comes to in order of priority."""
    made = honest()
    beta = made["beta"]
    made["alpha"].submit(spec(2, work_s=LONG_S), 2)
    made.pass_time(5.0)
    crowd(made, MISSES, processors=2, work_s=LONG_S)
    names = [f"s{number}" for number in range(3 * TURN_ORIGINS)]
    for name in names:
        receive(beta, name, reservation(group=GroupId(f"{name}-1"), processors=2, work_s=LONG_S, owner="bob@vo"))
    core, seen = beta.engine.core, set[str]()
    made.pass_time(1.0)
    for _ in range(3):
        found = turns._in_turn(core, {SiteId("gamma")}, ())
        assert len(found) == TURN_ORIGINS
        seen |= {entry.origin for entry in found}
    assert seen == set(names)


def test_an_origin_that_says_very_much_is_heeded_a_few_times_a_second_and_all_it_said_is_heard() -> None:
    made = honest()
    beside_days(made)
    core = made["beta"].engine.core
    for seq in range(1, 3 * MOST_NEWS):
        for number in (1, 2):
            told = {"share": 1, "jobs": 1, "processors": 2, "seq": seq, "owner": f"eve{seq}@vo"}
            receive(made["beta"], "gamma", reservation(group=GroupId(f"gamma-{number}"), **told))
    before = core.book(Turns).changes
    assert before <= MOST_NEWS
    made.pass_time(1.0)
    one = standing(made, "gamma-2")
    assert one is not None and one.user == f"eve{3 * MOST_NEWS - 1}@vo"
    assert core.book(Turns).changes <= before + 4


def test_waiting_counts_from_an_hour_before_the_first_word_at_most() -> None:
    made = honest()
    beside_days(made)
    made.pass_time(2 * BACKDATED_S)
    first_s = made.now
    crowd(made, 1)
    made.pass_time(1.0)
    receive(made["beta"], "gamma", reservation(seq=2, share=1, jobs=1, submitted_s=LONG_AGO_S))
    made.pass_time(1.0)
    entry = standing(made, "gamma-1")
    assert entry is not None and entry.submitted_s == first_s - BACKDATED_S


def test_what_an_origin_says_of_its_groups_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_BYTES_OF_ONE", 1 << 20)
    made = honest()
    beta = made["beta"]
    crowd(made, 100, urls=tuple(f"https://host/{'x' * 2000}{number}" for number in range(60)))
    book = beta.engine.core.book(Turns)
    part = book.of_origin[SiteId("gamma")]
    assert part.weight <= 1 << 20 and len(book.reserved) == len(part.groups) < 9 and beta.warnings
    receive(beta, "gamma", reservation(seq=9, urls=()))
    assert not book.reserved[GroupId("gamma-1")].told.urls, "a lighter word is taken in"
    for name in list(book.reserved):
        receive(beta, "gamma", reservation(group=name, seq=10, jobs=0, share=0))
    assert not book.of_origin


def test_an_origin_that_offers_a_job_now_and_then_keeps_no_room_for_the_rest_of_its_calls() -> None:
    """Its users stand before all others; of each call for both slots it gives nothing, or, now and then, one job."""
    made = Grid({"binding": "late", "quotas": {"eve@vo": 1000.0}}, alpha=0, beta=2, gamma=0)
    beta, number = made["beta"], 0

    def note(grid: Grid, _: int, post: Post) -> str:
        nonlocal number
        if post[1] != SiteId("gamma") or not isinstance(post[2], TurnCall):
            return "deliver"
        number += 1
        told = word(number + 1, post[2].call)
        grid.post_box.append((SiteId("gamma"), SiteId("beta"), told))
        if number % 3 == 0:
            made["gamma"].submit(spec(1, work_s=1.0, sites=("beta",), bind="early"), 1, settle=False)
        return "lose"

    def word(seq: int, called: int) -> Reserve:
        return reservation(
            group=GroupId("gamma-999"), seq=seq, called=called, jobs=1000, share=1_000_000, work_s=LONG_S
        )

    made.fate = note
    receive(beta, "gamma", word(1, 0))
    for _ in range(60):
        made.pass_time(1.0)
        beta.end()
        made.settle()
    core = beta.engine.core
    assert turns._in_vain(core, SiteId("gamma")) and turns._coming(core) == (0, 0.0)
    made["alpha"].submit(spec(40, work_s=1.0), 40)
    for _ in range(30):
        made.pass_time(1.0)
        beta.end()
        made.settle()
    assert made["alpha"].group(NAME).state == "done" and number


def test_work_that_is_offered_and_never_committed_keeps_no_processor_idle() -> None:
    """Gamma goes on offering, and says no more of what it offered."""
    made = honest()
    made.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Commit) and post[0] == "gamma" else "deliver"
    for number in range(4 * MOST_VAIN):
        made["gamma"].submit(spec(2, work_s=LONG_S, sites=("beta",), bind="early"), 2, 50 + number)
        if number == 2 * MOST_VAIN:
            made["alpha"].submit(spec(4, work_s=LONG_S), 4)
        made.pass_time(LAND_S / 2)
    assert {run.subgroup for run in made["beta"].running} == {"alpha-1/0"} and len(made["beta"].running) == 2
    made.fate = None
    for _ in range(20):
        run_out(made, "beta", 2)
    assert made.all_final()
    core = made["beta"].engine.core
    turns._coming(core)
    assert not turns._in_vain(core, SiteId("gamma")), "what it committed at last speaks for it"


@pytest.mark.parametrize("answer", ["none", "withdrawn", "aborted"])
def test_an_origin_is_kept_no_room_however_it_leaves_it_unused(answer: str) -> None:
    """It answers no call and reserves again, withdraws what was called, or takes back what it offered."""
    made = Grid({"binding": "late", "quotas": {"eve@vo": 1000.0}}, alpha=0, beta=2, gamma=0)
    beta, core = made["beta"], made["beta"].engine.core
    lost = ms.Prepared if answer == "aborted" else TurnCall
    made.fate = lambda _, __, post: "lose" if "gamma" in post[:2] and isinstance(post[2], lost) else "deliver"
    kept = 0
    for seq in range(1, 120):
        number = seq if answer == "withdrawn" else 1
        group = GroupId(f"gamma-{number}")
        if answer == "aborted":
            made["gamma"].submit(spec(2, work_s=LONG_S, sites=("beta",), bind="early"), 2, seq, settle=False)
            made.pass_time(LAND_S - 1.0)
        else:
            receive(beta, "gamma", reservation(group=group, seq=2 * seq, jobs=2, share=2000, work_s=LONG_S))
            made.pass_time(ANSWER_S + 1.0 if answer == "none" else 2.0)
        kept += bool(turns._coming(core)[0])
        if answer == "aborted":
            made["gamma"].cancel(f"gamma-{seq}")
        if answer == "withdrawn":
            receive(beta, "gamma", reservation(group=group, seq=2 * seq + 1, jobs=0, share=0))
    assert kept < 40
    made.fate = None
    made["alpha"].submit(spec(2, work_s=LONG_S), 2)
    made.pass_time(ANSWER_S)
    assert {run.subgroup for run in made["beta"].running} == {"alpha-1/0"}


def test_an_honest_origin_that_loses_races_for_its_jobs_is_no_liar() -> None:
    """Ten sites call for each of its jobs, and one is first: the others are told so at once."""
    made = honest()
    core = made["beta"].engine.core
    made.fate = lambda _, __, post: "lose" if post[1] == "gamma" and isinstance(post[2], TurnCall) else "deliver"
    for number in range(1, 200):
        group = GroupId(f"gamma-{number}")
        receive(made["beta"], "gamma", reservation(group=group, seq=2 * number, jobs=2, share=2000, work_s=LONG_S))
        made.pass_time(0.05)
        receive(made["beta"], "gamma", reservation(group=group, seq=2 * number + 1, jobs=0, share=0))
    made.pass_time(LAND_S)
    assert not turns._in_vain(core, SiteId("gamma"))


# --- calls -----------------------------------------------------------------------------------------------------


def test_a_site_that_calls_for_everything_gets_what_its_quote_bears() -> None:
    made = long_group(jobs=60, alpha=2, beta=2, gamma=2)
    before = unbound(made)
    for number in range(20):
        receive(made["alpha"], "beta", TurnCall(group=NAME, call=(1 << 60) + number, jobs=10**12))
        made.settle()
    there = made["alpha"].engine.core.parties.open_at(NAME, SiteId("beta"))
    assert there == before - unbound(made) + 2 <= 10
    made.finish(rounds=400)
    assert set(made.claims().values()) == {1} and len(made.claims()) == 60


def test_a_site_that_ends_as_many_as_it_begins_keeps_what_waits_there() -> None:
    """As many run at each look, in parts of their own, and some wait behind them."""
    made = Grid({"binding": "late", "migration": "off"}, alpha=1, beta=2)
    made["alpha"].submit(spec(60, work_s=LONG_S), 60)
    calls = 1 << 60
    for _ in range(2 * MOST_LOOKS):
        receive(made["alpha"], "beta", TurnCall(group=NAME, call=(calls := calls + 1), jobs=2))
        made.settle()
        for _ in range(2):
            made.pass_time(UNBEGUN_S / 2)
            made["beta"].end(1)
            made.settle()
    moves = [one for one in made["alpha"].records(r.JobsMoved) if "began none" in one.why]
    assert not moves and made["alpha"].group(NAME).finished() >= 2 * MOST_LOOKS


@pytest.mark.parametrize(
    "lie", [{"run_mean_s": 5e-324, "runs_seen": 9}, {"run_s": 1e-309}, {"speed": 1.7e308}], ids=str
)
def test_a_quote_of_jobs_that_take_no_time_is_borne(lie: dict[str, float]) -> None:
    made = grid(alpha=0, beta=2, gamma=2)

    def note(grid: Grid, _: int, post: Post) -> str:
        if post[0] == "gamma" and isinstance(post[2], ms.Quote) and not lied:
            lied.append(post[2])
            grid.post_box.append((post[0], post[1], msgspec.structs.replace(post[2], **lie)))
            return "lose"
        return "deliver"

    lied: list[ms.Quote] = []
    made.fate = note
    made["alpha"].submit(spec(40, work_s=LONG_S), 40)
    made.pass_time(1.0)
    receive(made["alpha"], "gamma", TurnCall(group=NAME, call=1 << 60, jobs=10**12))
    made.settle()
    assert lied and made["alpha"].group(NAME).jobs == 40


def test_jobs_at_a_site_that_lost_its_disk_keep_it_from_no_others() -> None:
    made = long_group(jobs=60, alpha=2, beta=2)
    core = made["alpha"].engine.core
    for part in made["alpha"].group(NAME).subgroups.values():
        if part.site == "beta":
            part.unreachable, part.indices = "it lost its disk", IndexSet.span(30, 60)
            core.parties._look_at(part.subgroup)
    core.state.groups[NAME].unplaced = IndexSet.span(4, 30)
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1 << 60, jobs=2))
    made.settle()
    assert core.parties.open_at(NAME, SiteId("beta")) == 32


def test_jobs_that_a_site_calls_and_never_begins_come_back_though_all_others_are_busy() -> None:
    made = long_group(jobs=10, alpha=1, beta=0, gamma=1)
    waiting = unbound(made)
    receive(made["alpha"], "gamma", TurnCall(group=NAME, call=1 << 60, jobs=10**12))
    made.settle()
    assert unbound(made) < waiting and len(made["gamma"].running) == 1
    made.pass_time((MOST_LOOKS - 1) * UNBEGUN_S)
    made.settle()
    assert unbound(made) < waiting
    made.pass_time(3 * UNBEGUN_S)
    made.settle()
    assert made["alpha"].engine.core.parties.open_at(NAME, SiteId("gamma")) == 1, "the one that it runs"
