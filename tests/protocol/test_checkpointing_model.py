"""Stops at a checkpoint, searched: whatever is late, lost or deaf, no two attempts live, none begins from half a
checkpoint, and no work before the last whole one is done again.

`make test` searches two attempts, `make soak PARTS=wide` three. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol.checkpointing import (
    Checkpointing,
    Rules,
    State,
    no_work_is_lost,
    one_attempt_lives,
    runs_whole,
    whole_ones_only,
)
from tests.protocol.search import explore, stuck

HARMS = (one_attempt_lives, whole_ones_only, no_work_is_lost)
TWO_LIVE = ("all_over_first", "ended_first", "names_attempt", "kept_first", "tombstone")
HALF = ("all_parts", "one_attempt")
LOST = ("waits_for_files",)
LEFT_BEHIND = ("resent", "gives_up")


def stuck_once_all_heals(model: Checkpointing) -> list[State]:
    """States from which, with nothing under way and nothing asked any more, the gang never runs whole again."""
    quiet, reached = model.quiet(), explore(model, HARMS).reached
    # The very last attempt of the model is never placed anew.
    before = (s for s in reached if s.attempt < model.attempts)
    return stuck(quiet, ((s, quiet.normal(s._replace(network=frozenset()))) for s in before), runs_whole)


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("attempts", [2, pytest.param(3, marks=pytest.mark.wide)])
def test_no_two_attempts_live_none_begins_from_half_a_checkpoint_and_no_saved_work_is_lost(
    attempts: int, deaf: bool
) -> None:
    model = Checkpointing(attempts, deaf=deaf)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{attempts} attempts: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


@pytest.mark.parametrize("switch", [*TWO_LIVE, *HALF, *LOST])
def test_without_any_one_sentence_harm_is_done(switch: str) -> None:
    model = Checkpointing(3, Rules(**{switch: False}))
    harm = one_attempt_lives if switch in TWO_LIVE else whole_ones_only if switch in HALF else no_work_is_lost
    found = explore(model, [harm]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


@pytest.mark.parametrize("switch", LEFT_BEHIND)
def test_without_these_a_gang_may_stand_still_for_ever(switch: str) -> None:
    assert stuck_once_all_heals(Checkpointing(2, Rules(**{switch: False}), deaf=switch == "gives_up"))


def test_every_sentence_has_its_mutant() -> None:
    assert {*TWO_LIVE, *HALF, *LOST, *LEFT_BEHIND} == {switch.name for switch in dataclasses.fields(Rules)}
