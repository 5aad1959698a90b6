"""Sets of sites that are tried for a wish of all of them together."""

from __future__ import annotations

from itertools import combinations

from diana.model.ids import SiteId
from diana.policy.requirements.choice import EVERY_PAIR, EVERY_SET, MOST_TRIED, sets

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
