"""PROMISES section 2, steps 1 to 9, abort and claim, searched: two indices, two destinations, together or apart.

`make test` searches two offers or two attempts; DIANA_FULL=1 both, and three offers. A failure prints the shortest
story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.handover import Handover, Rules
from tests.protocol.handover_rules import (
    HARMS,
    all_ended_or_held,
    nothing_is_started_twice,
    one_result_is_accepted,
)
from tests.protocol.handover_state import State
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
BOUNDS = [(2, 2), (3, 1)] if FULL else [(1, 2), (2, 1)]
STARTED_TWICE = (
    "epoch_rises",
    "names_epoch",
    "inert",
    "commit_kept_first",
    "aborts_offers_only",
    "tombstone_when_dropped",
    "given_kept_first",
    "given_counts_as_started",
    "claim_before_exec",
    "void_asks_spawner",
    "tombstone_when_over",
)
ACCEPTED_TWICE = ("result_once",)
LEFT_BEHIND = ("prepared_kept_first", "resent")


def stuck_once_all_heals(model: Handover) -> list[State]:
    quiet = dataclasses.replace(model, recalls=False)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, quiet.normal(s._replace(network=frozenset()))) for s in reached), all_ended_or_held)


@pytest.mark.wide
@pytest.mark.parametrize(("epochs", "attempts"), BOUNDS)
def test_no_interleaving_of_a_handover_starts_twice_and_all_end(epochs: int, attempts: int) -> None:
    model = Handover(epochs, attempts)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{model.epochs} epochs, {model.attempts} attempts: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


@pytest.mark.wide
@pytest.mark.parametrize("switch", STARTED_TWICE)
def test_without_any_one_sentence_of_the_handover_something_is_started_twice(switch: str) -> None:
    attempts = 2 if switch == "void_asks_spawner" else 1
    found = explore(Handover(attempts=attempts, rules=Rules(**{switch: False})), [nothing_is_started_twice]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


@pytest.mark.parametrize("switch", ACCEPTED_TWICE)
def test_a_result_said_again_is_not_accepted_again(switch: str) -> None:
    assert explore(Handover(attempts=1, rules=Rules(**{switch: False})), [one_result_is_accepted]).found is not None


@pytest.mark.wide
@pytest.mark.parametrize("switch", LEFT_BEHIND)
def test_a_message_sent_once_or_before_it_was_kept_may_leave_a_job_behind(switch: str) -> None:
    assert stuck_once_all_heals(Handover(attempts=1, rules=Rules(**{switch: False})))


def test_every_sentence_of_the_handover_has_its_mutant() -> None:
    sentences = {switch.name for switch in dataclasses.fields(Rules)}
    assert {*STARTED_TWICE, *ACCEPTED_TWICE, *LEFT_BEHIND} == sentences
