"""SPEC D4 and K5, searched: a job that makes way for a claim is ended once, runs anew once, and is neither lost nor
doubled, wherever its site crashes."""

from __future__ import annotations

import dataclasses

import pytest

from tests.protocol import making_way as must
from tests.protocol.making_way import MakingWay, Rules, State
from tests.protocol.search import explore, stuck

HARM = {
    "kept_first": must.nothing_fails_for_a_claim,
    "end_first": must.one_attempt_lives,
    "done_stands": must.what_is_done_does_not_begin_again,
    "names_attempt": must.one_attempt_lives,
    "cancel_wins": must.what_is_cancelled_stays_so,
    "room_is_kept": must.one_claim_ends_it_once,
}
STANDS_STILL = ("told_again",)


def stuck_once_all_heals(model: MakingWay) -> list[State]:
    """States from which, with nothing under way, the gang never runs or the job is left for ever."""
    reached = explore(model, HARM.values()).reached
    return stuck(model, ((s, model.normal(s._replace(network=frozenset()))) for s in reached), must.all_is_well)


@pytest.mark.parametrize("endless", [False, True])
def test_a_job_that_makes_way_runs_anew_once_and_the_claim_has_its_processor(endless: bool) -> None:
    model = MakingWay(endless=endless)
    explored = explore(model, HARM.values())
    assert explored.found is None, str(explored.found)
    print(f"{len(explored.reached)} states, {explored.steps} steps")
    assert any(s.rows[0].phase == "made way" and s.claim == "over" for s in explored.reached)
    assert not stuck_once_all_heals(model)


@pytest.mark.parametrize("switch", HARM)
def test_without_any_one_sentence_harm_is_done(switch: str) -> None:
    found = explore(MakingWay(rules=Rules(**{switch: False})), [HARM[switch]]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


@pytest.mark.parametrize("switch", STANDS_STILL)
def test_without_these_a_claim_may_wait_for_ever(switch: str) -> None:
    assert stuck_once_all_heals(MakingWay(rules=Rules(**{switch: False}), endless=True))


def test_every_sentence_has_its_mutant() -> None:
    assert {*HARM, *STANDS_STILL} == {switch.name for switch in dataclasses.fields(Rules)}
