"""SPEC K5, searched: on sites that are always full every gang gets its processors, whatever ordinary jobs do."""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol.claim_holding import Holding, HoldingRules, World, longest
from tests.protocol.search import endless, explore, stuck

WORLDS = {
    "one gang at two sites": World(),
    "one gang at three sites": World(sites=3, run=2),
    "two gangs at the same two sites": World(gangs=2),
    "two gangs, long jobs": World(gangs=2, run=5),
}


@pytest.mark.wide
@pytest.mark.parametrize("world", WORLDS)
def test_every_gang_starts_on_full_sites_within_a_bound(world: str) -> None:
    model = Holding(WORLDS[world])
    explored = explore(model)
    done = [s for s in explored.reached if all(gang.phase == "done" for gang in s.gangs)]
    assert done and endless(model, [model.initial()]) is None
    assert not stuck(model, [(s, s) for s in explored.reached], lambda s: all(g.phase == "done" for g in s.gangs))
    has = WORLDS[world]
    ticks = longest(model)
    print(f"{world}: {len(explored.reached)} states, the longest schedule has {ticks} ticks")
    # Of each gang: tries and pauses of 1, 2, 4, ... ticks up to the longest run, then that run behind what stands
    # before it; another's tries come on top.
    assert ticks <= has.gangs * (4 * has.run * (has.before + 1) + 2 * has.most) * has.gangs


@pytest.mark.parametrize("switch", [switch.name for switch in dataclasses.fields(HoldingRules)])
def test_without_any_one_sentence_of_holding_some_gang_may_never_start(switch: str) -> None:
    model = Holding(WORLDS["two gangs, long jobs"], HoldingRules(**{switch: False}))
    found = endless(model, [model.initial()])
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: a circle of {len(found)} ticks")
