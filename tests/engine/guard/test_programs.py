"""The outcome of a user's program here speaks for its next group, and for nobody else's (SPEC U10, D7)."""

from __future__ import annotations

import pytest

from diana.engine.guard.guard import Guard
from diana.engine.guard.programs import MOST_OF_A_USER, MOST_USERS, NOTHING, Program, Programs
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from tests.engine.bench import Grid
from tests.engine.builders import BOB, spec
from tests.engine.guard.test_guard import LONG, STILL, ran_at, started_of

SLOTS = 64


def learned() -> Grid:
    """Alpha knows how long Alice's jobs of `LONG` run: they went well there."""
    grid = Grid(STILL, alpha=SLOTS, beta=1)
    _done(grid, 1)
    return grid


def _done(grid: Grid, number: int) -> None:
    grid["alpha"].submit(spec(3, work_s=LONG, sites=("alpha",)), 3, number)
    grid["alpha"].end()


def _failed(grid: Grid, number: int, jobs: int = 1) -> None:
    grid["alpha"].submit(spec(jobs, work_s=LONG, sites=("alpha",)), jobs, number)
    grid["alpha"].end(outcome=Outcome.FAILED)


def _begins_with(grid: Grid, number: int) -> int:
    grid["alpha"].submit(spec(60, work_s=LONG), 60, number)
    return started_of(grid, f"alpha-{number}")


def test_a_known_template_fills_every_slot_though_a_job_of_it_fails_now_and_then() -> None:
    grid = learned()
    for number in (2, 3):
        _failed(grid, number)
    assert _begins_with(grid, 4) == 60


def test_a_known_template_begins_anew_where_several_of_its_jobs_failed_in_a_row_whatever_their_groups() -> None:
    grid = learned()
    _failed(grid, 2, jobs=2)
    _failed(grid, 3)
    assert _begins_with(grid, 4) == 10


def test_one_that_does_well_between_them_ends_the_row() -> None:
    grid = learned()
    _failed(grid, 2, jobs=2)
    _done(grid, 3)
    _failed(grid, 4)
    assert _begins_with(grid, 5) == 60


def test_a_known_template_of_which_a_group_was_stopped_loses_ten_jobs_more_at_most_though_others_do_well() -> None:
    """The site was well again by the word of anybody's job, and its next group filled, and failed on, every slot."""
    grid = learned()
    alpha = grid["alpha"]
    alpha.submit(spec(200, work_s=LONG), 200, 2)
    assert started_of(grid, "alpha-2") == SLOTS
    while alpha.end(outcome=Outcome.FAILED):
        grid.settle()
    alpha.submit(spec(1, work_s=1.0), 1, 3, who=BOB)
    alpha.end()
    assert not alpha.engine.core.book(Guard).failing
    alpha.submit(spec(200, work_s=LONG), 200, 4)
    for _ in range(20):
        while alpha.end(outcome=Outcome.FAILED):
            grid.settle()
        grid.pass_time(1.0)
    assert 0 < ran_at(grid, "alpha", "alpha-4") <= 10


def test_a_group_that_began_with_credit_loses_it_with_the_word_of_its_program() -> None:
    grid = learned()
    alpha = grid["alpha"]
    alpha.submit(spec(100, work_s=LONG), 100, 2)
    guard, name = alpha.engine.core.book(Guard), GroupId("alpha-2")
    assert guard.here[name].credit == SLOTS
    guard.words.ended(guard.programs[name], GroupId("beta-1"), 0, 3, stopped=False)
    alpha.end(1, outcome=Outcome.CANCELLED)
    assert (guard.here[name].credit, started_of(grid, "alpha-2")) == (0, SLOTS - 1)


def test_jobs_told_together_are_no_row_where_any_did_well() -> None:
    known, program = Programs(), Program("u", "p")
    known.ended(program, GroupId("a-1"), 0, 2, stopped=False)
    known.ended(program, GroupId("a-1"), 5, 2, stopped=False)
    assert known.word(program) == NOTHING
    known.ended(program, GroupId("a-1"), 5, 9, stopped=True)
    known.ended(program, GroupId("a-2"), 0, 1, stopped=False)
    assert (known.word(program).stopped, known.word(program).fast, known.word(program).well) == (True, 10, None)
    known.went_well(program, GroupId("a-3"))
    assert known.word(program) == (GroupId("a-3"), 0, False)


@pytest.mark.parametrize("well", [True, False])
def test_who_has_very_many_programs_makes_nobody_elses_forgotten(well: bool) -> None:
    known, other = Programs(), Program("bob@vo", "p")

    def note(program: Program) -> None:
        known.ended(program, GroupId("a-1"), int(well), int(not well), stopped=False)

    note(other)
    for n in range(30 * MOST_OF_A_USER):
        note(Program("alice@vo", f"p{n}"))
    kept = [n for n in range(30 * MOST_OF_A_USER) if known.word(Program("alice@vo", f"p{n}")) != NOTHING]
    assert kept == list(range(29 * MOST_OF_A_USER, 30 * MOST_OF_A_USER))
    assert known.word(other) != NOTHING
    for n in range(MOST_USERS):
        note(Program(f"u{n}", "p"))
    assert known.word(other) == NOTHING and known.word(Program("u0", "p")) != NOTHING
