"""Late binding searched: reservations and calls that are lost, doubled, late, forgotten or lies never bind a job twice,
lose none, and keep nothing for ever (PROMISES section 2; `diana/engine/messages/binding.py`); nor does a liar's word on
size, number, date or owner keep an honest group from its turn (`diana/engine/dispatch/turns.py`).

`make test` searches an honest site beside a liar; `make soak PARTS=wide` two honest sites, and more
take-backs, more slots and more of the liar's reservations. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol import binding_turns
from tests.protocol.binding import INVARIANTS, RULES, Binding, Rules, State, nothing_is_kept
from tests.protocol.binding_state import normal
from tests.protocol.binding_turns import Turns
from tests.protocol.search import Explored, explore, stuck

BESIDE_A_LIAR = Binding(sites=1, jobs=1, liar=True)
WORLDS = {
    "a liar, messages that overtake": dataclasses.replace(BESIDE_A_LIAR, under_way=2, take_backs=0),
    "a liar, an offer taken back": BESIDE_A_LIAR,
    "two jobs": Binding(sites=1, jobs=2, take_backs=0),
}
WIDE = {
    "two jobs, a liar, an offer taken back": Binding(sites=1, jobs=2, liar=True),
    "two honest sites": Binding(sites=2, jobs=1, take_backs=0),
    "two honest sites and a liar": Binding(sites=2, jobs=1, liar=True, take_backs=0),
}
HARMFUL = {
    "gives_unplaced_only": "one site may run it",
    "commit_kept_first": "one site may run it",
    "newest_counts": "the newest word bounds the calls",
    "withdrawn": "the newest word bounds the calls",
    "own_groups_only": "the newest word bounds the calls",
    "answered_once": "a call is answered once",
}
KEPT_FOR_EVER = ("released", "room_lapses", "dropped", "told_again", "drafted_anew")


def searched(model: Binding) -> Explored[State]:
    return explore(model, INVARIANTS, RULES)


def stuck_once_all_heals(model: Binding, explored: Explored[State]) -> list[State]:
    """States from which no calm leads to all jobs bound and nothing kept: what was under way is lost, nothing breaks
    any more, and the liar says nothing."""
    calm = dataclasses.replace(model, rough=False)
    nothing: frozenset[object] = frozenset()
    starts = ((s, normal(s._replace(words=nothing, calls=nothing))) for s in explored.reached)
    return stuck(calm, starts, nothing_is_kept)


@pytest.mark.wide
@pytest.mark.parametrize(
    "world", [*WORLDS, *(pytest.param(world, marks=[pytest.mark.wide, pytest.mark.timeout(1800)]) for world in WIDE)]
)
def test_no_job_is_bound_twice_or_lost_and_with_all_calm_all_are_bound_and_nothing_is_kept(world: str) -> None:
    model = (WORLDS | WIDE)[world]
    explored = searched(model)
    assert explored.found is None, str(explored.found)
    print(f"{world}: {len(explored.reached)} states, {explored.steps} steps")
    left = stuck_once_all_heals(model, explored)
    assert not left, f"{left[0]}\n{explored.story(left[0])}"


@pytest.mark.wide
@pytest.mark.parametrize("switch", HARMFUL)
def test_without_any_one_sentence_of_late_binding_harm_is_found(switch: str) -> None:
    two = switch in ("gives_unplaced_only", "newest_counts", "answered_once")
    model = Binding(sites=1, jobs=1 + two, liar=not two, under_way=2, rules=Rules(**{switch: False}))
    found = searched(model).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    assert found.broken == HARMFUL[switch], str(found)
    print(f"without {switch}: {found}")


@pytest.mark.parametrize("switch", KEPT_FOR_EVER)
def test_without_any_one_time_out_of_late_binding_something_is_kept_for_ever(switch: str) -> None:
    model = Binding(sites=1, jobs=1, take_backs=0, rules=Rules(**{switch: False}))
    explored = searched(model)
    assert explored.found is None, str(explored.found)
    left = stuck_once_all_heals(model, explored)
    assert left, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {len(left)} of {len(explored.reached)} states lead nowhere, as {explored.story(left[0])}")


def test_every_sentence_of_late_binding_has_its_mutant() -> None:
    assert {*HARMFUL, *KEPT_FOR_EVER} == {switch.name for switch in dataclasses.fields(Rules)}


TURNS = {
    "one slot": Turns(standing=2, slots=1),
    "two slots": Turns(standing=2),
}
WIDE_TURNS = {
    "three of the liar's": Turns(standing=3),
    "three slots": Turns(standing=2, slots=3),
    "more looks and more patience": Turns(standing=3, looks=3, misses=2, lead=2, most_vain=3),
}
NO_TURN = {
    "refused_at_once": "what stands here could begin here",
    "misfit_is_no_miss": "nobody starves",
    "date_bounded": "nobody who came long after is called before",
    "in_turn": "nobody starves",
    "vain_keeps_nothing": "nobody starves",
    "room_lapses": "nobody starves",
    "bears": "a site holds no more than it bears",
}
NEVER_BACK = ("called_back", "ban_returns")


def never_begun(model: Turns, explored: Explored[binding_turns.State]) -> list[binding_turns.State]:
    """States from which, once the liar says nothing more, the honest jobs do not all get their turn."""
    calm = dataclasses.replace(model, lying=False)
    return stuck(calm, ((s, s) for s in explored.reached), binding_turns.all_begun)


@pytest.mark.parametrize(
    "world",
    [*TURNS, *(pytest.param(world, marks=[pytest.mark.wide, pytest.mark.timeout(1800)]) for world in WIDE_TURNS)],
)
def test_a_liar_keeps_no_honest_group_from_a_free_slot(world: str) -> None:
    model = (TURNS | WIDE_TURNS)[world]
    explored = explore(model, binding_turns.invariants(model))
    assert explored.found is None, str(explored.found)
    print(f"{world}: {len(explored.reached)} states, {explored.steps} steps")
    assert max(s.passed for s in explored.reached) == model.most_passed, "the bound is as low as it can be"
    left = never_begun(model, explored)
    assert not left, f"{left[0]}\n{explored.story(left[0])}"


@pytest.mark.parametrize("switch", NO_TURN)
def test_without_any_one_sentence_about_turns_harm_is_found(switch: str) -> None:
    model = Turns(rules=binding_turns.Rules(**{switch: False}))
    found = explore(model, binding_turns.invariants(model)).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    assert found.broken == NO_TURN[switch], str(found)
    print(f"without {switch}: {found}")


@pytest.mark.parametrize("switch", NEVER_BACK)
def test_unless_it_is_called_back_what_a_liar_took_never_begins(switch: str) -> None:
    model = Turns(standing=1, rules=binding_turns.Rules(**{switch: False}))
    explored = explore(model, binding_turns.invariants(model))
    assert explored.found is None, str(explored.found)
    assert never_begun(model, explored), f"nothing comes of leaving out {switch}"


def test_every_sentence_about_turns_has_its_mutant() -> None:
    assert {*NO_TURN, *NEVER_BACK} == {switch.name for switch in dataclasses.fields(binding_turns.Rules)}
