"""Plans of gangs within the quotas of sites (SPEC K2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import forecast
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from tests.engine.bench import Grid, Post
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.handover.test_gangs import submit
from tests.engine.placement.test_gang_planning import answer, gang, places

SETTINGS = {"gang_quota": 0.5, "default_work_s": 30.0, "claim_ahead": 0, "migration": "off", "binding": "early"}


def half() -> Grid:
    """Gangs may have two processors of alpha, and four of beta."""
    return Grid(SETTINGS, alpha=4, beta=8)


def refused(grid: Grid, components: str = "", flexible: int = 0) -> fx.Refusal:
    told = answer(grid, gang(components, flexible))
    assert isinstance(told, fx.Refusal) and "\n" not in told.text, told
    return told


def test_gangs_are_placed_within_the_quotas_of_the_sites() -> None:
    grid = half()
    assert places(grid, gang("1x4+1x2")) == ["4@beta", "2@alpha"]
    assert places(grid, gang("4x1", policy="cluster-min")) == ["1@beta"] * 4
    assert places(grid, gang(flexible=6)) == ["4@beta", "2@alpha"]
    assert places(Grid({**SETTINGS, "gang_quota": 1.0}, alpha=4, beta=8), gang(flexible=10)) == ["8@beta", "2@alpha"]


def test_the_widest_component_of_a_site_is_told_within_its_quota() -> None:
    # An origin of an older release knows of no quota, and plans by this.
    made = answer(half(), gang("1x2"))
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None, made
    assert {one.site: (one.slots, one.widest) for one in made.decision.gang.sites} == {"alpha": (4, 2), "beta": (8, 4)}


@pytest.mark.parametrize(
    ("components", "flexible", "told"),
    [
        ("7x1", 0, "component 7 wants 1 processor; the most that is left is 0 at alpha, by its gang_quota"),
        ("7x1", 0, "; --components 6x1 is the most that fits"),
        ("1x4+1x3", 0, "component 2 wants 3 processors; the most that is left is 0 at beta, by its gang_quota"),
        ("1x3@alpha", 0, "alpha: gives gangs 2 of its 4 processors at most (its gang_quota), and 3 are wanted"),
        (
            "3x1@alpha",
            0,
            "wants 1 processor; alpha gives gangs 2 of its 4 at most (its gang_quota), 0 left now",
        ),
        ("1x5", 0, "beta: gives gangs 4 of its 8 processors at most (its gang_quota), and 5 are wanted"),
        ("", 7, "7 processors are wanted; all sites together have 6 idle and 6 in all, by their gang_quota"),
        ("", 7, "; --flexible 6 is the most that fits"),
    ],
)
def test_what_the_quotas_never_allow_is_refused_by_their_name_with_what_fits(
    components: str, flexible: int, told: str
) -> None:
    found = refused(half(), components, flexible)
    assert told in found.text and found.code == "unplaceable", found.text


def test_a_quota_below_one_processor_takes_no_gang() -> None:
    found = refused(Grid({"gang_quota": 0.1}, alpha=4), "1x1")
    assert "alpha: gives gangs 0 of its 4 processors at most (its gang_quota), and 1 are wanted" in found.text


def test_processors_that_gangs_hold_count_and_those_of_other_jobs_do_not() -> None:
    grid = half()
    grid["beta"].submit(spec(4, sites=("beta",)), 4, 50, who=BOB)
    assert places(grid, gang("1x4")) == ["4@beta"]
    submit(grid, "1x3@beta", work_s=30.0)
    grid.pass_time(10.0)
    told = answer(grid, gang("1x2@beta"))
    assert isinstance(told, fx.DecisionMade) and told.decision.gang is not None, told
    # Of the two that are idle or more gangs may have one, until the gang there ends.
    (component,) = told.decision.gang.components
    assert 0 < component.wait_s <= 30.0
    assert places(grid, gang("1x1@beta")) == ["1@beta"]


def test_a_gang_is_foreseen_behind_the_claims_that_wait_for_the_quota() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=8, delta=0)
    submit(grid, "1x4@beta", work_s=30.0)
    asked = ms.QuoteRequest(quote=1, processors=4, memory_bytes=0, jobs=1, refs=(), owner=ALICE.name, coming=True)
    core = grid["beta"].engine.core
    first = [(round(one.after_s), one.processors) for one in forecast.coming(core, asked)]
    assert first == [(30, 4)]
    grid["delta"].submit(gang("1x4@beta", work_s=50.0), 1, 77)
    assert core.book(ClaimBook).lacks == "gangs hold 4 of the 4 processors that they may here (gang_quota)"
    behind = [(round(one.after_s), one.processors) for one in forecast.coming(core, asked)]
    assert behind == [(80, 4)]


@pytest.mark.parametrize("lie", [(-5, 0), (0, 9), (1 << 40, -(1 << 40)), (1 << 40, 0)])
def test_a_quota_that_makes_no_sense_or_is_not_told_is_none(lie: tuple[int, int]) -> None:
    grid = Grid(alpha=0, beta=4)

    def liar(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if sender == "beta" and isinstance(message, ms.Quote) and (message.gang_most, message.gang_held) != lie:
            grid.post(sender, to, msgspec.structs.replace(message, gang_most=lie[0], gang_held=lie[1]))
            return "lose"
        return "deliver"

    grid.fate = liar
    assert places(grid, gang("4x1")) == ["1@beta"] * 4


def test_what_this_origins_gangs_have_yet_to_claim_counts_too() -> None:
    grid = half()
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim | ms.Prepared) else "deliver"
    submit(grid, "1x3@beta", work_s=30.0)
    told = refused(grid, "1x2@beta")
    assert (
        told.text.startswith("no place for this gang now: ")
        and "beta gives gangs 4 of its 8 at most (its gang_quota), 1 left now" in told.text
    )
