"""A component that cannot begin at its site, since its command is not there: its gang does not try for ever."""

from __future__ import annotations

from diana.engine.handover.gangs.attempts import UNABLE_TRIES
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.job.spec import RetryRules
from diana.policy.gang import holding
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.handover.test_gangs import begun, kill, submit

WHY = "beta: prog: command not found"


def quiet(**slots: int) -> Grid:
    """A grid whose machines do not say what stands at their barriers, so that a component may be refused there."""
    grid = Grid({"claim_wait_s": 200.0, "migration": "off"}, **slots)
    for site in grid.sites.values():
        site.barrier_told = False
    return grid


def refuse(grid: Grid, name: str) -> None:
    """The site's machine looks for the command of what it is to hold, and does not find it; 15 s pass."""
    site = grid[name]
    for run in list(site.held):
        del site.held[run], site.running[run]
        site.reached.remove(run)
        site.ended[run] = Outcome.NOT_STARTED
        site.tell([run], Outcome.NOT_STARTED, WHY)
    grid.settle()
    kill(grid)
    grid.pass_time(15.0)


def test_a_gang_of_which_a_component_can_begin_nowhere_fails_with_its_sites_words_and_nobody_has_begun() -> None:
    grid = quiet(alpha=1, beta=1)
    name = submit(grid, "1x1@alpha+1x1@beta")
    for _ in range(UNABLE_TRIES):
        assert not grid["alpha"].group(name).state
        refuse(grid, "beta")
    group = grid["alpha"].group(name)
    both = IndexSet.span(0, 2)
    assert (group.state, list(group.failed.within(both)), list(group.cancelled.within(both))) == ("failed", [1], [0])
    assert group.note == WHY and not begun(grid)
    told = [facts for key, facts in grid["alpha"].facts.items() if key.group == name]
    assert [(one.indices, one.exit_codes, one.errors[0].text) for one in told] == [([1], [127], WHY)]


def test_a_component_that_may_go_elsewhere_does() -> None:
    grid = quiet(alpha=0, beta=1, gamma=1)
    submit(grid, "1x1")
    refuse(grid, "beta")
    for site in grid.sites.values():
        site.barrier_told = True
    grid["gamma"].lrm_ready()
    grid.pass_time(15.0)
    assert begun(grid) == [("gamma", 0)]


def test_a_gang_waits_for_a_site_that_is_busy_rather_than_fail_at_one_that_cannot_begin_it() -> None:
    grid = Grid({"claim_wait_s": 20.0, "migration": "off"}, alpha=0, beta=1, gamma=1)
    for site in grid.sites.values():
        site.barrier_told = False
    grid["gamma"].submit(spec(1, sites=("gamma",), work_s=1.0), 1, 9)
    name = submit(grid, "1x1")
    tries = 0
    for _ in range(100):
        tries += bool(grid["beta"].held)
        refuse(grid, "beta")
    assert not grid["alpha"].group(name).state and tries == 1
    grid["gamma"].end()
    grid["gamma"].barrier_told = True
    for _ in range(20):
        kill(grid)
        grid.pass_time(holding.AGAIN_MOST_S)
    assert begun(grid) == [("gamma", 0)]


def test_such_a_gang_is_begun_again_at_its_users_word_and_by_its_own_retries() -> None:
    grid = quiet(alpha=0, beta=1)
    name = submit(grid, "1x1@beta", retry=RetryRules(failed=1))
    for _ in range(2 * UNABLE_TRIES):
        assert not grid["alpha"].group(name).state
        refuse(grid, "beta")
    assert grid["alpha"].group(name).state == "failed"
    grid["beta"].barrier_told = True
    grid["alpha"].retry(name)
    grid.pass_time(5.0)
    assert begun(grid) == [("beta", 0)]
    grid.finish()
    assert grid["alpha"].group(name).state == "done"


def test_a_site_that_says_so_in_an_early_try_is_left_out_of_the_next_one() -> None:
    grid = quiet(alpha=0, beta=1, delta=1, gamma=1)
    grid["beta"].barrier_told = True
    grid["delta"].submit(spec(1, sites=("delta",), work_s=1.0), 1, 9)
    name = submit(grid, "1x1+1x1@delta")
    grid.pass_time(202.0)
    kill(grid)
    assert not begun(grid) and not grid["beta"].held
    # The gang pauses now, and its processors come free.
    grid["beta"].barrier_told = False
    grid["delta"].end()
    grid.pass_time(holding.EARLY_EVERY_S + 2.0)
    assert grid["beta"].held and not grid["gamma"].held
    refuse(grid, "beta")
    for site in grid.sites.values():
        site.barrier_told = True
    grid.pass_time(holding.EARLY_EVERY_S + 2.0)
    assert begun(grid) == [("delta", 1), ("gamma", 0)]
    assert not grid["alpha"].group(name).state
