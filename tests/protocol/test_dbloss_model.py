"""PROMISES section 2 "Database lost or restored", searched: the destination's database or the origin's, lost, restored
or put back, at every instant of a hand-over.

`make test` searches two epochs; DIANA_FULL=1 three. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.dbloss import DbLoss, Rules
from tests.protocol.dbloss_rules import HARMS, ended_or_shown
from tests.protocol.dbloss_state import Side, State
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
SIDES: tuple[Side, ...] = ("destination", "origin")
OF_DESTINATION = (
    "unreachable",
    "verdict_stands",
    "restored_holds",
    "waits_for_origin",
    "mark_apart",
    "marked_holds",
    "commit_names_db",
    "aborted_names_db",
    "answers_carry_seq",
    "fallen_mints_anew",
    "claims_apart",
    "tombstone_asks_spawner",
    "former_answers_refused",
)
OF_ORIGIN = ("waits_for_report", "adopts", "reports_done", "former_orders_refused", "epoch_above_reported")


def stuck_once_all_heals(model: DbLoss) -> list[State]:
    quiet = dataclasses.replace(model, troubled=False)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, quiet.normal(s._replace(network=frozenset()))) for s in reached), ended_or_shown)


@pytest.mark.wide
@pytest.mark.parametrize("side", SIDES)
def test_no_lost_or_old_database_starts_a_job_twice_unasked_and_each_ends_or_is_shown(side: Side) -> None:
    model = DbLoss(side, epochs=3 if FULL else 2)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{side}, {model.epochs} epochs: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


@pytest.mark.wide
def test_nor_does_an_ordinary_restart_that_waits_for_nobody() -> None:
    model = DbLoss("destination", restarts=True)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"with restarts: {len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_once_all_heals(model)


@pytest.mark.wide
@pytest.mark.parametrize("switch", [*OF_DESTINATION, *OF_ORIGIN])
def test_without_any_one_sentence_of_a_lost_database_harm_is_found(switch: str) -> None:
    side: Side = "destination" if switch in OF_DESTINATION else "origin"
    found = explore(DbLoss(side, rules=Rules(**{switch: False})), HARMS).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


def test_every_sentence_of_a_lost_database_has_its_mutant() -> None:
    assert {*OF_DESTINATION, *OF_ORIGIN} == {switch.name for switch in dataclasses.fields(Rules)}
