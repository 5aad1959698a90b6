"""Gangs planned by their predicted end, from what sites quote (SPEC K2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.model.job.spec import GroupSpec, Resources
from diana.model.views.decision import Decision
from tests.engine.bench import Grid
from tests.engine.builders import BOB, spec
from tests.engine.handover.test_gangs import begun
from tests.engine.handover.test_gangs import gang as submitted
from tests.engine.placement.test_gang_planning import answer, gang

SETTINGS = {"default_work_s": 30.0, "claim_ahead": 0, "migration": "off", "binding": "early"}


def grid(fast: float = 4.0) -> Grid:
    """A site that is idle and one that is `fast` times as fast, and full for 30 s."""
    made = Grid(SETTINGS, alpha=0, beta=4, gamma=4)
    for name, speed in (("beta", 1.0), ("gamma", fast)):
        made[name].settings = msgspec.structs.replace(made[name].settings, speed=speed)
        made[name].restart()
        made.settle()
    made["gamma"].submit(spec(4, sites=("gamma",), work_s=30.0 * fast), 4, 50, who=BOB)
    made.pass_time(2.0)
    return made


def planned(made: Grid, wanted: GroupSpec) -> Decision:
    told = answer(made, wanted)
    assert isinstance(told, fx.DecisionMade) and told.decision.gang is not None, told
    return told.decision


def wanted(components: str = "2x2", flexible: int = 0, slowdown: tuple[float, ...] = ()) -> GroupSpec:
    named = gang(components if not flexible else "", flexible, "turnaround", work_s=200.0)
    return msgspec.structs.replace(named, slowdown=slowdown)


def test_a_gang_waits_for_a_faster_site_where_it_ends_sooner_there_and_the_plan_says_why() -> None:
    found = planned(grid(), wanted())
    assert found.gang is not None and {one.site for one in found.gang.components} == {"gamma"}
    assert found.gang.policy == "turnaround" and found.gang.wait_s == pytest.approx(28.0, abs=1)
    assert found.reason.startswith("2 components at 1 site by turnaround: gamma; ")
    assert "; expected to end in 78 s: claimed by 28 s, run 50 s x 1 over 1 site" in found.reason
    slow = planned(grid(1.1), wanted())
    assert slow.gang is not None and {one.site for one in slow.gang.components} == {"beta"}
    assert slow.reason.endswith("; expected to end in 200 s: claimed by 0 s, run 200 s x 1 over 1 site")


def test_the_slowdown_of_the_job_file_weighs_the_sites_combined() -> None:
    made = Grid(SETTINGS, alpha=0, beta=4, gamma=4)
    two = planned(made, wanted(flexible=6))
    assert "expected to end in 200 s: claimed by 0 s, run 200 s x 1 over 2 sites" in two.reason
    slower = planned(made, wanted(flexible=6, slowdown=(1.0, 1.25)))
    assert "expected to end in 250 s: claimed by 0 s, run 200 s x 1.25 over 2 sites" in slower.reason
    made["beta"].submit(spec(2, sites=("beta",), work_s=90.0), 2, 50, who=BOB)
    made["gamma"].submit(spec(2, sites=("gamma",), work_s=600.0), 2, 51, who=BOB)
    made.pass_time(2.0)
    now = planned(made, wanted("2x2"))
    assert now.gang is not None and len({one.site for one in now.gang.components}) == 2
    waits = planned(made, wanted("2x2", slowdown=(1.0, 1.25)))
    assert waits.gang is not None and {one.site for one in waits.gang.components} == {"beta"}
    assert waits.gang.wait_s == pytest.approx(28.0, abs=1)


def test_a_program_of_which_nothing_is_known_runs_as_long_as_sites_assume() -> None:
    plain = planned(grid(), msgspec.structs.replace(wanted(), resources=Resources()))
    assert "expected to end in 30 s: claimed by 0 s, run 30 s" in plain.reason


def test_a_plan_tells_a_short_run_in_digits_that_show_it_and_what_is_idle_by_the_time_it_waits_for() -> None:
    short = planned(grid(), msgspec.structs.replace(wanted(), resources=Resources(work_s=0.25)))
    assert "expected to end in 0.25 s: claimed by 0 s, run 0.25 s x 1 over 1 site" in short.reason
    found = planned(grid(), wanted())
    assert found.gang is not None
    assert [one.reason for one in found.gang.components] == [
        "the emptiest, takes 2 of 4 idle by then",
        "takes 2 of 2 idle by then",
    ]


def test_a_gang_that_waits_for_its_site_begins_there() -> None:
    made = grid()
    wish = msgspec.structs.replace(submitted("2x2", work_s=200.0), gang_placement="turnaround")
    assert isinstance(made["alpha"].submit(wish, 2, 7), fx.GroupAccepted)
    made.pass_time(10.0)
    assert begun(made) == []
    made["gamma"].end()
    made.settle()
    made.pass_time(10.0)
    assert begun(made) == [("gamma", 0), ("gamma", 1)]


@pytest.mark.parametrize(
    ("slowdown", "told"),
    [
        ((1.1,), "begins with 1.1: want 1 first, for one site"),
        ((1.0, 1.5, 1.2), "falls from 1.5 to 1.2: want none below the one before it"),
        ((1.0, float("nan")), "nan: want factors of 1 to 1,000,000"),
        ((1.0, 0.5), "0.5: want factors of 1 to 1,000,000"),
        ((1.0,) * 65, "65 factors: want at most 64; the last goes on"),
    ],
)
def test_a_slowdown_that_cannot_be_is_refused_by_the_engine_too(slowdown: tuple[float, ...], told: str) -> None:
    found = answer(Grid(SETTINGS, alpha=4), wanted(slowdown=slowdown))
    assert isinstance(found, fx.Refusal) and (found.code, found.text) == ("usage", f"gang.slowdown: {told}")


def test_a_site_that_failed_the_last_try_is_taken_where_the_others_would_not_do() -> None:
    told = answer(grid(), wanted("3x2"))
    assert isinstance(told, fx.DecisionMade), told
    never = answer(grid(), wanted("5x2"))
    assert isinstance(never, fx.Refusal) and "; --components 4x2 is the most that fits" in never.text
