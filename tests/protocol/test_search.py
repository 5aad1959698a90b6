"""The search itself, on a toy whose answers are known: a counter that may step by one or jump by three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.protocol.search import Step, explore, stuck


@dataclass(frozen=True)
class Counter:
    """Counts up to `end`; from `trap` on there is no way out."""

    end: int = 10
    trap: int = 100

    def initial(self) -> int:
        return 0

    def transitions(self, state: int) -> Iterator[Step[int]]:
        for name, by in (("step", 1), ("jump", 3)):
            if state + by <= self.end and state < self.trap:
                yield Step(name, state + by)


def never_seven(state: int) -> str | None:
    return "seven" if state == 7 else None


def no_jump_over_five(before: int, after: int) -> str | None:
    return f"from {before} to {after}" if before < 5 < after else None


def test_every_reachable_state_is_reached_once() -> None:
    explored = explore(Counter())
    assert (set(explored.reached), explored.found, explored.steps) == (set(range(11)), None, 18)


def test_a_counterexample_is_a_shortest_story() -> None:
    found = explore(Counter(), [never_seven]).found
    assert found is not None and sorted(found.steps) == ["jump", "jump", "step"]
    assert str(found).splitlines()[0] == "never seven: seven, after 3 steps"
    assert str(found).splitlines()[1].strip().startswith("1. ")


def test_a_rule_sees_each_step_also_between_known_states() -> None:
    found = explore(Counter(), rules=[no_jump_over_five]).found
    assert found is not None and found.broken == "no jump over five" and found.how == "from 3 to 6"


def test_the_beginning_too_must_hold() -> None:
    found = explore(Counter(), [lambda state: "zero" if state == 0 else None]).found
    assert found is not None and found.steps == ()


def test_a_search_cut_short_shows_nothing_and_says_so() -> None:
    with pytest.raises(MemoryError, match="make the bound smaller"):
        explore(Counter(end=1_000), states_at_most=100)


def test_the_stuck_are_those_that_cannot_reach_the_goal() -> None:
    model = Counter(end=10, trap=8)
    starts = [(state, state) for state in range(11)]
    assert stuck(model, starts, lambda state: state == 10) == [8, 9]
    assert stuck(model, reversed(starts), lambda state: state == 10) == [9, 8]
