"""PROMISES section 2 "Control", searched: cancel, hold and release of two indices against start, end, result and retry.

`make test` searches small bounds; DIANA_FULL=1 larger ones. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.control import ControlModel, Rules
from tests.protocol.control_rules import HARMS, MUTANTS, Mutant, all_ended_or_visibly_held
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
BOUNDS = [(2, 2), (3, 1)] if FULL else [(1, 2), (2, 1)]


@pytest.mark.wide
@pytest.mark.parametrize(("controls", "epochs"), BOUNDS)
def test_no_interleaving_of_controls_does_harm_and_all_end(controls: int, epochs: int) -> None:
    model = ControlModel(controls, epochs)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{controls} controls, {epochs} epochs: {len(explored.reached)} states, {explored.steps} steps")
    quiet = dataclasses.replace(model, users=False)
    starts = ((s, quiet.normal(s._replace(network=frozenset()))) for s in explored.reached)
    assert not stuck(quiet, starts, all_ended_or_visibly_held)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.harm], ids=lambda mutant: mutant.without)
def test_without_any_one_sentence_of_control_harm_is_found(mutant: Mutant) -> None:
    assert mutant.harm is not None
    found = explore(mutant.model(), [mutant.harm]).found
    assert found is not None, f"nothing comes of leaving out {mutant.without}"
    print(f"without {mutant.without}: {found}")


@pytest.mark.wide
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.harm], ids=lambda mutant: mutant.without)
def test_a_release_sent_once_only_may_leave_a_job_held_for_ever(mutant: Mutant) -> None:
    explored = explore(mutant.model(), HARMS)
    assert explored.found is None, str(explored.found)
    quiet = mutant.model(users=False)
    starts = ((s, quiet.normal(s._replace(network=frozenset()))) for s in explored.reached)
    assert stuck(quiet, starts, all_ended_or_visibly_held)


def test_every_sentence_of_control_has_its_mutant() -> None:
    assert {mutant.without for mutant in MUTANTS} == {switch.name for switch in dataclasses.fields(Rules)}
