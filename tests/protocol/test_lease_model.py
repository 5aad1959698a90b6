"""PROMISES section 2 "Leases", searched: renewals late and lost, clocks that differ, a stopped node, a machine that
stands still. DIANA_FULL=1 lets more renewals be on their way. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.lease import (
    Lease,
    Rules,
    the_job_has_an_owner_who_can_end_it,
    the_old_copy_is_dead_when_the_new_may_start,
)
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
SENTENCES = tuple(switch.name for switch in dataclasses.fields(Rules))
HARM = the_old_copy_is_dead_when_the_new_may_start


@pytest.mark.wide
def test_whatever_is_late_or_stopped_the_old_copy_is_dead_before_the_job_is_reassigned() -> None:
    model = Lease(renewals=2 if FULL else 1)
    explored = explore(model, [HARM])
    assert explored.found is None, str(explored.found)
    print(f"{model.renewals} renewals: {len(explored.reached)} states, {explored.steps} steps")
    healed = ((s, s._replace(network=frozenset())) for s in explored.reached)
    assert not stuck(model, healed, the_job_has_an_owner_who_can_end_it)


@pytest.mark.wide
@pytest.mark.parametrize("switch", SENTENCES)
def test_without_any_one_sentence_of_leases_two_copies_run(switch: str) -> None:
    found = explore(Lease(Rules(**{switch: False}), renewals=1), [HARM]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")
