"""Gangs that no site, or no pair of sites, can ever run are refused in one line, with what would do (SPEC K1, K7)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.model.job.spec import Axis, ComponentSpec, FlexibleSpec, GroupSpec, Sweep
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.dispatch.test_maintenance import announce
from tests.engine.handover.test_gangs import COMPONENT, gang


def refused(wanted: GroupSpec, **slots: int) -> str:
    answer = Grid(**(slots or {"alpha": 2, "beta": 4, "gamma": 2}))["alpha"].submit(wanted, wanted.gang_size)
    assert isinstance(answer, fx.Refusal), answer
    assert "\n" not in answer.text
    return answer.text


@pytest.mark.parametrize(
    ("components", "told"),
    [
        ("9x1", "component 9 wants 1 processor; the most that is left is 0 at alpha; --components 8x1 is the most"),
        ("4x2+1x2", "--components 4x2 is the most that fits"),
        ("2x3+1x4", "component 1 wants 3 processors; the most that is idle is 0 at beta (alpha: has 2 of the 3"),
        ("1x5", "alpha: has 2 of the 5 processors a job needs; beta: has 4 of the 5 processors a job needs"),
        ("1x1@delta", "component at delta: no site known here; see diana sites"),
        ("5x1@beta", "component 5 wants 1 processor; beta has 0 left of 4"),
    ],
)
def test_what_the_sites_can_never_give_is_refused_with_what_they_can(components: str, told: str) -> None:
    assert told in refused(gang(components))


def test_a_component_whose_site_is_given_is_refused_by_that_site_alone() -> None:
    assert refused(gang("2x3@beta")).endswith("component 2 wants 3 processors; beta has 1 left of 4")


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({"count": 8}, "component sim wants 1 processor; the most that is left is 0"),
        ({"count": 5, "site": "beta"}, "component sim wants 1 processor; beta has 0 left of 4"),
        ({"site": "delta"}, "component sim at delta: no site known here"),
        ({"requirements": ("site.speed > 3",)}, "component sim: no site meets site.speed > 3"),
    ],
)
def test_a_component_that_has_a_name_is_called_by_it(odd: dict[str, object], told: str) -> None:
    sim = msgspec.structs.replace(ComponentSpec(name="sim"), **odd)
    said = refused(msgspec.structs.replace(gang("2x1"), components=(ComponentSpec(), sim)))
    assert told in said


def test_a_refusal_by_many_sites_names_three_and_the_number_of_the_others() -> None:
    many = {"alpha": 2, "beta": 4, "gamma": 2, "delta": 2, "epsilon": 2}
    told = refused(gang("1x5"), **many)
    assert told.endswith("; 2 more sites)") and told.count("of the 5 processors") == 3
    fast = ComponentSpec(requirements=("site.speed > 3",))
    told = refused(msgspec.structs.replace(gang("1x1"), components=(fast,)), **many)
    assert "no site meets site.speed > 3 (" in told and told.endswith("; 2 more sites)")


def test_a_flexible_job_of_more_than_all_sites_have_is_told_how_much_fits() -> None:
    wanted = spec(1)
    axes = (Axis(name="job", start=0, stop=1), Axis(name=COMPONENT, start=0, stop=8))
    wanted = msgspec.structs.replace(wanted, flexible=FlexibleSpec(processors=12), sweep=Sweep(axes=axes))
    assert "; --flexible 8 is the most that fits" in refused(wanted)


def test_a_runner_that_is_installed_at_no_site_is_refused_before_anything_is_claimed() -> None:
    wanted = msgspec.structs.replace(gang("2x1"), runner="mpi")
    told = refused(wanted)
    assert "no site may run it (alpha: has no launcher of MPI jobs over several sites (mpi_over_sites" in told


def test_a_runner_that_is_not_installed_at_the_site_of_a_component_is_refused_by_that_site() -> None:
    wanted = msgspec.structs.replace(gang("1x1@alpha+1x1@beta"), runner="mpi")
    told = refused(wanted)
    assert told.startswith("component at alpha: has no launcher of MPI jobs over several sites"), told


@pytest.mark.parametrize("components", ["2x1", "1x1@alpha+1x1@beta"])
def test_a_runner_that_no_site_has_is_the_user_s_mistake_and_the_nearest_name_is_told(components: str) -> None:
    wanted = msgspec.structs.replace(gang(components), runner="mpl")
    answer = Grid(alpha=2, beta=2)["alpha"].submit(wanted, 2)
    told = "gang.runner: 'mpl': no such runner; did you mean mpi? Known here: env, mpi, none"
    assert answer == fx.Refusal(code="usage", text=told)


def test_a_runner_of_a_site_that_takes_no_work_now_is_not_told_to_be_unknown() -> None:
    grid = Grid(alpha=2, beta=2)
    has = ("barrier", "runner bench")
    grid["beta"].handle(ev.LrmReady(session=grid["beta"].session, slots=2, known=(), software=has))
    announce(grid["beta"], (-10.0, 900.0))
    answer = grid["alpha"].submit(msgspec.structs.replace(gang("2x1"), runner="bench"), 2)
    assert isinstance(answer, fx.Refusal) and answer.code == "unplaceable"
    assert "beta is drained: maintenance" in answer.text and "no such runner" not in answer.text
