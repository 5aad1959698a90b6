"""A site holds gangs to its quota, whatever their origins do (SPEC K2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from tests.engine.bench import Grid, Post
from tests.engine.builders import BOB, spec
from tests.engine.handover.test_full_sites import Busy
from tests.engine.handover.test_gangs import begun, gang, held, submit
from tests.engine.site.test_running_totals import check_gangs

SETTINGS = {
    "gang_quota": 0.5,
    "claim_wait_s": 20.0,
    "default_work_s": 30.0,
    "claim_ahead": 0,
    "migration": "off",
    "binding": "early",
}


def of_gangs(grid: Grid, site: str) -> int:
    """Processors that components hold at a site, by its machine."""
    return sum(
        start.spec.resources.processors or 1
        for run, start in grid[site].running.items()
        if run in {*grid[site].held, *grid[site].gone}
    )


def refusals(grid: Grid, site: str) -> set[str]:
    sent = (one.message for one in grid[site].trace if isinstance(one, fx.Send))
    return {message.reason for message in sent if isinstance(message, ms.Refused)}


def knows_no_quota(grid: Grid) -> None:
    """Let no site hear of any: as origins of an older release."""

    def fate(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Quote) and message.gang_most:
            grid.post(sender, to, msgspec.structs.replace(message, gang_most=0, gang_held=0, widest=4))
            return "lose"
        return "deliver"

    grid.fate = fate


@pytest.mark.parametrize("older", [False, True])
def test_a_claim_waits_for_the_quota_as_for_processors_and_other_jobs_pass_it(older: bool) -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4)
    if older:
        knows_no_quota(grid)
    first = submit(grid, "1x2@beta")
    assert begun(grid) == [("beta", 0)]
    second = grid["alpha"].submit(gang("1x1@beta"), 1, 2)
    assert second is not None
    grid.pass_time(5.0)
    assert len(begun(grid)) == 1 and held(grid) == [], "two are idle, and gangs have their half"
    grid["beta"].submit(spec(2, sites=("beta",)), 2, 60, who=BOB)
    assert len(grid["beta"].running) == 3
    (run,) = grid["beta"].gone
    grid["beta"]._ends(run, Outcome.DONE)
    grid.settle()
    grid.pass_time(0.5)
    assert [run.subgroup.partition("/")[0] for run in grid["beta"].gone if run in grid["beta"].running] == ["alpha-2"]
    assert grid["alpha"].group(first).state == "done"


def test_a_component_wider_than_the_quota_is_refused_by_the_site_in_one_line() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4)

    def lies(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Quote) and message.rejected:
            grid.post(sender, to, msgspec.structs.replace(message, rejected="", near_miss="", gang_most=0, widest=4))
            return "lose"
        return "deliver"

    grid.fate = lies
    submit(grid, "1x3@beta")
    grid.pass_time(3.0)
    assert not grid["beta"].engine.state.custodies
    assert refusals(grid, "beta") == {
        "beta gives gangs 2 of its 4 processors at most (its gang_quota), and 3 are wanted"
    }


def test_components_of_one_gang_that_never_fit_beside_each_other_are_refused_and_block_nobody() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4)
    knows_no_quota(grid)
    submit(grid, "1x1@beta+1x2@beta")
    grid.pass_time(2.0)
    assert not begun(grid) and not held(grid)
    assert "beta gives gangs 2 of its 4 processors at most (its gang_quota), and 3 are wanted" in refusals(grid, "beta")
    grid["alpha"].submit(gang("1x2@beta"), 1, 2)
    grid.pass_time(40.0)
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].gone} == {"alpha-2"}


def test_a_better_claim_has_lesser_ones_yield_the_quota() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4, gamma=8, delta=0)
    grid["gamma"].submit(spec(8, sites=("gamma",), work_s=30.0), 8, 5, who=BOB)
    grid.pass_time(1.0)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[0] == "alpha" else "deliver"
    submit(grid, "1x2@beta+1x1@gamma")
    grid["delta"].submit(gang("1x2@beta+1x1@gamma"), 2, 77)
    grid.pass_time(25.0)
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].held} == {"delta-1"}
    grid.fate = None
    for _ in range(20):
        grid.pass_time(1.0)
        assert of_gangs(grid, "beta") <= 2
        for site in grid.sites.values():
            site.obey_kills()
        grid.settle()
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].held} == {"alpha-1"}


def test_no_job_makes_way_for_a_claim_that_waits_for_the_quota() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4)
    submit(grid, "1x2@beta")
    grid["beta"].submit(spec(2, sites=("beta",), preemptible=True), 2, 60, who=BOB)
    grid["alpha"].submit(gang("1x2@beta"), 1, 2)
    grid.pass_time(5.0)
    waits = grid["beta"].engine.core.book(ClaimBook).lacks
    assert waits == "gangs hold 2 of the 2 processors that they may here (gang_quota)"
    grid.pass_time(25.0)
    assert not grid["beta"].records(r.RunsMakeWay)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("components", ["2x1", "1x1@beta+1x2@gamma", "1x2@gamma+1x2@beta"])
def test_gangs_on_full_sites_all_begin_and_never_pass_the_quota(components: str, older: bool) -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4, gamma=5)
    if older:
        knows_no_quota(grid)
    busy = Busy(grid, "beta", "gamma", run_s={"beta": 30.0, "gamma": 47.0})
    busy.pass_time(20)
    for number in range(4):
        grid["alpha"].submit(gang(components, work_s=20.0), 2, 100 + number)
    began: dict[object, float] = {}
    for _ in range(900):
        busy.pass_time(1)
        assert of_gangs(grid, "beta") <= 2 and of_gangs(grid, "gamma") <= 2
        for site in grid.sites.values():
            check_gangs(site.engine.core)
            for run in [one for one in site.gone if one in site.running]:
                began.setdefault(run, grid.now)
                if grid.now - began[run] >= 20.0:
                    site._ends(run, Outcome.DONE)
            grid.settle()
        if len(began) == 8:
            break
    assert len(began) == 8, grid["alpha"].engine.core.waiting_notes


def test_without_a_quota_gangs_have_the_whole_site() -> None:
    grid = Grid({**SETTINGS, "gang_quota": 1.0}, alpha=0, beta=4)
    submit(grid, "4x1@beta")
    assert len(begun(grid)) == 4
