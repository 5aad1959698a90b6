"""Sets of sites that are tried for a wish of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from diana.model.ids import SiteId
from diana.policy.requirements.choice import EVERY_PAIR, EVERY_SET, MOST_TRIED, NearestSet, grown, named, sets
from diana.policy.requirements.judge import Requirements, Shortfall

ORDER = [SiteId(f"s{n:03}") for n in range(60)]


def test_each_set_is_tried_once_and_few_in_all() -> None:
    found = list(sets(ORDER, 100))
    assert len(found) == len(set(found)) < 2 ** (EVERY_SET + 1) + EVERY_PAIR**2
    assert found[0] == tuple(ORDER[:MOST_TRIED]), "the larger first"


def test_every_set_of_the_best_few_and_every_pair_of_more_is_tried() -> None:
    found = set(sets(ORDER, 100))
    for size in range(1, EVERY_SET + 1):
        assert found.issuperset(combinations(ORDER[:EVERY_SET], size))
    assert found.issuperset(combinations(ORDER[:EVERY_PAIR], 2)) and (ORDER[40],) in found
    assert (ORDER[EVERY_PAIR],) not in found


def test_no_set_has_more_sites_than_there_are_jobs() -> None:
    assert {len(some) for some in sets(ORDER, 1)} == {1} and {len(some) for some in sets(ORDER, 3)} == {1, 2, 3}
    assert list(sets(ORDER[:2], 5)) == [tuple(ORDER[:2]), (ORDER[0],), (ORDER[1],)]


def values(some: Sequence[SiteId]) -> dict[str, tuple[float, ...]]:
    """Site n has n processors, but each tenth, which has a hundred times as many and little memory."""
    numbers = [int(site[1:]) for site in some]
    return {
        "set.slots": tuple(float(n * (1 if n % 10 else 100)) for n in numbers),
        "set.memory_bytes": tuple(8e9 if n % 10 else 1e9 for n in numbers),
        "set": tuple(some),
    }


def test_a_set_grows_by_the_sites_that_lessen_what_it_lacks_and_no_fixed_set_would_do() -> None:
    wants = Requirements(
        ["min(set.memory_bytes) >= 8e9", "sum(set.slots) >= 200", "size(set) <= 5"], "set_requirements"
    )
    assert not any(wants.holds(values(some)) for some in sets(ORDER, 100))
    found = list(grown(ORDER, 100, lambda some: wants.shortfall(values(some))))
    assert wants.holds(values(found[-1])) and set(found[-1]) == {ORDER[n] for n in (47, 46, 45, 44, 18)}


def test_a_set_stops_growing_where_no_site_helps_and_has_a_bound() -> None:
    asked: list[tuple[SiteId, ...]] = []

    def shortfall(wants: Requirements, some: tuple[SiteId, ...]) -> Shortfall:
        asked.append(some)
        return wants.shortfall(values(some))

    never = Requirements(["min(set.slots) >= 1e9"], "set_requirements")
    assert len(list(grown(ORDER, 100, lambda some: shortfall(never, some)))) == 1
    more = Requirements(["sum(set.slots) >= 1e9"], "set_requirements")
    asked.clear()
    assert len(list(grown(ORDER, 100, lambda some: shortfall(more, some)))) == MOST_TRIED
    assert len(asked) <= MOST_TRIED * (EVERY_PAIR + 1)
    assert len(list(grown(ORDER, 2, lambda some: shortfall(more, some)))) == 2
    assert not list(grown([], 2, lambda some: Shortfall()))


def test_the_nearest_set_meets_most_then_lacks_least_then_has_fewer_sites_then_comes_first() -> None:
    wants = Requirements(["sum(set.slots) >= 8", "set == ['x']", "min(set.memory_bytes) >= 2e9"], "set_requirements")
    tried = ((2,), (5, 10), (1, 3, 4), (3, 5), (4, 4), (3, 1), (6,), (2, 4))
    nearest = NearestSet()
    for numbers in tried:
        some = tuple(ORDER[n] for n in numbers)
        nearest.look(some, wants.shortfall(values(some)), lambda some=some: wants.failed(values(some)))
    assert nearest.sites == (ORDER[3], ORDER[5]), "of those that meet all but one, the one of fewer sites"
    assert [one.text for one in nearest.failed] == ["set == ['x']"] and nearest.near() == ""
    assert nearest.told() == (
        "no set of sites meets: set == ['x']; the best is s003 + s005: ['s003', 's005'] == ['x'] does not hold"
    )
    numbers = Requirements(["sum(set.slots) >= 1004"], "set_requirements")
    nearest = NearestSet()
    for some in (ORDER[8:10], ORDER[11:13], ORDER[5:7], ORDER[1:4]):
        nearest.look(tuple(some), numbers.shortfall(values(some)), lambda some=some: numbers.failed(values(some)))
    assert nearest.sites == (ORDER[11], ORDER[12]) and nearest.near() == "sum(set.slots) >= 23"
    tied = NearestSet()
    for numbers in ((3, 4), (5, 6), (1, 2), (7, 8, 9)):
        tied.look(tuple(ORDER[n] for n in numbers), Shortfall(1, 0.5), lambda: ())
    assert tied.sites == (ORDER[1], ORDER[2])


def test_a_shortfall_is_relative_and_that_of_no_comparison_of_numbers_is_the_largest() -> None:
    def of(text: str) -> float:
        return Requirements([text], "set_requirements").shortfall(values(ORDER[2:4])).relative

    assert of("sum(set.slots) >= 10") == of("sum(set.slots) * 1e9 >= 10e9") == 0.5
    assert of("sum(set.slots) >= 20") == of("20 <= sum(set.slots)") == of("size(set) * 5 <= 2.5") == 0.75
    assert of("sum(set.slots) < 0") == of("sum(set.slots) > 1e999") - 1 == 1.0
    assert of("set == ['x']") == of("set.wait_s == [1.0]") == of("sum(set.wait_s) < 1") == 2.0
    assert of("sum(set.slots) >= 5") == of("sum(set.slots) > 5") == 0.0


def test_a_set_of_many_sites_is_named_by_the_first() -> None:
    assert named(ORDER[:2]) == "s000 + s001" and named(ORDER[:10]).endswith("s007 and 2 more")
