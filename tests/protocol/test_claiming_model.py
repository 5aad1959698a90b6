"""SPEC K5 to K7 and PROMISES section 4 (I1, I4, I7), searched: no component of a gang starts without GO, no attempt
overlaps the last, no processor is held twice, and where nothing fails all components start, without endless tries.

A lying site is searched too: `claiming.py` begins with what the engine must check. `make test` searches the smaller
worlds; `make soak PARTS=wide` the others. A failure prints the shortest story.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator

import pytest

from tests.protocol.claiming import Claiming
from tests.protocol.claiming_lease import ClaimsLease, LeaseRules, what_is_taken_for_dead_neither_stands_nor_runs
from tests.protocol.claiming_rules import Must
from tests.protocol.claiming_setting import (
    A_LIAR,
    CALM,
    ONE_JOB,
    THREE_SITES,
    TWO_JOBS,
    TWO_JOBS_AND_A_LIAR,
    Rules,
    World,
)
from tests.protocol.claiming_state import State
from tests.protocol.search import Counterexample, Explored, Faultless, Patient, endless, explore, name_of, stuck

ATOMIC = dataclasses.replace(TWO_JOBS, atomic=True)
WORLDS = {
    "one job, all claimed at once": dataclasses.replace(CALM, atomic=True),
    "a liar": A_LIAR,
}
WIDE = {
    "one job, a plain site and a cluster, local work": ONE_JOB,
    "one job, all claimed at once, local work": dataclasses.replace(ONE_JOB, atomic=True),
    "one job of three components": THREE_SITES,
    "two jobs on the same two processors, any number of tries": TWO_JOBS,
    "two jobs, all claimed at once": ATOMIC,
    "two jobs, the lesser may be pre-empted while it runs": dataclasses.replace(TWO_JOBS, preempts=True),
    "two jobs, crashes, deaths, leases that end": dataclasses.replace(TWO_JOBS, faults=True),
    "two jobs, and a liar that the lesser may meet": TWO_JOBS_AND_A_LIAR,
}
START = "nothing starts without a durable go"
ATTEMPTS = "one attempt of a component is live"
CLOSED = "what is closed at its origin holds nothing"
AGAIN = "what was closed holds nothing again"
BARRIER = "go only when all stand at the barrier"
HARMFUL: dict[str, tuple[World, str]] = {
    "go_kept_first": (CALM, START),
    "lease_waited_for": (CALM, CLOSED),
    "epochs": (CALM, BARRIER),
    "abort_ends": (CALM, ATTEMPTS),
    "barrier": (CALM, START),
    "claim_kept_first": (ONE_JOB, "no processor is held twice"),
    "tombstone": (CALM, BARRIER),
    "all_closed_first": (CALM, START),
    "all_results": (CALM, "a job that is done has ended everywhere"),
    "gate": (CALM, AGAIN),
}
GOES_WRONG_IN_TIME = {
    "lets_go": "a state from which no schedule finishes",
    "ranks": "a schedule without faults that never ends",
    "better_first": "a schedule without faults that never ends",
    "origin_yields": "no go is given up",
}
"""Sentences without which nothing breaks at once, and what comes of two jobs on the same processors."""
UNGUARDED = ("gives_up_first", "avoids_who_failed")
"""Sentences against a site that is silent: it fails only the component it has, and for one try."""
LIE = "a lie reaches no farther than the liars component"
BELIEVES: dict[str, tuple[str, ...]] = {
    "site_speaks_for_itself": (BARRIER, CLOSED, START, "a job that is done has ended everywhere"),
    "epoch_of_now": (BARRIER, CLOSED, START, "a job that is done has ended everywhere"),
    "offered_only": (),
    "site_hears_the_origin_alone": (START,),
}
"""Checks that keep a lie where it belongs, and what honest components suffer without them. A claim of what was never
offered takes the component away from its site, as if it had been placed anew: that is all the harm."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Tuples by the million and no circle among them: the collector would take a third of the time."""
    gc.disable()
    yield
    gc.enable()


def searched(model: Claiming) -> Explored[State]:
    must = Must(model.on)
    return explore(model, must.invariants, must.rules)


def goes_wrong_in_time(model: Claiming, reached: Explored[State]) -> str | None:
    """Where all messages are lost and nothing fails from then on: a state from which no schedule finishes; else a
    circle that patient schedules may go round; else a GO that is given up though nothing failed from the beginning."""
    calm = model.calm()
    must, starts = Must(calm.on), list(dict.fromkeys(map(calm.with_all_messages_lost, reached.reached)))
    if left := stuck(Faultless(calm), ((start, start) for start in starts), must.all_is_done):
        return f"a state from which no schedule finishes: {left[0]}"
    if circle := endless(Patient(calm), starts):
        return f"a schedule without faults that never ends: {circle}"
    torn = None if model.world.preempts else explore(Patient(calm), [must.no_go_is_given_up]).found
    return str(torn) if torn else None


