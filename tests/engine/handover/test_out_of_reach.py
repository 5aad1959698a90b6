"""Jobs at a site nobody hears of are visibly UNREACHABLE until it is back (PROMISES 1.4, 1.7)."""

from __future__ import annotations

from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.effects import Refusal
from diana.engine.views.answers import group_view
from diana.model.ids import GroupId, SiteId
from diana.model.settings import Settings
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, spec


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


# --- given up ----------------------------------------------------------------------------------------------------


def ban(site: Site, name: str) -> None:
    about = f"site:{name}"
    site.handle(
        ev.SayStatement(request=7, principal=OPERATOR, kind="revoke", about=about, reason="stolen", wall_s=1.75e9)
    )


def give_up(site: Site, name: str, who: Principal = OPERATOR) -> object:
    site.handle(ev.GiveUpSite(request=8, principal=who, site=SiteId(name)))
    site.grid.settle()
    return site.replies.get(8)


def test_an_operator_places_anew_all_that_a_banned_site_has() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    for request in (1, 2):
        alpha.submit(spec(4, work_s=500.0), 4, request)
    grid.pass_time(3.0)
    assert len(grid["beta"].running) == 2
    ban(alpha, "beta")
    grid.part("beta")
    assert give_up(alpha, "beta") == Ok(8)
    for name in ("alpha-1", "alpha-2"):
        assert len(alpha.group(name).unplaced) == 4
        assert alpha.engine.core.parties.open_at(GroupId(name), SiteId("beta")) == 0
    moved = alpha.records(r.JobsMoved)
    assert "given up by" in moved[-1].why and "beta is banned: stolen" in moved[-1].why
    alpha.settings = Settings(slots=4, binding="early")
    alpha.restart()
    for _ in range(4):
        grid.pass_time(1.0)
        alpha.end()
    assert {alpha.group(name).state for name in ("alpha-1", "alpha-2")} == {"done"}


def test_results_of_a_site_that_was_given_up_are_put_aside() -> None:
    grid = Grid(alpha=0, beta=2, gamma=4)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=500.0, sites=("beta", "gamma")), 2)
    grid.pass_time(3.0)
    at = {part.site for part in alpha.group("alpha-1").subgroups.values()}
    (site,) = at
    ban(alpha, site)
    grid.part(site)
    assert give_up(alpha, site) == Ok(2)
    grid.pass_time(5.0)
    other = "gamma" if site == "beta" else "beta"
    grid[other].end()
    grid.settle()
    assert alpha.group("alpha-1").state == "done"
    alpha.handle(ev.SayStatement(request=9, principal=OPERATOR, kind="lift", about=f"site:{site}", wall_s=1.76e9))
    grid.heal(site)
    grid.pass_time(5.0)
    grid[site].end()
    grid.finish()
    assert len(alpha.group("alpha-1").done) == 2
    assert not grid[site].engine.core.state.custodies


def test_a_site_that_is_in_touch_is_not_given_up() -> None:
    grid = committed()
    assert "beta is in touch; diana site ban beta first" in refused(give_up(grid["alpha"], "beta"))
    assert "alpha has no jobs at gamma" in refused(give_up(grid["alpha"], "gamma"))
    assert refused(give_up(grid["alpha"], "beta", ALICE))
    assert seen(grid).running == 2


def test_offers_come_back_without_an_operator() -> None:
    grid = Grid(alpha=0, beta=2)
    grid.fate = lambda _, __, post: "lose" if post[0] == "beta" and type(post[2]).__name__ == "Prepared" else "deliver"
    grid["alpha"].submit(spec(2, sites=("beta",)), 2)
    assert "comes back by itself: offers" in refused(give_up(grid["alpha"], "beta"))


def refused(said: object) -> str:
    assert isinstance(said, Refusal)
    return said.text
