"""SPEC D7 "exported at most once, enforced by the receiver", searched: custodians ask the origin to move work, drain,
and are overtaken by starts.

`make test` searches two sites; DIANA_FULL=1 three as well. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.moves import HARMS, Job, Moves, Rules, State, all_done, nothing_is_exported_twice
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
TWO = Moves(epochs=3, sites=(1, 2), drained=2)
WORLDS = {"two sites": TWO, "three sites": Moves(epochs=2, drained=2)} if FULL else {"two sites": TWO}
HARMFUL = ("recalls_first", "splits", "move_names_epoch", "mark_travels", "mark_outlives_pull_back")
LEFT_BEHIND = ("recalling_kept_first",)
CHOICE = "origin_checks_mark"


def stuck_once_all_heals(model: Moves) -> list[State]:
    quiet = dataclasses.replace(model, moving=False)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, quiet.normal(s._replace(network=frozenset()))) for s in reached), all_done)


def without(switch: str) -> Moves:
    epochs = 4 if switch == "mark_outlives_pull_back" else 3
    return dataclasses.replace(TWO, epochs=epochs, rules=Rules(**{switch: False}))


@pytest.mark.wide
@pytest.mark.parametrize("world", WORLDS)
def test_work_that_moves_is_exported_once_started_once_and_ends(world: str) -> None:
    model = WORLDS[world]
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{world}, {model.epochs} epochs: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


def test_what_was_exported_can_be_pulled_back_and_ends_where_it_came_from() -> None:
    reached = explore(TWO, HARMS).reached
    assert any(s.jobs[0] == Job(1, 3, "done", exported=True) and s.exports[0] == 1 for s in reached)


@pytest.mark.wide
def test_an_origin_that_checks_the_mark_needs_no_receiver_that_does() -> None:
    rules = Rules(mark_travels=False, origin_checks_mark=True)
    assert explore(dataclasses.replace(TWO, rules=rules), HARMS).found is None


@pytest.mark.parametrize("switch", HARMFUL)
def test_without_any_one_sentence_of_moves_harm_is_found(switch: str) -> None:
    found = explore(without(switch), HARMS).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


def test_a_mark_lost_on_the_way_back_is_an_export_more() -> None:
    found = explore(without("mark_outlives_pull_back"), [nothing_is_exported_twice]).found
    assert found is not None and "drains" in str(found)


@pytest.mark.wide
@pytest.mark.parametrize("switch", LEFT_BEHIND)
def test_a_recall_said_before_it_was_kept_may_leave_a_job_behind(switch: str) -> None:
    assert stuck_once_all_heals(without(switch))


def test_every_sentence_of_moves_has_its_mutant() -> None:
    assert {*HARMFUL, *LEFT_BEHIND, CHOICE} == {switch.name for switch in dataclasses.fields(Rules)}
