"""Queued work leaves a congested site for one that has it through earlier, once, and only where room is kept for it
(SPEC D7; papers/diana-bulk-scheduling sections IX, X)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import promised_capacity
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.dispatch.promised_capacity import keep
from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.events import AddDataset, Ask, Received
from diana.engine.messages import messages as ms
from diana.engine.messages import migration as mm
from diana.engine.migration import surplus
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.decision import JobClass
from diana.model.views.views import Explanation
from diana.policy.migration.plan import RAISE
from tests.engine.bench import Grid, Post
from tests.engine.builders import OPERATOR, dataset, spec
from tests.engine.handing import receive

ALPHA, BETA, GAMMA = SiteId("alpha"), SiteId("beta"), SiteId("gamma")
LONG_S = 100.0


def late(jobs: int, sites: tuple[str, ...] = (), after_s: float = 0.0, **settings: object) -> Grid:
    """A group of alpha's that waits at beta, gamma having come `after_s` later; nothing was looked at since."""
    grid = Grid(settings, alpha=1, beta=1, gamma=4)
    grid.part("gamma")
    grid["alpha"].submit(spec(jobs, work_s=LONG_S, not_sites=("alpha",), sites=sites), jobs)
    grid.pass_time(after_s)
    grid.heal("gamma")
    return grid


def placed(grid: Grid, group: str = "alpha-1") -> dict[str, IndexSet]:
    found: dict[str, IndexSet] = {}
    for part in grid["alpha"].group(group).subgroups.values():
        if part.indices:
            found[part.site] = found.get(part.site, IndexSet()) | part.indices
    return found


def claims_once(grid: Grid, jobs: int) -> None:
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(jobs)}


def test_what_waits_moves_to_a_site_that_has_it_through_earlier() -> None:
    grid = late(jobs=12)
    grid.pass_time(10.0)
    there = placed(grid)
    assert len(there["gamma"]) >= 4 and len(there["beta"]) >= 3, there
    reason = grid["alpha"].group("alpha-1").decisions[-1].reason
    assert reason.startswith("moved (gamma: beta has work that waits (") and "0 jobs ahead there" in reason, reason
    claims_once(grid, 12)


def test_a_group_that_ends_everywhere_at_once_exchanges_nothing() -> None:
    """Each of its jobs would start sooner at the other site, before the group's others there, and none would be won."""
    grid = Grid(alpha=0, beta=4, gamma=4)
    grid["alpha"].submit(spec(200, work_s=LONG_S), 200)
    before = placed(grid)
    grid.pass_time(30.0)
    assert len(before) == 2 and placed(grid) == before
    assert not [one for one in grid["alpha"].records(r.JobsMoved) if isinstance(one, r.JobsMoved) and one.exported]


def test_the_last_in_line_go_first() -> None:
    grid = late(jobs=40)
    grid.pass_time(10.0)
    there = placed(grid)
    assert max(there["beta"]) < min(there["gamma"])


def test_with_migration_off_everything_stays() -> None:
    grid = late(jobs=12, migration="off")
    grid.pass_time(20.0)
    assert list(placed(grid)) == ["beta"]


def test_nothing_moves_for_less_than_the_minimum_gain() -> None:
    grid = late(jobs=12, migration_gain_s=1e6)
    grid.pass_time(20.0)
    assert list(placed(grid)) == ["beta"]


def test_the_move_budget_bounds_how_many_start() -> None:
    grid = late(jobs=12, moves_per_minute=0.0)
    grid.pass_time(20.0)
    assert list(placed(grid)) == ["beta"]


def test_work_for_one_site_only_stays_there() -> None:
    grid = late(jobs=12, sites=("beta",))
    grid.pass_time(20.0)
    assert list(placed(grid)) == ["beta"]


def test_what_moved_never_moves_again() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1, delta=8)
    for name in ("gamma", "delta"):
        grid.part(name)
    grid["alpha"].submit(spec(20, work_s=LONG_S, not_sites=("alpha",)), 20)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(15.0)
    exported = placed(grid)["gamma"]
    assert exported
    grid.heal("delta")
    grid.pass_time(30.0)
    # What gamma had been given stays with it, though delta is idle; what had stayed with beta moves.
    there = placed(grid)
    assert there["gamma"] == exported and there["delta"]
    orders = [one for one in grid["alpha"].records(r.JobsMoved) if isinstance(one, r.JobsMoved) and one.exported]
    moves = Counter(index for one in orders for index in one.indices)
    assert max(moves.values()) == 1
    claims_once(grid, 20)


