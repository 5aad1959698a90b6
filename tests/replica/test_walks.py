"""PROMISES section 2 "Standby" (row D8): the code keeps what the model proved, and each sentence is needed in it too.

`make test` walks some thousand steps; DIANA_FULL=1 some hundred thousand, and searches the smallest world to its end.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from diana.replica.machine import Replica
from tests.protocol.search import explore
from tests.protocol.standby_rules import HARMS
from tests.protocol.standby_setting import Rules
from tests.replica.mutants import MUTANTS, Mutant
from tests.replica.stories import STORIES
from tests.replica.walks import first_found, told
from tests.replica.world import Bound, State, World

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(1800)] if FULL else []
WALKS, STEPS = (600, 400) if FULL else (6, 150)
BY_WALKS = {"own_fsync", "alone_by_register", "rejoin_from_sending", "takeover_in_sync", "db_uuid"}
BY_WALKS |= {"follower_term_durable", "witness_durable"}
"""Found within the first few walks."""
WORLDS = {
    "in sync": Bound(terms=12, cuts=3, whats=("x", "y", "z")),
    "disks are lost": Bound(terms=12, cuts=3, losses=1, whats=("x", "y", "z")),
    "operators": Bound(terms=12, cuts=3, orders=3, whats=("x", "y", "z")),
    "the register is lost": Bound(terms=12, cuts=3, register_losses=1, whats=("x", "y", "z")),
    "the register is lost beside one alone": Bound(terms=12, cuts=3, register_losses=1, begins_alone=True),
    "begins alone": Bound(terms=12, cuts=3, begins_alone=True, whats=("x", "y", "z")),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", WORLDS)
def test_no_walk_of_two_real_machines_does_harm(name: str) -> None:
    found = first_found(World(WORLDS[name]), range(WALKS), STEPS)
    assert found is None, f"seed {found[0]}: {found[1]}"


ELSEWHERE = {"start_when_durable", "worker_refuses_old", "worker_term_durable", "worker_starts_once", "inventory"}
"""Sentences that the engine, its driver and the spawners keep."""
BY_OTHER_MEANS = {"truncate_conflicts_only", "forced_asks_all"}
"""Nothing is truncated: another history is replaced by a copy; `Lead.forced` is told to the engine's driver."""
THE_CODES_OWN = {"made_again_leased", "made_again_with_both"}
"""The model's witness loses nothing."""
WALKED = [m for m in MUTANTS if m.without not in STORIES and (FULL or m.without in BY_WALKS)]


@pytest.mark.parametrize("mutant", WALKED, ids=lambda m: m.without)
def test_without_any_one_sentence_a_walk_does_harm(mutant: Mutant) -> None:
    found = first_found(mutant.made(), range(600 if FULL else 12), 150)
    assert found is not None, f"nothing comes of leaving out {mutant.without}"


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.without in STORIES], ids=lambda m: m.without)
def test_a_story_does_harm_to_the_mutant_and_cannot_be_told_of_the_machine(mutant: Mutant) -> None:
    assert told(mutant.made(whats=("x",)), STORIES[mutant.without]) is not None
    own = dataclasses.replace(mutant, machine=Replica).made(whats=("x",))
    assert told(own, STORIES[mutant.without]) is None


def test_every_sentence_of_the_model_has_its_mutant_here_or_is_kept_elsewhere() -> None:
    here = {mutant.without for mutant in MUTANTS}
    assert here - THE_CODES_OWN | ELSEWHERE | BY_OTHER_MEANS == {switch.name for switch in dataclasses.fields(Rules)}


@pytest.mark.parametrize("crashes", [False, True] if FULL else [False])
def test_every_state_of_a_small_world_is_without_harm(crashes: bool) -> None:
    world = World(Bound(terms=2 if FULL else 1, cuts=0, crashes=crashes, whats=("x",) if FULL else ()))

    def harmless(state: State) -> str | None:
        return next((how for harm in HARMS if (how := harm(world.seen_as(state)))), None)

    explored = explore(world, [harmless])
    assert explored.found is None, str(explored.found)
    assert len(explored.reached) > 500
