"""DIANA section VI, priority and multilevel queues, sentence by sentence (SPEC D3, D4, D5)."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.model.ids import group_of
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.queueing import Waiting, entry

CALM: dict[str, object] = {"priority_mode": "paper", "time_threshold_s": 0.0, "claim_ahead": 1}


def owners(site: Site) -> list[str]:
    """Owners of the started jobs, in the order of their starts."""
    return [site.group(group_of(run.subgroup)).owner for run in site.started]


def test_the_processor_goes_to_the_highest_priority() -> None:
    """`A priority is associated with each process and the CPU is allocated to the process with the highest one`"""
    waiting = Waiting(entry("A", jobs=9), entry("B", jobs=1))
    assert waiting.priorities()["B"] > waiting.priorities()["A"]
    assert waiting.start(2) == ["B", "A"]


def test_equal_priorities_are_first_come_first_served() -> None:
    """`Equal priority processes are scheduled on a First Come First Served (FCFS) basis.`"""
    waiting = Waiting(*(entry(f"A{k}", "A", submitted_s=t) for k, t in enumerate((5.0, 2.0, 9.0, 0.0))))
    assert waiting.start(4) == ["A3", "A1", "A0", "A2"]


def test_users_set_no_priority() -> None:
    """`Priorities can be defined either internally or externally`; SPEC D11: no user-settable priority: a job file
    has no such key."""
    fields = {f for part in (spec(1), spec(1).resources) for f in part.__struct_fields__}
    assert not [f for f in fields if "prio" in f or "nice" in f or "deadline" in f or "budget" in f]


def test_a_new_job_goes_ahead_of_the_queue_and_aborts_nothing() -> None:
    """`it simply places the new job at the head of the ready queue and does not abort the running job` (SPEC D4:
    non-pre-emptive)."""
    grid = Grid(CALM, alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(40, work_s=50.0), 40, who=ALICE)
    running = list(alpha.running)
    alpha.submit(spec(1), 1, request=2, who=BOB)
    assert list(alpha.running) == running, "three of Alice's run or are claimed, and go on"
    assert not alpha.kills and not any(isinstance(e, fx.KillRuns) for e in alpha.trace)
    alpha.end(2)
    assert owners(alpha)[3] == BOB.name


def test_nothing_is_sliced_round_robin() -> None:
    """`A 'Round Robin' approach inside queues is not feasible in this case`: within a priority a group starts whole."""
    waiting = Waiting(entry("A1", jobs=3, submitted_s=0), entry("A2", jobs=3, submitted_s=1))
    assert waiting.start(6) == ["A1"] * 3 + ["A2"] * 3


def test_jobs_move_between_the_levels() -> None:
    """`We have employed multilevel feedback queue scheduling ... since it allows a job to move between queues.`"""
    waiting = Waiting(entry("A", jobs=4, processors=1))
    seen = [waiting.at("A").level.name]
    waiting.arrive(entry("Ax", processors=12))
    seen.append(waiting.at("A").level.name)
    waiting.arrive(*(entry(f"{user}", jobs=1) for user in "BCDEFGH"))
    seen.append(waiting.at("A").level.name)
    waiting.arrive(*(entry(f"{user}", jobs=1) for user in "IJKLMNOPQRSTUVWXYZ"))
    seen.append(waiting.at("A").level.name)
    assert seen == ["Q2", "Q1", "Q3", "Q4"]


def test_what_waits_too_long_moves_up() -> None:
    """`a job that waits too long in a lower-priority queue may be moved to a higher-priority queue`"""
    waiting = Waiting(entry("A", jobs=50), entry("B"), entry("C"), time_threshold_s=100)
    levels = [waiting.at("A", now).level.name for now in (0, 99, 100, 200, 300, 400, 500, 9999)]
    assert levels == ["Q4", "Q4", "Q3", "Q3", "Q2", "Q2", "Q1", "Q1"]


def test_wide_work_starts_although_narrow_work_keeps_coming() -> None:
    """`this can create starvation` is what the reservation ends: the best job that does not fit keeps its processors,
    and claiming ahead stops while it waits."""
    grid = Grid({**CALM, "claim_ahead": 8}, alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0), 4, who=ALICE)
    alpha.submit(spec(1, work_s=10.0, processors=3), 1, request=2, who=BOB)
    alpha.submit(spec(400, work_s=100.0), 400, request=3, who=ALICE)
    assert len(alpha.started) == 4, "nothing is claimed ahead of the wide job"
    grid.pass_time(100.0)
    for _ in range(3):
        alpha.end(1)
    assert owners(alpha)[:5] == [ALICE.name] * 4 + [BOB.name]


def test_wide_work_that_fits_in_part_keeps_processors_for_the_rest() -> None:
    """Two of three jobs of two processors fit on five slots: narrow work may have the fifth, which the third will not
    need, and claims nothing ahead of it."""
    grid = Grid({**CALM, "claim_ahead": 8}, alpha=5)
    alpha = grid["alpha"]
    alpha.submit(spec(5, work_s=50.0), 5, who=ALICE)
    alpha.submit(spec(3, work_s=50.0, processors=2), 3, request=2, who=BOB)
    alpha.submit(spec(90, work_s=80.0), 90, request=3, who=ALICE)
    alpha.end(5)
    assert owners(alpha) == [ALICE.name] * 5 + [BOB.name] * 2 + [ALICE.name]
    alpha.end(1)
    grid.pass_time(1.0)
    assert owners(alpha)[8] == BOB.name


@pytest.mark.parametrize(("work_s", "passes"), [(5.0, True), (50.0, False)])
def test_narrow_work_passes_a_reservation_only_if_it_does_not_delay_it(work_s: float, passes: bool) -> None:
    """Four slots: two are busy for 20 s, the wide one needs all four; what ends before may use the two."""
    grid = Grid(CALM, alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(1, work_s=20.0, processors=2), 1, who=ALICE)
    alpha.submit(spec(1, work_s=10.0, processors=4), 1, request=2, who=BOB)
    alpha.submit(spec(30, work_s=work_s), 30, request=3, who=ALICE)
    narrow = [run for run in alpha.running if run.subgroup.startswith("alpha-3")]
    assert len(narrow) == (2 if passes else 0)
