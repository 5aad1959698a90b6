"""PROMISES section 2 "Recall", searched: a subgroup is called back while its indices start, and it splits.

`make test` searches two epochs; DIANA_FULL=1 three. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.recall import (
    Recall,
    Rules,
    State,
    all_done,
    nothing_is_started_twice,
    nothing_that_came_back_may_still_start_there,
)
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
HARMS = (nothing_is_started_twice, nothing_that_came_back_may_still_start_there)
STARTED_TWICE = (
    "local_only_on_revoked",
    "splits",
    "revoked_names_indices",
    "revoked_names_epoch",
    "tombstone_when_unknown",
    "persisted_before_reply",
)
LEFT_BEHIND = ("resent", "recall_names_epoch")


def stuck_once_all_heals(model: Recall) -> list[State]:
    quiet = dataclasses.replace(model, recalls=False)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, quiet.normal(s._replace(network=frozenset()))) for s in reached), all_done)


@pytest.mark.wide
def test_no_interleaving_of_recall_and_start_starts_twice_and_all_end() -> None:
    model = Recall(epochs=3 if FULL else 2)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{model.epochs} epochs: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


@pytest.mark.parametrize("switch", STARTED_TWICE)
def test_without_any_one_sentence_of_recall_something_is_started_twice(switch: str) -> None:
    found = explore(Recall(epochs=2, rules=Rules(**{switch: False})), [nothing_is_started_twice]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


@pytest.mark.wide
@pytest.mark.parametrize("switch", LEFT_BEHIND)
def test_a_message_sent_once_or_a_stale_recall_may_leave_a_job_behind(switch: str) -> None:
    assert stuck_once_all_heals(Recall(epochs=2, rules=Rules(**{switch: False})))


def test_every_sentence_of_recall_has_its_mutant() -> None:
    assert {*STARTED_TWICE, *LEFT_BEHIND} == {switch.name for switch in dataclasses.fields(Rules)}