@pytest.mark.wide
@pytest.mark.parametrize(
    "world", [*WORLDS, *(pytest.param(world, marks=[pytest.mark.wide, pytest.mark.timeout(900)]) for world in WIDE)]
)
def test_components_start_together_and_where_nothing_fails_all_jobs_get_done(world: str) -> None:
    model = Claiming((WORLDS | WIDE)[world])
    explored = searched(model)
    assert explored.found is None, str(explored.found)
    print(f"{world}: {len(explored.reached)} states, {explored.steps} steps")
    for phase in ("claiming", "released", "giving up", "done"):
        met = sum(any(job.phase == phase for job in s.jobs) for s in explored.reached)
        assert met, f"no job was ever {phase}: a search that does not come so far shows nothing"
        print(f"  with a job {phase}: {met}")
    assert goes_wrong_in_time(model, explored) is None


@pytest.mark.wide
@pytest.mark.parametrize("switch", HARMFUL)
def test_without_any_one_sentence_of_claiming_harm_is_found(switch: str) -> None:
    world, harm = HARMFUL[switch]
    found = searched(Claiming(world, Rules(**{switch: False}))).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    assert found.broken == harm, str(found)
    print(f"without {switch}: {found}")


@pytest.mark.parametrize(
    "switch",
    [pytest.param(switch, marks=[pytest.mark.wide, pytest.mark.timeout(900)]) for switch in GOES_WRONG_IN_TIME],
)
def test_without_ranks_or_yielding_two_jobs_wait_for_each_other_for_ever_or_tear_each_other(switch: str) -> None:
    model = Claiming(TWO_JOBS, Rules(**{switch: False}))
    explored = searched(model)
    assert explored.found is None, str(explored.found)
    wrong = goes_wrong_in_time(model, explored)
    assert wrong is not None, f"nothing comes of leaving out {switch}"
    assert wrong.startswith(GOES_WRONG_IN_TIME[switch]), wrong
    print(f"without {switch}: {wrong}")


@pytest.mark.wide
@pytest.mark.parametrize("switch", BELIEVES)
def test_a_lie_that_is_believed_reaches_beyond_the_liars_component_and_harms_honest_ones(switch: str) -> None:
    model = Claiming(A_LIAR, Rules(**{switch: False}))
    found = searched(model).found
    assert found is not None and found.broken == LIE, f"nothing comes of leaving out {switch}: {found}"
    print(f"without {switch}: {found}")
    for harm in BELIEVES[switch]:
        found = harmed(model, harm)
        assert found is not None, f"without {switch} never is broken: {harm}"
        print(f"  and: {found}")


@pytest.mark.wide
@pytest.mark.parametrize("switch", UNGUARDED)
def test_where_a_silent_site_is_waited_for_too_long_or_chosen_again_tries_never_end(switch: str) -> None:
    model = Claiming(A_LIAR, Rules(**{switch: False}))
    explored = searched(model)
    assert explored.found is None, str(explored.found)
    wrong = goes_wrong_in_time(model, explored)
    assert wrong is not None, f"nothing comes of leaving out {switch}"
    assert wrong.startswith("a schedule without faults that never ends"), wrong
    print(f"without {switch}: {wrong}")


def test_where_a_claim_may_lapse_while_its_origin_waits_a_silent_site_tears_a_gang_it_is_no_part_of() -> None:
    calm = Claiming(A_LIAR, Rules(gives_up_first=False)).calm()
    found = explore(Patient(calm), [Must(calm.on).no_go_is_given_up]).found
    assert found is not None, "nothing comes of it"
    print(found)


def harmed(model: Claiming, harm: str) -> Counterexample | None:
    """A shortest way to one harm; others on the way are overlooked."""
    must = Must(model.on)
    invariants = [one for one in must.invariants if name_of(one) == harm]
    rules = [one for one in must.rules if name_of(one) == harm]
    assert len(invariants) + len(rules) == 1
    return explore(model, invariants, rules).found


def test_with_a_liar_in_the_gang_too_the_next_attempt_begins_when_all_of_the_last_one_is_closed() -> None:
    found = searched(Claiming(A_LIAR, Rules(all_closed_first=False))).found
    assert found is not None and found.broken == START, str(found)
    print(found)


def test_what_is_taken_for_dead_by_its_origin_is_dead_at_its_site() -> None:
    explored = explore(ClaimsLease(), [what_is_taken_for_dead_neither_stands_nor_runs])
    assert explored.found is None, str(explored.found)
    print(f"lease and barrier in ticks: {len(explored.reached)} states, {explored.steps} steps")


@pytest.mark.parametrize("switch", [switch.name for switch in dataclasses.fields(LeaseRules)])
def test_without_any_one_sentence_of_a_claims_lease_the_dead_stand_or_run(switch: str) -> None:
    model = ClaimsLease(LeaseRules(**{switch: False}))
    found = explore(model, [what_is_taken_for_dead_neither_stands_nor_runs]).found
    assert found is not None, f"nothing comes of leaving out {switch}"
    print(f"without {switch}: {found}")


def test_every_sentence_of_claiming_has_its_mutant() -> None:
    assert {*HARMFUL, *GOES_WRONG_IN_TIME, *UNGUARDED, *BELIEVES} == {
        switch.name for switch in dataclasses.fields(Rules)
    }
