"""Flexible gangs from submission to result: divided where they are placed, and anew where that came to nothing (SPEC
K1, K2, K5)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.cli.groups.gangs import up_to
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, FlexibleSpec, GroupSpec, Sweep
from diana.model.views.views import Explanation, GroupView
from diana.node.api.convert import to_status
from tests.engine.bench import Grid, Post
from tests.engine.builders import OPERATOR, spec
from tests.engine.handover.test_gangs import begun, kill


def flexible(processors: int, jobs: int = 1, **bounds: object) -> GroupSpec:
    asked = FlexibleSpec(processors=processors, **bounds)  # type: ignore[arg-type]
    axes = (Axis(name="job", start=0, stop=jobs), Axis(name=COMPONENT, start=0, stop=asked.most))
    return msgspec.structs.replace(spec(1), flexible=asked, sweep=Sweep(axes=axes))


def submit(grid: Grid, wanted: GroupSpec, jobs: int = 1) -> str:
    answer = grid["alpha"].submit(wanted, jobs * wanted.gang_size)
    assert isinstance(answer, fx.GroupAccepted), answer
    return answer.group


def division(grid: Grid) -> list[tuple[str, int, int]]:
    """(site, index, processors) of the components that were let go and run."""
    some = [
        (name, run.index, site.running[run].spec.resources.processors)
        for name, site in grid.sites.items()
        for run in site.gone
        if run in site.running
    ]
    return sorted(some, key=lambda one: one[1])


def test_a_flexible_gang_is_divided_among_the_sites_that_are_idle_and_ends() -> None:
    grid = Grid(alpha=6, beta=5, gamma=4)
    name = submit(grid, flexible(14))
    assert division(grid) == [("alpha", 0, 6), ("beta", 1, 5), ("gamma", 2, 3)]
    assert {order.size for site in grid.sites.values() for order in site.gone.values()} == {3}
    group = grid["alpha"].group(name)
    assert group.decisions[-1].reason.startswith("3 components at 3 sites by flexible-min: ")
    assert "14 divided as 6+5+3" in group.decisions[-1].reason
    grid.finish()
    assert group.state == "done" and len(group.done) == 3 and len(group.unused) == 5
    view = grid["alpha"].ask("group", name)
    assert isinstance(view, GroupView) and (view.jobs, view.done) == (3, 3)


def test_a_flexible_gang_counts_its_components_from_when_it_has_a_place() -> None:
    grid = Grid(alpha=6, beta=5, gamma=4)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, flexible(14))
    second = submit(grid, flexible(14))

    def told(group: str) -> tuple[int, int, str]:
        found = grid["alpha"].ask("group", group)
        assert isinstance(found, GroupView)
        return found.jobs, found.unplaced, up_to(to_status(found))

    assert (told(name), told(second)) == ((3, 0, ""), (8, 8, "up to "))
    grid["alpha"].handle(ev.Ask(request=998, principal=OPERATOR, what="explain", group=GroupId(name)))
    grid.settle()
    explained = grid["alpha"].replies.pop(998)
    assert isinstance(explained, Explanation) and not [row for row in explained.waiting if row.note == "not placed yet"]
    grid.fate = None
    grid.pass_time(30.0)
    assert told(name) == (3, 0, "")
    grid["alpha"].handle(ev.Ask(request=998, principal=OPERATOR, what="job", group=GroupId(name), first=5))
    of_none = grid["alpha"].replies.pop(998)
    assert isinstance(of_none, fx.Refusal) and "divided into fewer components" in of_none.text


def test_a_division_that_came_to_nothing_is_made_anew() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=6, beta=6)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    submit(grid, flexible(8))
    grid["beta"].submit(msgspec.structs.replace(spec(1), sites=("beta",)), 3, 9)
    for _ in range(40):
        kill(grid)
        grid.pass_time(1.0)
    grid.fate = None
    for _ in range(60):
        kill(grid)
        grid.pass_time(1.0)
    placed = [one for one in grid["alpha"].records(r.GroupPlaced) if isinstance(one, r.GroupPlaced)]
    divisions = [tuple((str(part.site), part.processors) for part in one.parts) for one in placed]
    assert divisions[0] == (("alpha", 6), ("beta", 2)) or divisions[0] == (("beta", 6), ("alpha", 2))
    assert len(divisions) > 1
    assert {sum(size for _, size in one) for one in divisions} == {8}
    assert sum(size for _, _, size in division(grid)) == 8


@pytest.mark.parametrize(
    ("jobs", "bounds", "told"),
    [
        (3, {"max_components": 2}, "3 indices: want 2 for each gang"),
        (2, {"max_components": 2, "min_processors": 9}, "min_cpus = 9: want 1 to the 8 processors of the whole"),
        (1, {"splits": ((),)}, "splits: an empty one: want 1 to 1,000 sizes of at least 1"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_a_line(jobs: int, bounds: dict[str, object], told: str) -> None:
    said = Grid(alpha=8)["alpha"].submit(flexible(8, **bounds), jobs)
    assert isinstance(said, fx.Refusal) and (said.code, said.text) == ("usage", told)


def test_a_flexible_gang_that_broke_after_it_was_let_go_has_all_its_indices_back() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=6, beta=6)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) and post[1] == "beta" else "deliver"
    name = submit(grid, flexible(8, max_components=4))
    group = grid["alpha"].group(name)
    assert len(group.unused) == 2 and len(grid["alpha"].records(r.GangGo)) == 1
    # Beta's machine loses its claim before the commit comes.
    for run in list(grid["beta"].held):
        del grid["beta"].held[run]
        grid["beta"]._ends(run, Outcome.UNBEGUN)
    grid.fate = None
    for _ in range(80):
        kill(grid)
        grid.pass_time(1.0)
    assert len(grid["alpha"].records(r.GangGo)) == 2 and sum(size for _, _, size in division(grid)) == 8
    grid.finish()
    assert group.state == "done" and len(group.done) + len(group.unused) == group.jobs == 4


@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 5),
    st.lists(st.integers(1, 20), min_size=3, max_size=3),
)
def test_all_processors_of_a_flexible_gang_begin_within_its_bounds_or_it_is_refused(
    processors: int, least: int, most: int, slots: list[int]
) -> None:
    wanted = flexible(max(processors, least), min_processors=least, max_components=most)
    grid = Grid(alpha=slots[0], beta=slots[1], gamma=slots[2])
    answer = grid["alpha"].submit(wanted, wanted.gang_size)
    if not isinstance(answer, fx.GroupAccepted):
        assert isinstance(answer, fx.Refusal) and begun(grid) == []
        return
    sizes = [size for _, _, size in division(grid)]
    assert sum(sizes) == max(processors, least) and min(sizes) >= least and len(sizes) <= wanted.gang_size
    grid.finish()
    assert grid["alpha"].group(answer.group).state == "done"


@pytest.mark.parametrize("size", [0, 1, 9, -3])
def test_an_offer_of_a_size_that_the_signed_job_does_not_allow_is_refused(size: int) -> None:
    grid = Grid(alpha=6, beta=6)
    caught: list[ms.Prepare] = []

    def taken(_: Grid, number: int, post: Post) -> str:
        if isinstance(post[2], ms.Prepare):
            caught.append(post[2])
            return "lose"
        return "deliver"

    grid.fate = taken
    submit(grid, flexible(8, min_processors=2))
    grid.fate = None
    forged = msgspec.structs.replace(caught[0], epoch=caught[0].epoch + 50, processors=size)
    grid.post(SiteId("alpha"), SiteId("beta"), forged)
    before = len(grid["beta"].records(r.CustodyTaken))
    grid.settle()
    assert len(grid["beta"].records(r.CustodyTaken)) == before
