"""Components that ask for more than processors: no policy gives a site more of them than it has, whatever they ask for,
and none leaves a gang without the place it could have had (SPEC K1, K2)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.job.resources import SIZES, Amounts
from diana.model.job.spec import ComponentSpec, FlexibleSpec, GroupSpec, Resources
from diana.policy.gang.policies import POLICIES, request_for
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    NeededFile,
    Rooms,
    SiteRoom,
    Unplaced,
)
from diana.policy.gang.soonest import GrowingRoom, LaterRoom, growing, soonest
from diana.policy.grads.gang_model import BlockPart, GangModel, GangPrediction, MachineBlock
from diana.policy.grads.placing import place as by_model
from tests.policy.gang.grids import no_transfer

NAMES = ("fpga", "gpus", "licence:matlab", "memory_bytes")
POLICY = st.sampled_from(sorted(POLICIES))
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3)).map(lambda some: tuple(sorted(some.items())))
SITES = st.lists(
    st.builds(
        lambda idle, left: (idle, left), st.integers(0, 9), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5))
    ),
    min_size=1,
    max_size=4,
).map(lambda some: [SiteRoom(f"s{at}", idle, idle, left=left, whole=left) for at, (idle, left) in enumerate(some)])
FILE = NeededFile("f", 1.0, ("s1",))


def asked_of(request: GangRequest, component: int) -> Amounts:
    return request.amounts if isinstance(request, FlexibleRequest) else request[component].amounts


def check(answer: GangPlacement, request: GangRequest, sites: Sequence[SiteRoom]) -> None:
    """Count by hand what each site gives."""
    for site in sites:
        there = [part for part in answer.parts if part.site == site.name]
        assert sum(part.processors for part in there) <= site.idle
        for name in NAMES:
            asked = [dict(asked_of(request, part.component)).get(name, 0) for part in there]
            if name in SIZES:
                assert max(asked, default=0) <= site.left.get(name, 1 << 62), "a bound for each"
            else:
                assert sum(asked) <= site.left.get(name, 0)


def holds(site: SiteRoom, components: Sequence[Component]) -> bool:
    """The oracle: so many components by themselves, counted name by name."""
    if sum(each.processors for each in components) > site.idle:
        return False
    for name in {name for each in components for name, _ in each.amounts}:
        asked = [dict(each.amounts).get(name, 0) for each in components]
        if name in SIZES and max(asked) > site.left.get(name, 1 << 62):
            return False
        if name not in SIZES and sum(asked) > site.left.get(name, 0):
            return False
    return True


def any_place(components: Sequence[Component], sites: Sequence[SiteRoom]) -> bool:
    return any(
        all(
            holds(site, [each for each, to in zip(components, chosen, strict=True) if to == at])
            for at, site in enumerate(sites)
        )
        for chosen in itertools.product(range(len(sites)), repeat=len(components))
    )


@given(POLICY, SITES, st.integers(1, 4), st.integers(1, 4), AMOUNTS, st.booleans())
def test_alike_components_find_a_place_whenever_there_is_one_within_what_each_site_has(
    policy: str, sites: list[SiteRoom], count: int, processors: int, amounts: Amounts, reads: bool
) -> None:
    request = [Component(processors, amounts=amounts, files=(FILE,) if reads else ())] * count
    answer = POLICIES[policy](request, Rooms(sites), no_transfer, None)
    assert isinstance(answer, GangPlacement) == any_place(request, sites), answer
    if isinstance(answer, GangPlacement):
        check(answer, request, sites)
        return
    assert "\n" not in answer.reason
    found = soonest(
        lambda rooms: POLICIES[policy](request, rooms, no_transfer, None), [growing(site, ()) for site in sites]
    )
    assert isinstance(found.answer, Unplaced) and found.answer.never, "they are idle as they are"


@given(POLICY, SITES, st.lists(st.builds(Component, st.integers(1, 4), st.sampled_from(["", "s0", "s1"]), AMOUNTS)))
def test_unlike_components_never_get_more_than_a_site_has(
    policy: str, sites: list[SiteRoom], request: list[Component]
) -> None:
    answer = POLICIES[policy](request, Rooms(sites), no_transfer, None)
    if isinstance(answer, GangPlacement):
        check(answer, request, sites)


@given(POLICY, SITES, st.integers(1, 20), st.integers(1, 4), st.integers(0, 3), AMOUNTS)
def test_each_part_of_a_divided_request_asks_for_all_of_it(
    policy: str, sites: list[SiteRoom], wanted: int, minimum: int, most: int, amounts: Amounts
) -> None:
    request = FlexibleRequest(wanted, minimum, most, amounts=amounts)
    answer = POLICIES[policy](request, Rooms(sites), no_transfer, None)
    if isinstance(answer, GangPlacement):
        check(answer, request, sites)
    if policy == "flexible-min":
        able = [site.idle for site in sites if holds(site, [Component(0, amounts=amounts)])]
        divisions = (
            some for count in range(1, (most or len(able)) + 1) for some in itertools.combinations(able, count)
        )
        found = any(min(some) >= minimum and len(some) * minimum <= wanted <= sum(some) for some in divisions)
        assert isinstance(answer, GangPlacement) == found, answer


@given(POLICY, SITES, AMOUNTS)
def test_each_part_of_a_listed_split_asks_for_all_of_it(policy: str, sites: list[SiteRoom], amounts: Amounts) -> None:
    request = FlexibleRequest(6, splits=((4, 2), (2, 2, 2)), amounts=amounts)
    answer = POLICIES[policy](request, Rooms(sites), no_transfer, None)
    if isinstance(answer, GangPlacement):
        check(answer, request, sites)


class AnyTime:
    """A model by which every placement takes a second."""

    def predict(self, parts: Sequence[BlockPart]) -> GangPrediction:
        return GangPrediction(1.0, (), tuple(1.0 for _ in parts))

    def rtt_s(self, one: str, other: str) -> float:
        return 0.1


@given(SITES, st.integers(0, 4), st.integers(1, 3), AMOUNTS)
def test_a_placement_by_a_model_never_takes_more_than_a_site_has(
    sites: list[SiteRoom], count: int, processors: int, amounts: Amounts
) -> None:
    divided = FlexibleRequest(2 * processors, amounts=amounts)
    request: GangRequest = [Component(processors, amounts=amounts)] * count if count else divided
    # Two kinds of machines at each site, so that a divided request may have two parts there.
    blocks = [
        MachineBlock(f"{site.name}/{kind}", site.name, 1.0, 0.0, idle, idle)
        for site in sites
        for kind, idle in enumerate((site.idle // 2, site.idle - site.idle // 2))
        if idle
    ]
    answer = by_model(request, Rooms(sites), blocks, cast("GangModel", AnyTime()), no_transfer).placement
    if isinstance(answer, GangPlacement):
        check(answer, request, sites)


# --- what components ask ------------------------------------------------------------------------------------


def test_a_component_asks_for_its_own_gpus_and_all_else_that_its_group_says() -> None:
    has = Resources(memory_bytes=7, gpus=9, licences=(("matlab", 2),), others=(("fpga", 1),))
    both = ComponentSpec(count=2, processors=3), ComponentSpec(gpus=1)
    beside = (("fpga", 1), ("licence:matlab", 2), ("memory_bytes", 7))
    one, two, three = request_for(GroupSpec(resources=has, components=both))  # type: ignore[misc]
    assert one == two == Component(3, amounts=beside)
    assert three == Component(1, amounts=tuple(sorted((*beside, ("gpus", 1)))))
    flexible = request_for(GroupSpec(resources=has, flexible=FlexibleSpec(processors=4)))
    assert isinstance(flexible, FlexibleRequest)
    assert flexible.amounts == tuple(sorted((*beside, ("gpus", 9))))


@pytest.mark.parametrize(
    ("request_", "told", "never"),
    [
        (
            [Component(1, amounts=(("fpga", 1),))] * 3,
            "wants 1 processor and 1 fpga; the nearest, a, has 0 fpga left",
            0,
        ),
        ([Component(1, amounts=(("fpga", 4),))], "wants 1 processor and 4 fpga; the nearest, a, has 3 fpga in all", 1),
        ([Component(1, "b", (("fpga", 1),))], "wants 1 processor and 1 fpga; b has 0 fpga in all", 1),
        ([Component(1, "a", (("fpga", 3),))], "wants 1 processor and 3 fpga; a has 2 fpga left", 0),
        ([Component(9, amounts=(("fpga", 1),))], "; the largest site, a, gives 4 at most", 1),
        ([Component(1, amounts=(("gpus", 1),))], "wants 1 processor and 1 GPU; the nearest, a, has 0 GPUs in all", 1),
        (FlexibleRequest(6, amounts=(("fpga", 1),)), "have 4 idle beside 1 fpga for each and 4 in all", 1),
    ],
)
def test_a_refusal_names_what_is_short(request_: GangRequest, told: str, never: bool) -> None:
    sites = [SiteRoom("a", 4, 4, left={"fpga": 2}, whole={"fpga": 3}), SiteRoom("b", 4, 4)]
    policy = "flexible-min" if isinstance(request_, FlexibleRequest) else "worst-fit"
    answer = POLICIES[policy](request_, Rooms(sites), no_transfer, None)
    assert isinstance(answer, Unplaced) and told in answer.reason and answer.never == bool(never), answer


# --- over time ----------------------------------------------------------------------------------------------


def after(count: int, *sites: GrowingRoom) -> float | str:
    def place(rooms: Rooms) -> GangPlacement | Unplaced:
        return POLICIES["worst-fit"]([Component(1, amounts=(("fpga", 1),))] * count, rooms, no_transfer, None)

    found = soonest(place, sites)
    if isinstance(found.answer, Unplaced):
        return "never" if found.answer.never else "not foreseen"
    return found.after_s


def test_a_gang_is_placed_when_what_it_asks_comes_free_and_refused_where_there_is_never_so_much() -> None:
    site = growing(
        SiteRoom("a", 4, 4, left={"fpga": 0}, whole={"fpga": 3}),
        [LaterRoom(30.0, 4, {"fpga": 2}), LaterRoom(10.0, 4, {"fpga": 1}), LaterRoom(10.0, 4, {"tape": 1})],
    )
    assert [after(count, site) for count in (1, 2, 3, 4)] == [10.0, 30.0, "not foreseen", "never"]
    assert site.holds_after_s(2, (("fpga", 2), ("memory_bytes", 99))) == 30.0
    assert site.holds_after_s(2) == 0.0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_size_bounds_each_component_and_is_shared_by_none(policy: str) -> None:
    sites = [SiteRoom("a", 4, 4, left={"memory_bytes": 5}), SiteRoom("b", 1, 1)]

    def place(size: int) -> GangPlacement | Unplaced:
        return POLICIES[policy]([Component(1, amounts=(("memory_bytes", size),))] * 3, Rooms(sites), no_transfer, None)

    assert isinstance(place(5), GangPlacement)
    assert isinstance(place(6), Unplaced), "only b, of which nothing is known, may have so much"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_split_that_failed_takes_no_board_from_the_next(policy: str) -> None:
    request = FlexibleRequest(6, splits=((4, 2), (6,)), amounts=(("fpga", 1),))
    sites = [SiteRoom("a", 6, 6, left={"fpga": 1}, whole={"fpga": 1})]
    answer = POLICIES[policy](request, Rooms(sites), no_transfer, None)
    assert isinstance(answer, GangPlacement) and [part.processors for part in answer.parts] == [6], answer


@pytest.mark.parametrize("policy", ["worst-fit", "cluster-min", "close-to-files"])
def test_components_that_few_sites_can_run_do_not_lose_their_room_to_others(policy: str) -> None:
    sites = [SiteRoom("big", 3, 3), SiteRoom("small", 2, 2)]
    request = [Component(1), Component(1), Component(1, sites=frozenset({"big"})), Component(2)]
    # In the order of their sizes the wide one, then a plain one, would leave "big" no room.
    more = [*request, Component(1, site="", sites=frozenset({"big"}))]
    for wanted in (request, more[2:]):
        answer = POLICIES[policy](wanted, Rooms(sites), no_transfer, None)
        assert isinstance(answer, GangPlacement), answer
        assert [part.component for part in answer.parts] == list(range(len(wanted)))
        assert all(
            each.sites is None or part.site in each.sites for each, part in zip(wanted, answer.parts, strict=True)
        )
    none = POLICIES[policy]([*more, Component(1)], Rooms(sites), no_transfer, None)
    assert isinstance(none, Unplaced)
