"""A gang that is asked to save (SPEC G6): all components that are let go are asked and counted, since a checkpoint is
none without the part of each."""

from __future__ import annotations

from diana.engine.handover.gangs.attempt_book import SAVE_S
from diana.engine.handover.leases import AVOID_S
from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.job.spec import CheckpointSpec
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Post, Site
from tests.engine.handover.test_gangs import begun, held, submit

PAIR = "1x1@alpha+1x1@beta"
SAVES = CheckpointSpec(paths=("plate.{component}",))


def asked(site: Site) -> list[type[fx.Effect]]:
    """What its machine was told, in this order: let go, and asked to save."""
    return [type(effect) for effect in site.trace if isinstance(effect, fx.Go | fx.SaveRuns)]


def test_components_count_from_the_word_that_lets_them_go_whoever_has_told_that_they_run() -> None:
    grid = Grid(alpha=1, beta=1)
    grid.fate = lambda _g, _n, post: "lose" if isinstance(post[2], ms.Progress) else "deliver"
    name = submit(grid, PAIR, checkpoint=SAVES)
    assert begun(grid) == [("alpha", 0), ("beta", 1)]
    assert grid["alpha"].move(name, "") == Ok(2)
    assert asked(grid["alpha"]) == asked(grid["beta"]) == [fx.Go, fx.SaveRuns]


def test_a_component_that_holds_its_processor_and_is_not_let_go_is_not_said_to_be_asked() -> None:
    grid = Grid(alpha=1, beta=1)
    grid.fate = lambda _g, _n, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    name = submit(grid, PAIR, checkpoint=SAVES)
    assert held(grid) == [("alpha", 0)]
    assert grid["alpha"].move(name, "") == Ok(0)
    assert asked(grid["alpha"]) == []


def test_a_component_that_hears_the_order_to_save_before_it_is_let_go_is_asked_then() -> None:
    grid = Grid(alpha=1, beta=1)
    late: list[Post] = []

    def commit_comes_late(_grid: Grid, _number: int, post: Post) -> str:
        if isinstance(post[2], ms.Commit) and post[1] == "beta":
            late.append(post)
            return "lose"
        return "deliver"

    grid.fate = commit_comes_late
    name = submit(grid, PAIR, checkpoint=SAVES)
    assert begun(grid) == [("alpha", 0)] and held(grid) == [("beta", 1)]
    assert grid["alpha"].move(name, "") == Ok(2)
    assert asked(grid["beta"]) == [], "what is held has nothing to save"
    grid.fate = None
    grid.post(*late[0])
    grid.settle()
    assert asked(grid["beta"]) == [fx.Go, fx.SaveRuns]


def test_a_component_that_began_when_its_site_was_down_is_asked_once_its_machine_tells_that_it_stands() -> None:
    grid = Grid(alpha=1, beta=1)
    name = submit(grid, PAIR, checkpoint=SAVES)
    beta = grid["beta"]
    grid["alpha"].move(name, "")
    # Neither word reached the machine before the crash.
    (run,) = beta.gone
    beta.gone.clear()
    beta.held[run] = grid.now + 100.0
    beta.trace.clear()
    beta.restart()
    grid.settle()
    assert asked(beta)[-2:] == [fx.Go, fx.SaveRuns]


def test_the_end_at_home_of_a_component_that_did_not_save_with_the_others_is_no_result() -> None:
    grid = Grid(alpha=2, beta=1)
    name = submit(grid, "2x1@alpha+1x1@beta", checkpoint=SAVES)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.move(name, "")
    for site, index in ((alpha, 0), (beta, 2)):
        (run,) = (run for run in site.running if run.index == index)
        site._ends(run, Outcome.CHECKPOINTED)
        grid.settle()
    grid.pass_time(SAVE_S + SAVES.wait_s + 1.0)
    # The other is ended, and is its attempt's alone: the gang begins anew.
    for _ in range(2):
        for site in grid.sites.values():
            site.obey_kills()
        grid.pass_time(AVOID_S)
    group = alpha.group(name)
    assert not len(group.cancelled) and sorted(run.index for run in (*alpha.running, *beta.running)) == [0, 1, 2]
    grid.finish()
    assert (group.state, len(group.done)) == ("done", 3)
