"""PROMISES section 2 "Standby" (row D8), searched: no harm in any interleaving, and progress once all heals.

`make test` searches small bounds; DIANA_FULL=1 the full ones (some minutes). A failure prints the shortest story.
"""

from __future__ import annotations

import os

import pytest

from tests.protocol.search import Explored, explore
from tests.protocol.standby import Standby
from tests.protocol.standby_progress import HEALINGS, UNESTABLISHED
from tests.protocol.standby_rules import HARMS, RULES
from tests.protocol.standby_setting import ALONE, CONFLICTS, JOURNAL, WORK, Setting
from tests.protocol.standby_state import State

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
WORLDS = {
    "one record, a lost disk": JOURNAL if FULL else JOURNAL.with_terms(2),
    "two records": CONFLICTS if FULL else CONFLICTS.with_terms(2).writing_through(),
    "one job, two workers": WORK if FULL else WORK.with_terms(2),
    "begins alone": ALONE if FULL else ALONE.with_terms(3),
}
HEALED = {
    "one record, a lost disk": JOURNAL.with_terms(3 if FULL else 2),
    "one job, two workers": WORK.with_terms(2),
}


def searched(on: Setting) -> Explored[State]:
    return explore(Standby(on), HARMS, RULES)


@pytest.mark.wide
@pytest.mark.parametrize("world", WORLDS)
def test_no_interleaving_of_the_protocol_does_harm(world: str) -> None:
    explored = searched(WORLDS[world])
    assert explored.found is None, str(explored.found)
    assert len(explored.reached) > 1_000  # a search that stands still shows nothing
    print(f"{world}: {len(explored.reached)} states, {explored.steps} steps")


@pytest.mark.wide
@pytest.mark.parametrize("world", HEALED if FULL else list(HEALED)[:1])
def test_progress_can_be_reached_from_every_state_once_all_heals(world: str) -> None:
    on = HEALED[world]
    reached = searched(on).reached
    for healing in HEALINGS:
        count, without_progress = healing.stuck(on, reached)
        if count == 0:
            assert not on.bound.disk_losses, healing.sentence
        print(f"{world}, {healing.sentence}: {count} states")
        assert not without_progress, healing.sentence


@pytest.mark.wide
def test_without_the_witness_no_role_changes_so_a_group_without_a_leader_waits() -> None:
    on = JOURNAL.with_terms(2)
    reached = searched(on).reached
    count, without_progress = UNESTABLISHED.stuck(on, reached)
    assert 0 < len(without_progress) <= count
