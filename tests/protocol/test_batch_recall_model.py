"""PROMISES section 2 "Recall" of what waits in a batch system, searched: the node is killed and loses power at every
point, while the batch system starts, kills, starts again and loses tasks.

`make test` searches two attempts; DIANA_FULL=1 three. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import pytest

from tests.protocol.batch_recall import (
    HARMS,
    BatchRecall,
    Rules,
    State,
    nothing_is_begun_twice,
)
from tests.protocol.search import explore, stuck

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
MODEL = BatchRecall(attempts=3 if FULL else 2)
HARMFUL = (
    "task_makes_its_gate",
    "node_makes_the_gate",
    "made_gate_is_left",
    "gate_kept_first",
    "written_before_submitted",
    "forgets_after_journal",
    "ends_name_attempts",
    "starts_name_sessions",
    "folder_goes_at_once",
)
LEFT_BEHIND = ("ends_told_until_forgotten", "recalled_at_greeting", "returned_may_go")


def is_over(s: State) -> bool:
    """Or all attempts of the model are used up."""
    return s.job.state == "done" or (s.job.state == "pending" and s.job.attempt == len(s.arrays))


def goes_on(s: State) -> bool:
    """True if the job goes on though the batch system starts nothing more: it is done, went elsewhere, or may have
    begun."""
    return s.job.state in ("done", "gone") or bool(s.starts) or s.voided


def left_behind(model: BatchRecall, goal: Callable[[State], bool], *, busy: bool) -> list[State]:
    quiet = dataclasses.replace(model, quiet=True, busy=busy)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, s) for s in reached if s.wants == "moves"), goal)


def without(switch: str) -> BatchRecall:
    return dataclasses.replace(BatchRecall(attempts=2), rules=Rules(**{switch: False}))


@pytest.mark.wide
def test_what_waits_in_a_batch_system_is_begun_once_wherever_it_goes_and_ends() -> None:
    explored = explore(MODEL, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{MODEL.attempts} attempts: {len(explored.reached)} states, {explored.steps} steps")
    assert not left_behind(MODEL, is_over, busy=False)


@pytest.mark.wide
def test_it_goes_elsewhere_though_the_batch_system_starts_nothing_more() -> None:
    assert not left_behind(BatchRecall(attempts=2), goes_on, busy=True)


@pytest.mark.wide
def test_a_run_may_begin_there_while_it_is_called_back_and_may_go_after_it_was_given_twice() -> None:
    reached = explore(BatchRecall(attempts=2), HARMS).reached
    assert any(s.closing and s.arrays[0].running and s.wants == "moves" for s in reached)
    assert any(s.job.state == "gone" and s.arrays[1].ledger == "unbegun" for s in reached)


@pytest.mark.wide
@pytest.mark.parametrize("switch", HARMFUL)
def test_without_any_one_sentence_something_is_begun_twice(switch: str) -> None:
    found = explore(without(switch), [nothing_is_begun_twice]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


@pytest.mark.wide
@pytest.mark.parametrize("switch", LEFT_BEHIND)
def test_without_any_one_of_these_a_job_stays_behind_in_a_busy_batch_system(switch: str) -> None:
    assert left_behind(without(switch), goes_on, busy=True)


def test_every_sentence_has_its_mutant() -> None:
    assert {*HARMFUL, *LEFT_BEHIND} == {switch.name for switch in dataclasses.fields(Rules)}
