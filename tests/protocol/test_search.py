"""The search itself, on a toy whose answers are known: a counter that may step by one or jump by three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.protocol.search import Faultless, Kind, Patient, Step, endless, explore, stuck


@dataclass(frozen=True)
class Counter:
    """Counts up to `end`; from `trap` on there is no way out."""

    end: int = 10
    trap: int = 100

    def initial(self) -> int:
        return 0

    def transitions(self, state: int) -> Iterator[Step[int]]:
        for name, by in (("step", 1), ("jump", 3)):
            if state + by <= self.end and state < self.trap:
                yield Step(name, state + by)


def never_seven(state: int) -> str | None:
    return "seven" if state == 7 else None


def no_jump_over_five(before: int, after: int) -> str | None:
    return f"from {before} to {after}" if before < 5 < after else None


def test_every_reachable_state_is_reached_once() -> None:
    explored = explore(Counter())
    assert (set(explored.reached), explored.found, explored.steps) == (set(range(11)), None, 18)


def test_a_counterexample_is_a_shortest_story() -> None:
    found = explore(Counter(), [never_seven]).found
    assert found is not None and sorted(found.steps) == ["jump", "jump", "step"]
    assert str(found).splitlines()[0] == "never seven: seven, after 3 steps"
    assert str(found).splitlines()[1].strip().startswith("1. ")


def test_a_rule_sees_each_step_also_between_known_states() -> None:
    found = explore(Counter(), rules=[no_jump_over_five]).found
    assert found is not None and found.broken == "no jump over five" and found.how == "from 3 to 6"


def test_the_beginning_too_must_hold() -> None:
    found = explore(Counter(), [lambda state: "zero" if state == 0 else None]).found
    assert found is not None and found.steps == ()


def test_a_search_cut_short_shows_nothing_and_says_so() -> None:
    with pytest.raises(MemoryError, match="make the bound smaller"):
        explore(Counter(end=1_000), states_at_most=100)


def test_the_stuck_are_those_that_cannot_reach_the_goal() -> None:
    model = Counter(end=10, trap=8)
    starts = [(state, state) for state in range(11)]
    assert stuck(model, starts, lambda state: state == 10) == [8, 9]
    assert stuck(model, reversed(starts), lambda state: state == 10) == [9, 8]


@dataclass(frozen=True)
class Road:
    """Named steps between numbers, each of a kind."""

    steps: tuple[tuple[str, int, int, Kind], ...]

    def initial(self) -> int:
        return 0

    def transitions(self, state: int) -> Iterator[Step[int]]:
        return (Step(name, to, kind) for name, at, to, kind in self.steps if at == state)


ROUND: tuple[tuple[str, int, int, Kind], ...] = (
    ("sets out", 0, 1, "by itself"),
    ("goes on", 1, 2, "by itself"),
    ("waits no longer", 2, 1, "time-out"),
)


def test_a_schedule_without_end_is_told_by_its_circle_alone() -> None:
    assert endless(Road(ROUND), [0]) == ("goes on", "waits no longer")
    assert endless(Road(ROUND), [2]) == ("waits no longer", "goes on")


def test_schedules_that_meet_again_without_a_circle_end() -> None:
    assert endless(Counter(), [0, 3, 10]) is None


def test_the_patient_take_a_time_out_only_where_nothing_goes_by_itself() -> None:
    home = Road((*ROUND, ("comes home", 2, 3, "by itself")))
    assert endless(home, [0]) is not None
    assert endless(Patient(home), [0]) is None
    assert endless(Patient(Road(ROUND)), [0]) is not None


def test_a_deadline_is_later_than_all_other_time_outs() -> None:
    road = Road((*ROUND, ("is too late", 2, 6, "deadline"), ("is too late", 1, 7, "deadline")))
    assert set(explore(Faultless(road)).reached) == {0, 1, 2, 6, 7}
    assert set(explore(Patient(road)).reached) == {0, 1, 2}
    assert set(explore(Patient(Road((("is too late", 0, 6, "deadline"),)))).reached) == {0, 6}


def test_the_patient_and_the_faultless_leave_out_faults_and_nobody_waits_for_a_whim() -> None:
    road = Road((*ROUND, ("falls", 0, 4, "fault"), ("has a whim", 2, 5, "whim")))
    assert set(explore(road).reached) == {0, 1, 2, 4, 5}
    assert set(explore(Faultless(road)).reached) == {0, 1, 2}
    assert set(explore(Patient(road)).reached) == {0, 1, 2, 5}
    assert set(explore(Patient(road, whims=False)).reached) == {0, 1, 2}