def test_what_moved_gets_no_raise_and_waits_as_what_comes_now() -> None:
    grid = late(jobs=12, after_s=7.0)
    grid.pass_time(10.0)
    gamma = grid["gamma"].engine.core
    custodies = gamma.state.custodies.values()
    assert custodies and all(one.exported and not one.raised for one in custodies)
    for entry in gamma.queues.entries.values():
        custody = gamma.state.custodies[entry.key]
        assert not entry.offset and entry.order[0] == custody.arrived_s > custody.submitted_s


def test_what_moved_keeps_its_place_among_equals_over_a_crash() -> None:
    grid = late(jobs=12)
    grid.pass_time(10.0)
    before = {key: one.arrived_s for key, one in grid["gamma"].engine.core.state.custodies.items()}
    assert before and all(before.values())
    grid["gamma"].restart()
    grid.settle()
    assert {key: one.arrived_s for key, one in grid["gamma"].engine.core.state.custodies.items()} == before


def test_paper_mode_offers_q4_only() -> None:
    grid = late(jobs=12, migration="paper")
    grid.pass_time(20.0)
    # A lone user's burst stands at Pr = 0, in Q2.
    assert list(placed(grid)) == ["beta"]


def test_work_moves_home_when_home_is_free() -> None:
    grid = Grid(alpha=4, beta=1)
    alpha = grid["alpha"]
    alpha.submit(spec(8, work_s=LONG_S, sites=("alpha",)), 8)
    alpha.submit(spec(20, work_s=LONG_S), 20)
    there = placed(grid, "alpha-2")
    assert there.get("beta"), there
    while alpha.running:
        alpha.end()
        grid.settle()
        if not any(run.subgroup.startswith("alpha-1") for run in alpha.running):
            break
    grid.pass_time(30.0)
    grid.finish()
    assert grid.claims()["alpha-2", 0] == 1
    assert all(count == 1 for count in grid.claims().values())


# --- room -------------------------------------------------------------------------------------------------------


def asked(room: int, jobs: int, gain_s: float = 50.0, **more: object) -> mm.RoomRequest:
    return mm.RoomRequest(
        room=room,
        jobs=jobs,
        gain_s=gain_s,
        processors=1,
        owner="alice@vo",
        work_s=LONG_S,
        **more,  # type: ignore[arg-type]
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(1.0, 500.0)), min_size=1, max_size=30))
def test_however_many_ask_an_idle_site_keeps_no_more_room_than_it_can_start_within_the_gain(
    wanted: list[tuple[int, float]],
) -> None:
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"].engine.core
    granted = [keep(beta, ALPHA, asked(n + 1, jobs, gain_s)).jobs for n, (jobs, gain_s) in enumerate(wanted)]
    longest_s = max(gain_s for _, gain_s in wanted)
    assert sum(granted) <= 4 + 4 * longest_s / LONG_S + 1e-9


def test_who_asks_later_with_more_to_gain_pushes_nobody_back_who_has_room() -> None:
    grid = Grid({"migration": "paper"}, alpha=1, beta=4)
    beta = grid["beta"]
    assert keep(beta.engine.core, ALPHA, asked(1, 3, gain_s=50.0)).jobs == 3
    # It could wait for the second wave, and it might stand before the three and take their slots.
    assert keep(beta.engine.core, ALPHA, asked(2, 100, gain_s=1000.0)).jobs == 1
    grid.pass_time(51.0)
    assert keep(beta.engine.core, ALPHA, asked(3, 100, gain_s=150.0)).jobs == 4


