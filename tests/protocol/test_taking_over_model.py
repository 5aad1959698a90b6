"""A standby that takes over its leader's cluster, searched: a leader that was stopped anywhere goes on anywhere. A
failure prints the shortest story."""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol.search import explore, stuck
from tests.protocol.taking_over import (
    LEADERSHIPS,
    MOST_NUMBERS,
    Rules,
    TakingOver,
    it_came_to_its_end,
    it_starts_once_at_most,
)

SENTENCES = tuple(switch.name for switch in dataclasses.fields(Rules))


@pytest.mark.wide
def test_whoever_takes_over_from_whomever_the_run_starts_once_and_comes_to_its_end() -> None:
    model = TakingOver()
    explored = explore(model, [it_starts_once_at_most])
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")
    # Where all numbers the bound allows are used up, nothing can be given again.
    left = ((s, s) for s in explored.reached if s.lead + 1 < LEADERSHIPS or s.books[s.lead].next <= MOST_NUMBERS)
    assert not list(stuck(model, left, it_came_to_its_end))


@pytest.mark.parametrize("switch", SENTENCES)
def test_without_any_one_sentence_it_starts_twice(switch: str) -> None:
    found = explore(TakingOver(Rules(**{switch: False})), [it_starts_once_at_most]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")
