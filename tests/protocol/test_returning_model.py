"""Groups that a journal lost and that peers show again, with a site that lies (`returning.py`)."""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol.returning import HARMS, Returning, Rules
from tests.protocol.search import explore

SWITCHES = [switch.name for switch in dataclasses.fields(Rules)]


def test_groups_come_back_from_honest_sites_and_no_lie_makes_one_or_has_a_job_run_twice() -> None:
    explored = explore(Returning(), HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")


@pytest.mark.parametrize("switch", SWITCHES)
def test_without_any_one_sentence_of_coming_back_harm_is_found(switch: str) -> None:
    found = explore(Returning(Rules(**{switch: False})), HARMS).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")
