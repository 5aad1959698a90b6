"""Jobs at a site nobody hears of are visibly UNREACHABLE until it is back (PROMISES 1.4, 1.7)."""

from __future__ import annotations

from diana.engine.journal import events as ev
from diana.engine.views.answers import group_view
from diana.model.ids import GroupId
from diana.model.views import views
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, spec


def committed(jobs: int = 4) -> Grid:
    grid = Grid(alpha=1, beta=2)
    grid["alpha"].submit(spec(jobs, work_s=500.0, sites=("beta",)), jobs, 1)
    grid.pass_time(3.0)
    return grid


def seen(grid: Grid) -> views.GroupView:
    core = grid["alpha"].engine.core
    return group_view(core, core.state.groups[GroupId("alpha-1")])


def test_jobs_of_a_silent_site_are_unreachable_and_counted_nowhere_else() -> None:
    grid = committed()
    assert seen(grid).running == 2
    grid.part("beta")
    grid.pass_time(30.0)
    now = seen(grid)
    assert (now.unreachable, now.running, now.queued) == (4, 0, 0)
    assert (now.state, now.shares[0].state) == ("unreachable", "unreachable")
    assert "beta was last heard of" in now.note
    assert not now.final


def test_each_site_that_is_silent_is_named_as_far_as_a_line_has_room() -> None:
    names = ("beta", "gamma", "delta", "epsilon", "zeta")
    grid = Grid(alpha=0, **dict.fromkeys(names, 2))
    alpha = grid["alpha"]
    alpha.submit(spec(10, work_s=500.0), 10, 1)
    grid.pass_time(3.0)
    for name in names[:2]:
        grid.part(name)
    grid.pass_time(30.0)
    note = seen(grid).note
    assert note.count("was last heard of") == 2 and "beta was" in note and "gamma was" in note
    for name in names[2:]:
        grid.part(name)
    grid.pass_time(30.0)
    note = seen(grid).note
    assert note.count("was last heard of") == 3 and note.endswith("; so with 2 more sites")


def test_a_moment_of_silence_says_nothing() -> None:
    grid = committed()
    grid.part("beta")
    grid.pass_time(2.0)
    assert seen(grid).unreachable == 0


def test_they_are_what_they_were_when_the_site_is_back() -> None:
    grid = committed()
    grid.part("beta")
    grid.pass_time(30.0)
    grid.heal("beta")
    grid.pass_time(5.0)
    assert (seen(grid).unreachable, seen(grid).running, seen(grid).queued) == (0, 2, 2)


def test_jobs_at_a_banned_site_are_unreachable_with_the_reason() -> None:
    grid = committed()
    alpha = grid["alpha"]
    ban = ev.SayStatement(
        request=7, principal=OPERATOR, kind="revoke", about="site:beta", reason="stolen", wall_s=1.75e9
    )
    alpha.handle(ban)
    assert seen(grid).unreachable == 4
    assert "beta is banned: stolen" in seen(grid).note
