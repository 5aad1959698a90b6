"""A peer's word that a journal fell, searched with a site that lies (`testimony.py`): no lie starts a whole journal
anew, nor keeps its job from starting, and what the lies are met with starts nothing twice."""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.search import explore, stuck
from tests.protocol.testimony import HARMS, JournalWord, Rules, State, started_or_held_as_older

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []
HARMFUL = (
    "needs_evidence",
    "evidence_is_later",
    "of_another_boot",
    "of_this_name",
    "says_its_names",
    "every_length_sealed",
    "length_of_its_boot",
    "seal_kept_with_length",
)
"""Sentences without which something is started twice, or anew."""


def stuck_without_an_operator(model: JournalWord) -> list[State]:
    """States of which the job never starts, once nothing breaks any more, though the journal was never set back."""
    quiet = dataclasses.replace(model, troubled=False)
    reached = explore(model, HARMS).reached
    return stuck(quiet, ((s, s) for s in reached), started_or_held_as_older)


@pytest.mark.wide
def test_no_lie_about_a_journal_starts_it_anew_or_a_job_twice_and_none_needs_an_operator() -> None:
    model = JournalWord(faults=3 if FULL else 2)
    explored = explore(model, HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")
    assert not stuck_without_an_operator(model)


@pytest.mark.wide
def test_nor_where_the_friend_is_of_a_release_that_keeps_no_seals() -> None:
    explored = explore(JournalWord(old_friend=True), HARMS)
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")


@pytest.mark.parametrize("switch", HARMFUL)
def test_without_any_one_sentence_of_testimony_harm_is_found(switch: str) -> None:
    found = explore(JournalWord(rules=Rules(**{switch: False})), HARMS).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


def test_without_the_word_of_old_releases_a_job_is_started_twice() -> None:
    found = explore(JournalWord(rules=Rules(old_release_heard=False), old_friend=True), HARMS).found
    assert found is not None
    print(f"without old_release_heard: {found}")


@pytest.mark.wide
def test_whoever_kept_seals_and_says_that_it_does_not_would_hold_a_job_up_for_an_operator() -> None:
    model = JournalWord(rules=Rules(no_way_back=False))
    assert explore(model, HARMS).found is None
    assert any(s.denied and s.whole for s in stuck_without_an_operator(model))


def test_every_sentence_of_testimony_has_its_mutant() -> None:
    assert {*HARMFUL, "old_release_heard", "no_way_back"} == {switch.name for switch in dataclasses.fields(Rules)}
