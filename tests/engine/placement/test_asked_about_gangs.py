"""The information that gangs are placed by: which sites are asked by what they told of themselves, and how old the
answers are (SPEC K8)."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.job.spec import GroupSpec
from diana.model.views.decision import GangDecision
from tests.engine.bench import Grid, Post
from tests.engine.placement.test_gang_planning import gang, places

NARROW = {f"s{n:02}": 4 for n in range(70)}
WIDE = {f"w{n}": 32 for n in range(4)}


def settled(**slots: int) -> Grid:
    grid = Grid(alpha=1, **slots)
    grid.pass_time(20.0)
    return grid


def asked(grid: Grid, wanted: GroupSpec) -> set[SiteId]:
    seen: set[SiteId] = set()

    def listen(_: Grid, __: int, letter: Post) -> str:
        if letter[0] == "alpha" and isinstance(letter[2], ms.QuoteRequest):
            seen.add(letter[1])
        return "deliver"

    grid.fate = listen
    plan(grid, wanted)
    grid.fate = None
    return seen


def plan(grid: Grid, wanted: GroupSpec) -> GangDecision:
    grid["alpha"].replies.pop(1, None)
    grid["alpha"].submit(wanted, wanted.gang_size, plan_only=True)
    grid.pass_time(5.0)
    made = grid["alpha"].replies[1]
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None, made
    return made.decision.gang


def test_of_many_sites_the_few_that_are_wide_enough_are_asked_about_wide_components() -> None:
    grid = settled(**NARROW, **WIDE)
    assert places(grid, gang("4x32")) == ["32@w0", "32@w1", "32@w2", "32@w3"]
    assert places(grid, gang(flexible=144))[:4] == ["32@w0", "32@w1", "32@w2", "32@w3"]
    assert places(grid, gang("1x32+1x1")) == ["32@w0", "1@w1"]
    # Not the whole grid is asked, for all that.
    few = asked(grid, gang("1x32+1x1"))
    assert {"w0", "w1"} <= few and len(few) < len(NARROW) / 2


@pytest.mark.parametrize("sites", [50, 100])
def test_a_gang_of_more_components_than_a_short_list_has_sites_finds_all_of_theirs(sites: int) -> None:
    grid = settled(**{f"s{n:03}": 1 for n in range(sites)})
    assert len(set(places(grid, gang(f"{sites - 5}x1")))) == sites - 5


@pytest.mark.parametrize("others", [{}, NARROW], ids=["small", "large"])
def test_a_site_that_has_told_nothing_for_longer_than_that_counts_is_not_asked_whatever_it_told_last(
    others: dict[str, int],
) -> None:
    grid = settled(**others, wide=32, wider=64)
    assert "wider" in asked(grid, gang("1x32"))
    # Its streams stand, and nothing comes over them.
    grid.fate = lambda _, __, letter: "lose" if letter[0] == "wider" else "deliver"
    grid.pass_time(2 * grid["alpha"].settings.suspect_after_s)
    assert "wider" not in asked(grid, gang("1x32"))


def test_a_plan_tells_the_age_of_each_answer_which_is_never_more_than_it_waits_for_the_last_one() -> None:
    grid = Grid(alpha=4, beta=4, gamma=4)
    wait_s = grid["alpha"].settings.quote_wait_s

    def silent(_: Grid, __: int, letter: Post) -> str:
        return "lose" if letter[0] == "gamma" and isinstance(letter[2], ms.Quote) else "deliver"

    grid.fate = silent
    told = {site.site: site for site in plan(grid, gang("2x4")).sites}
    assert told[SiteId("alpha")].age_s == 0 and told[SiteId("gamma")].rejected == "gave no quote in time"
    assert 0 < told[SiteId("beta")].age_s <= wait_s


def test_a_site_that_was_not_asked_is_not_said_to_have_been_silent() -> None:
    grid = settled(**{f"s{n:02}": 4 for n in range(40)})
    told = {site.rejected for site in plan(grid, gang("2x4")).sites}
    assert "gave no quote in time" not in told and "others promised to be done earlier; not asked" in told
