"""Gangs placed by their predicted end: never later than any other policy's, and worth waiting for (SPEC K2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.gang import turnaround as search
from diana.policy.gang.policies import POLICIES
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    NeededFile,
    Rooms,
    SiteRoom,
    TransferTime,
    Unplaced,
)
from diana.policy.gang.soonest import GrowingRoom, LaterRoom, Place, growing, soonest
from diana.policy.gang.turnaround import TurnaroundChoice, end_of, factor_of, tried, turnaround
from tests.policy.gang.grids import no_transfer
from tests.policy.gang.test_total_order import LATER, NAMES, REQUESTS, by_pair, shuffled, sites

RUNS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([10.0, 20.0, 40.0, 41.0]))
SLOWDOWNS = st.lists(st.sampled_from([0.0, 0.1, 1.0]), max_size=3).map(
    lambda steps: tuple(1.0 + sum(steps[: at + 1]) for at in range(-1, len(steps))) if steps else ()
)


def by(policy: str, request: GangRequest, time: TransferTime = no_transfer) -> Place:
    return lambda rooms: POLICIES[policy](request, rooms, time, None)


def chosen(
    request: GangRequest,
    rooms: Sequence[GrowingRoom],
    run_s: Mapping[str, float],
    slowdown: Sequence[float] = (),
    time: TransferTime = no_transfer,
) -> TurnaroundChoice:
    return turnaround(request, [by(policy, request, time) for policy in tried(request)], rooms, run_s, slowdown)


def told(choice: TurnaroundChoice) -> tuple[list[str], float, float]:
    assert isinstance(choice.answer, GangPlacement) and choice.end is not None, choice
    return [f"{part.processors}@{part.site}" for part in choice.answer.parts], choice.end.claimed_s, choice.end.seconds


def later(name: str, idle: int, *steps: tuple[float, int], total: int = 8) -> GrowingRoom:
    return growing(SiteRoom(name, idle, total), [LaterRoom(at_s, processors) for at_s, processors in steps])


def grown(some: Sequence[SiteRoom], idle: Sequence[int]) -> list[GrowingRoom]:
    return [
        growing(site, [LaterRoom(4.0 * (at % 3 + 1), more, site.whole)])
        for at, (site, more) in enumerate(zip(some, idle, strict=False))
    ]


def test_a_faster_site_is_waited_for_where_that_ends_sooner() -> None:
    rooms = [later("fast", 0, (30.0, 8)), later("slow", 8)]
    gang = [Component(4), Component(4)]
    assert told(chosen(gang, rooms, {"fast": 50.0, "slow": 100.0})) == (["4@fast", "4@fast"], 30.0, 80.0)
    assert told(chosen(gang, rooms, {"fast": 90.0, "slow": 100.0})) == (["4@slow", "4@slow"], 0.0, 100.0)


def test_room_at_one_site_is_waited_for_where_the_program_is_slow_over_two() -> None:
    rooms, run_s = [later("a", 4, (30.0, 8)), later("b", 4)], {"a": 100.0, "b": 100.0}
    gang = [Component(4), Component(4)]
    assert told(chosen(gang, rooms, run_s)) == (["4@a", "4@b"], 0.0, 100.0)
    assert told(chosen(gang, rooms, run_s, (1.0, 1.25))) == (["4@a", "4@b"], 0.0, 125.0)
    assert told(chosen(gang, rooms, run_s, (1.0, 1.5))) == (["4@a", "4@a"], 30.0, 130.0)
    assert told(chosen(FlexibleRequest(8), rooms, run_s, (1.0, 1.5))) == (["8@a"], 30.0, 130.0)


def test_files_and_claims_are_waited_for_side_by_side() -> None:
    file = NeededFile("f", 1.0, ("a",))

    def far(source: str, site: str, size: float) -> float:
        return 0.0 if source == site else 40.0

    rooms, gang = [later("a", 0, (25.0, 4)), later("b", 4)], [Component(4, files=(file,))]
    assert told(chosen(gang, rooms, {"a": 100.0, "b": 100.0}, time=far)) == (["4@a"], 25.0, 125.0)
    assert told(chosen(gang, rooms, {"a": 120.0, "b": 100.0}, time=far)) == (["4@b"], 0.0, 140.0)
    both = [later("b", 0, (30.0, 4))]
    assert told(chosen(gang, both, {"b": 100.0}, time=far)) == (["4@b"], 30.0, 140.0)


def test_the_last_factor_stands_for_all_more_sites() -> None:
    assert [factor_of((1.0, 1.1, 1.25), sites) for sites in (1, 2, 3, 4, 99)] == [1.0, 1.1, 1.25, 1.25, 1.25]
    assert factor_of((), 7) == 1.0


@given(REQUESTS, sites(), LATER, RUNS, SLOWDOWNS)
def test_no_other_policy_ends_sooner_by_the_same_forecasts(
    request_: GangRequest, some: list[SiteRoom], idle: list[int], run_s: dict[str, float], slowdown: tuple[float, ...]
) -> None:
    rooms = grown(some, idle)
    best = chosen(request_, rooms, run_s, slowdown, by_pair)
    for policy in POLICIES:
        other = soonest(by(policy, request_, by_pair), rooms).answer
        if isinstance(other, Unplaced):
            continue
        assert best.end is not None
        ends = end_of(other, request_, {room.now.name: room for room in rooms}, run_s, slowdown)
        assert best.end.seconds <= ends.seconds


@given(REQUESTS, sites(), LATER, RUNS, SLOWDOWNS, st.integers(0, 1000))
def test_permuted_sites_give_the_same_answer(
    request_: GangRequest,
    some: list[SiteRoom],
    idle: list[int],
    run_s: dict[str, float],
    slowdown: tuple[float, ...],
    seed: int,
) -> None:
    rooms = {room.now.name: room for room in grown(some, idle)}
    other = [rooms[site.name] for site in shuffled(some, seed)]
    assert chosen(request_, list(rooms.values()), run_s, slowdown, by_pair) == chosen(
        request_, other, run_s, slowdown, by_pair
    )


@given(REQUESTS, sites())
def test_on_idle_sites_of_one_speed_it_places_as_the_best_of_the_papers(
    request_: GangRequest, some: list[SiteRoom]
) -> None:
    rooms = [growing(site.emptied(), ()) for site in some]
    best = chosen(request_, rooms, dict.fromkeys(NAMES, 10.0), (), by_pair)
    answers = [by(policy, request_, by_pair)(Rooms([room.now for room in rooms])) for policy in POLICIES]
    papers = [(each.transfer_s, len(each.sites)) for each in answers if isinstance(each, GangPlacement)]
    assert isinstance(best.answer, GangPlacement) == bool(papers)
    if isinstance(best.answer, GangPlacement):
        assert best.answer in answers
        assert (best.answer.transfer_s, len(best.answer.sites)) == min(papers)


def test_the_search_is_bounded_however_many_sites_and_components_there_are() -> None:
    looks = 0

    def counted(rooms: Rooms) -> GangPlacement | Unplaced:
        nonlocal looks
        looks += 1
        return POLICIES["cluster-min"](gang, rooms, no_transfer, None)

    gang = [Component(1)] * 1000
    rooms = [
        later(f"s{at:02}", 20, *((60.0 * at + step, 20 + step) for step in range(16)), total=1000) for at in range(64)
    ]
    found = turnaround(gang, [counted] * 3, rooms, {room.now.name: 10.0 + at for at, room in enumerate(rooms)})
    assert isinstance(found.answer, GangPlacement) and looks < 60
    looks, gang = 0, [Component(4)] * 4
    assert turnaround(gang, [counted] * 3, rooms, {r.now.name: 10.0 + at for at, r in enumerate(rooms)}).end is not None
    assert looks < 3 * search.MOST_SPEEDS * (search.MOST_TIMES + 20)


@pytest.mark.parametrize("request_", [[Component(9)], FlexibleRequest(17)])
def test_where_there_is_no_place_the_reason_is_as_of_the_others(request_: GangRequest) -> None:
    rooms = [later("a", 8), later("b", 8)]
    found = chosen(request_, rooms, {"a": 1.0, "b": 2.0})
    assert isinstance(found.answer, Unplaced) and found.answer.never and found.end is None
    assert found.answer == soonest(by(tried(request_)[0], request_), rooms).answer


def test_a_site_whose_run_time_nobody_knows_comes_last() -> None:
    found = chosen([Component(4)], [later("a", 8), later("b", 0, (1e6, 4))], {"b": 5.0})
    assert told(found)[0] == ["4@b"]
    assert told(chosen([Component(4)], [later("a", 8)], {}))[2] == inf
