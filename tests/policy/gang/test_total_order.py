"""Every placement policy gives one answer, in whatever order the sites are given (SPEC K2)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.gang.close_to_files import PairHistory
from diana.policy.gang.policies import POLICIES
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangQuota,
    GangRequest,
    NeededFile,
    Rooms,
    SiteRoom,
    Unplaced,
)
from diana.policy.gang.soonest import GrowingRoom, LaterRoom, growing, soonest
from tests.policy.gang.grids import no_transfer

NAMES = "dbcaef"
AMOUNT_NAMES = ("gpus", "licence:matlab", "memory_bytes")
AMOUNTS = st.dictionaries(st.sampled_from(AMOUNT_NAMES), st.integers(1, 3)).map(lambda had: tuple(sorted(had.items())))
LEFT = st.dictionaries(st.sampled_from(AMOUNT_NAMES), st.integers(0, 4))
FILES = st.lists(
    st.builds(NeededFile, st.sampled_from("xy"), st.just(1.0), st.sets(st.sampled_from(NAMES), min_size=1).map(tuple)),
    max_size=2,
).map(tuple)
COMPONENTS = st.lists(
    st.builds(
        Component,
        st.integers(1, 5),
        st.sampled_from(["", "", "", *NAMES]),
        AMOUNTS,
        FILES,
        st.none() | st.frozensets(st.sampled_from(NAMES), min_size=1),
    ),
    min_size=1,
    max_size=4,
)
FLEXIBLE = st.builds(
    FlexibleRequest,
    st.integers(1, 16),
    st.integers(1, 3),
    st.integers(0, 4),
    FILES,
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple), max_size=2).map(tuple),
    AMOUNTS,
    st.dictionaries(st.integers(0, 3), FILES, max_size=2),
)
REQUESTS = COMPONENTS | FLEXIBLE
LATER = st.lists(st.integers(0, 6), min_size=6, max_size=6)
POLICY = st.sampled_from(sorted(POLICIES))


@st.composite
def sites(draw: st.DrawFn) -> list[SiteRoom]:
    """Sites of few sizes, so that many are equal; at most one of them is home."""
    names = draw(st.permutations(NAMES).map(lambda some: some[: draw(st.integers(1, len(NAMES)))]))
    home = draw(st.sampled_from([*names, ""]))
    out = []
    for name in names:
        total, left = draw(st.integers(0, 6)), draw(LEFT)
        idle = draw(st.integers(0, total))
        most = draw(st.none() | st.integers(0, total))
        quota = None if most is None else GangQuota(draw(st.integers(0, most)), most)
        out.append(SiteRoom(name, idle, total, draw(st.integers(0, 6)), left, left, name == home, quota))
    return out


def by_pair(source: str, site: str, size: float) -> float:
    """Seconds of few values, so that many pairs are equal."""
    return 0.0 if source == site else float((ord(source) + ord(site)) % 2 + 1)


def shuffled(given_: Sequence[SiteRoom], seed: int) -> list[SiteRoom]:
    return Random(seed).sample(given_, len(given_))


@given(POLICY, REQUESTS, sites(), st.integers(0, 1000), st.booleans())
def test_permuted_sites_give_the_same_placement_and_the_same_refusal(
    policy: str, request_: GangRequest, some: list[SiteRoom], seed: int, with_history: bool
) -> None:
    pairs = [(one, other) for one in NAMES for other in NAMES if (ord(one) + ord(other)) % 3]

    def answer(in_order: list[SiteRoom]) -> object:
        return POLICIES[policy](request_, Rooms(in_order), by_pair, PairHistory(pairs) if with_history else None)

    assert answer(some) == answer(shuffled(some, seed))


@given(POLICY, REQUESTS, sites(), LATER, st.integers(0, 1000))
def test_so_they_do_where_room_is_still_to_come(
    policy: str, request_: GangRequest, some: list[SiteRoom], later: list[int], seed: int
) -> None:
    room = {
        site.name: growing(site, [LaterRoom(float(at % 3), idle, site.whole)])
        for at, (site, idle) in enumerate(zip(some, later, strict=False))
    }

    def answer(rooms: list[GrowingRoom]) -> object:
        return soonest(lambda now: POLICIES[policy](request_, now, by_pair, None), rooms)

    assert answer(list(room.values())) == answer([room[site.name] for site in shuffled(some, seed)])


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(("home", "first"), [("", "a"), ("c", "c")])
def test_of_sites_as_good_home_comes_first_and_then_the_first_by_name(policy: str, home: str, first: str) -> None:
    equal = [SiteRoom(name, 4, 4, home=name == home) for name in "dcba"]
    for request_ in ([Component(4)], [Component(4, files=(NeededFile("f", 1.0, ("far",)),))], FlexibleRequest(4)):
        answer = POLICIES[policy](request_, Rooms(equal), no_transfer, None)
        assert isinstance(answer, GangPlacement) and answer.sites == (first,)


@given(POLICY, REQUESTS, sites(), LATER)
def test_a_quota_is_never_passed_now_or_later(
    policy: str, request_: GangRequest, some: list[SiteRoom], later: list[int]
) -> None:
    def place(rooms: Rooms) -> GangPlacement | Unplaced:
        return POLICIES[policy](request_, rooms, by_pair, None)

    now = place(Rooms(some))
    found = soonest(place, [growing(site, [LaterRoom(5.0, idle)]) for site, idle in zip(some, later, strict=False)])
    for site, idle in zip(some, later, strict=False):
        if site.quota is None:
            continue
        for answer, left in ((now, site.quota.left), (found.answer, max(site.quota.left, min(idle, site.quota.most)))):
            if isinstance(answer, GangPlacement):
                assert sum(part.processors for part in answer.parts if part.site == site.name) <= left
    if isinstance(found.answer, Unplaced) and not found.answer.never:
        whole = place(Rooms([site.emptied() for site in some]))
        assert isinstance(whole, GangPlacement)
        for site in some:
            there = sum(part.processors for part in whole.parts if part.site == site.name)
            assert there <= (site.total if site.quota is None else site.quota.most)
