"""A site's word that it holds jobs of an origin that was put back, with a site that lies (`holding_word.py`)."""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.holding_word import HARMS, HoldingWord, Rules
from tests.protocol.search import explore

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
SWITCHES = [switch.name for switch in dataclasses.fields(Rules)]


@pytest.mark.wide
def test_no_lie_about_what_is_held_gives_anybody_a_job_it_was_not_offered() -> None:
    explored = explore(HoldingWord(epochs=4 if FULL else 3), HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")


@pytest.mark.parametrize("switch", SWITCHES)
def test_without_any_one_sentence_of_what_is_held_harm_is_found(switch: str) -> None:
    found = explore(HoldingWord(rules=Rules(**{switch: False})), HARMS).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")
