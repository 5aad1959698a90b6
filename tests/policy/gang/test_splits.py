"""Divisions that a flexible request lists by preference (SPEC K1)."""

import pytest

from diana.model.job.components import check_flexible, request_of
from diana.model.job.spec import FlexibleSpec, GroupSpec
from diana.policy.gang.policies import POLICIES, request_for
from diana.policy.gang.requests import GangPlacement, Unplaced
from tests.policy.gang.grids import no_transfer, rooms


def place(policy, flexible, idle):
    return POLICIES[policy](request_for(GroupSpec(flexible=flexible)), rooms(idle), no_transfer, None)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_first_split_that_finds_a_place_is_taken(policy):
    flexible = FlexibleSpec(processors=72, splits=((48, 24), (36, 36)))
    answer = place(policy, flexible, {"A": 40, "B": 40})
    assert isinstance(answer, GangPlacement)
    assert [(part.processors, part.site) for part in answer.parts] == [(36, "A"), (36, "B")]


def test_a_split_that_failed_takes_no_room_from_the_next():
    flexible = FlexibleSpec(processors=20, splits=((10, 10), (14, 6)))
    assert isinstance(place("cluster-min", flexible, {"A": 14, "B": 6}), GangPlacement)


def test_when_none_fits_the_line_says_how_many_were_tried():
    answer = place("flexible-min", FlexibleSpec(processors=72, splits=((48, 24), (36, 36))), {"A": 30, "B": 30})
    assert isinstance(answer, Unplaced) and answer.reason.startswith("none of the 2 splits finds a place; the last:")


@pytest.mark.parametrize(
    ("flexible", "told"),
    [
        (FlexibleSpec(processors=72, splits=((48, 23),)), "48+23 is 71, and the request is for 72"),
        (FlexibleSpec(processors=72, splits=((),)), "want 1 to 1,000 sizes"),
        (FlexibleSpec(processors=1, splits=((1,),) * 1001), "splits: more than 1,000 sizes in all; list fewer"),
        (FlexibleSpec(processors=72, splits=((72,),), min_processors=2), "leave out min_cpus"),
        (FlexibleSpec(processors=4, min_processors=5), "min_cpus = 5: want 1 to the 4"),
        (FlexibleSpec(processors=0), "0 processors"),
        (FlexibleSpec(processors=4, max_components=-1), "max_components = -1"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(flexible, told):
    with pytest.raises(ValueError) as refused:
        check_flexible(flexible)
    assert told in str(refused.value)


def test_words_ask_for_unlike_components_and_for_sites():
    both = request_of("2x16+1x8@vu")
    assert not isinstance(both, FlexibleSpec)
    assert [(each.count, each.processors, each.site) for each in both] == [(2, 16, ""), (1, 8, "vu")]