@pytest.mark.parametrize(("mode", "offset"), [("paper", RAISE), ("default", 0.0)])
def test_a_site_raises_nobody_on_a_peers_word_alone(mode: str, offset: float) -> None:
    """A peer asks for room with a raise, as one of 0.1.0 always does."""
    grid = Grid({"migration": mode}, alpha=1, beta=4)
    alpha, beta = grid["alpha"], grid["beta"].engine.core
    alpha.submit(spec(9, work_s=LONG_S, sites=("beta",)), 9)
    before = len(beta.state.custodies)
    assert keep(beta, ALPHA, asked(1, 4, gain_s=1000.0)).jobs == 4
    offer = next(e.message for e in alpha.trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Prepare))
    moved = msgspec.structs.replace(
        offer, subgroup=SubgroupId("alpha-1/9"), epoch=9, indices=IndexSet.span(5, 9), room=1, exported=True
    )
    receive(grid["beta"], ALPHA, moved)
    custody = beta.state.custodies[SubgroupId("alpha-1/9"), 9]
    assert len(beta.state.custodies) == before + 1
    assert custody.raised == bool(offset) and bool(custody.arrived_s) != custody.raised


def test_room_is_kept_until_what_came_stands_in_the_queue() -> None:
    grid = Grid(alpha=1, beta=4)
    core = grid["beta"].engine.core
    assert keep(core, ALPHA, asked(1, 4)).jobs == 4
    assert not promised_capacity.take(core, ALPHA, 1, 4, behind=True)
    assert promised_capacity.take(core, ALPHA, 1, 4, behind=False)
    promised_capacity.landing(core, SubgroupId("alpha-1/1"), 1, 4)
    assert keep(core, GAMMA, asked(2, 4)).jobs == 0
    promised_capacity.landed(core, SubgroupId("alpha-1/1"), 1)
    assert keep(core, GAMMA, asked(3, 4)).jobs == 4


def test_room_is_free_again_when_nobody_came() -> None:
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"]
    assert keep(beta.engine.core, ALPHA, asked(1, 100, gain_s=150.0)).jobs == 8
    assert keep(beta.engine.core, ALPHA, asked(2, 100)).jobs == 0
    grid.pass_time(61.0)
    assert keep(beta.engine.core, ALPHA, asked(3, 100)).jobs == 4


def test_who_claims_room_that_is_not_kept_is_refused() -> None:
    grid = late(jobs=12)
    forged: list[ms.Prepare] = []

    def forge(grid: Grid, number: int, post: Post) -> str:
        message = post[2]
        if isinstance(message, ms.Prepare) and message.room:
            forged.append(message)
            key = promised_capacity._key(ALPHA, message.room, message.behind)
            grid["gamma"].engine.core.book(PromisedCapacity).rooms.over(key)
        return "deliver"

    grid.fate = forge
    grid.pass_time(10.0)
    assert forged and not grid["gamma"].engine.core.state.custodies
    assert placed(grid).keys() == {"beta"}
    grid.fate = None
    claims_once(grid, 12)


def test_what_finds_no_room_any_more_is_placed_where_it_is_best() -> None:
    grid = late(jobs=12)

    def lose(grid: Grid, number: int, post: Post) -> str:
        if isinstance(post[2], ms.Prepare) and post[2].room:
            return "lose"
        return "deliver"

    grid.fate = lose
    grid.pass_time(30.0)
    grid.fate = None
    claims_once(grid, 12)


@pytest.mark.parametrize("kind", [mm.Surplus, mm.RoomRequest, mm.RoomGrant])
def test_what_is_lost_on_the_way_is_looked_at_again(kind: type) -> None:
    grid = late(jobs=12)
    lost = [0]

    def lose(grid: Grid, number: int, post: Post) -> str:
        if isinstance(post[2], kind) and not lost[0]:
            lost[0] += 1
            return "lose"
        return "deliver"

    grid.fate = lose
    grid.pass_time(40.0)
    assert lost[0] and placed(grid).get("gamma")
    claims_once(grid, 12)


def test_a_surplus_of_what_is_not_there_changes_nothing() -> None:
    grid = late(jobs=12, migration="off")
    alpha = grid["alpha"]
    part = next(iter(alpha.group("alpha-1").subgroups.values()))

    def told(**other: object) -> mm.Surplus:
        fields: dict[str, object] = {
            "group": "alpha-1", "parts": (part.subgroup,), "epochs": (part.epoch,), "jobs": (8,), "priority": 0.0,
            "jobs_ahead": 11, "ends_s": 1200.0, "processors_per_s": 0.01,
        }  # fmt: skip
        return mm.Surplus(groups=(mm.SurplusGroup(**fields | other),))  # type: ignore[arg-type]

    before = len(alpha.stored)
    for sender, message in (
        (GAMMA, told()),
        (BETA, told(epochs=(part.epoch + 1,))),
        (BETA, told(parts=("alpha-1/99",))),
        (BETA, told(group="beta-1")),
        (BETA, told(group="alpha-77")),
        (BETA, told(jobs=(-4,))),
        (BETA, told(jobs=())),
        (BETA, told(ends_s=float("inf"))),
        (GAMMA, mm.RoomGrant(room=5, jobs=3)),
        (GAMMA, mm.RoomRequest(room=0, jobs=3, gain_s=10.0, processors=1)),
    ):
        alpha.handle(Received(sender, message))
        grid.settle()
    assert len(alpha.stored) == before


def test_a_million_jobs_move_as_ten_do() -> None:
    few, many = (moved(jobs) for jobs in (10, 1_000_000))
    assert few == many


def moved(jobs: int) -> list[str]:
    grid = late(jobs=jobs)
    before = len(grid["alpha"].stored)
    grid.pass_time(4.0)
    kinds = [type(one).__name__ for one in grid["alpha"].records()[before:]]
    return [kind for kind in kinds if kind in ("JobsMoved", "ControlIssued", "GroupPlaced")]


def test_explain_says_why_the_rest_stays() -> None:
    grid = late(jobs=12)
    grid.pass_time(10.0)
    told = explained(grid)
    assert told.stays and told.stays[0].startswith("at beta, ") and "site gamma: " in told.stays[0], told.stays
    claims_once(grid, 12)
    assert not explained(grid).stays


def explained(grid: Grid) -> Explanation:
    alpha = grid["alpha"]
    alpha.handle(Ask(request=999, principal=OPERATOR, what="explain", group=GroupId("alpha-1")))
    grid.settle()
    told = alpha.replies.pop(999)
    assert isinstance(told, Explanation)
    return told


def test_the_window_forgets_and_the_reason_says_what_it_saw() -> None:
    grid = late(jobs=12)
    rates = grid["beta"].engine.core.line.rates.rates(grid.now)
    assert rates.arrived == 12 and rates.started == 1
    grid.pass_time(400.0)
    assert grid["beta"].engine.core.line.rates.rates(grid.now).arrived == 0


# --- staged inputs ------------------------------------------------------------------------------------------


def reading(size_bytes: int, job_class: JobClass = "", holder: str = "alpha", **settings: object) -> Grid:
    """Twelve jobs that read one file of the holder's wait at beta, which has it by now; then gamma comes."""
    grid = Grid(settings, alpha=1, beta=1, gamma=4)
    grid.part("gamma")
    data = dataset("d", "f", size_bytes=size_bytes)
    grid[holder].handle(AddDataset(request=90, principal=OPERATOR, dataset=data))
    wanted = spec(12, work_s=LONG_S, not_sites=("alpha",), job_class=job_class)
    grid["alpha"].submit(wanted, 12, refs=(("dataset:d/f", IndexSet.span(0, 12)),))
    assert all(entry.bound for entry in grid["beta"].engine.queues.entries.values()), "its inputs are there"
    grid.heal("gamma")
    grid.pass_time(20.0)
    return grid


def test_jobs_whose_inputs_are_there_move_where_the_gain_pays_for_staging_them_again() -> None:
    grid = reading(1000)
    assert len(placed(grid)["gamma"]) >= 4
    claims_once(grid, 12)


def test_jobs_whose_inputs_would_take_longer_than_the_gain_to_stage_again_stay() -> None:
    assert list(placed(reading(10**15))) == ["beta"]


def test_a_move_goes_by_the_class_that_the_jobs_were_placed_by() -> None:
    """By their size their data weigh nothing, and jobs that compute go to the idle site; jobs of class data stay."""
    assert "gamma" in placed(reading(1000, holder="beta", cost_model="paper"))
    assert list(placed(reading(1000, "data", holder="beta", cost_model="paper"))) == ["beta"]


def test_in_paper_mode_what_has_its_inputs_is_bound() -> None:
    grid = reading(1000, migration="paper")
    core = grid["beta"].engine.core
    assert [one.custody for one in surplus._waiting(core, 0.0)] == []
    grid = reading(1000, migration="off")
    assert surplus._waiting(grid["beta"].engine.core, 0.0)
