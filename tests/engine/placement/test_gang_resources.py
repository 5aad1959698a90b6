"""Gangs that ask for declared devices and licences, from the quotes that tell of them to the components that hold them
(SPEC K1, K2, K5)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from diana.model.job.components import components_of
from diana.model.job.spec import FlexibleSpec, GroupSpec, Resources
from diana.model.views.decision import GangDecision
from tests.engine.bench import Fate, Grid, Post
from tests.engine.builders import BOB, spec
from tests.engine.handover.test_gangs import begun, gang

SETTINGS = {"claim_wait_s": 20.0, "default_work_s": 30.0, "claim_ahead": 0, "migration": "off", "binding": "early"}
BOARD = Resources(others=(("fpga", 1),), work_s=30.0)
MATLAB = Resources(licences=(("matlab", 1),), work_s=30.0)


def grid(settings: dict[str, object] | None = None, slots: int = 4, **fpgas: int) -> Grid:
    """Sites of so many slots and boards, and alpha with more slots and none."""
    made = Grid({**SETTINGS, **(settings or {})}, alpha=9, **dict.fromkeys(fpgas, slots))
    for name, count in fpgas.items():
        made[name].has = (("fpga", count),) if count else ()
        made[name].lrm_ready()
    made.settle()
    return made


def wanting(components: str, has: Resources = BOARD, jobs: int = 1) -> GroupSpec:
    wanted = gang(components, jobs)
    return msgspec.structs.replace(wanted, resources=has)


def answer(made: Grid, wanted: GroupSpec) -> object:
    made["alpha"].replies.pop(1, None)
    made["alpha"].submit(wanted, 1, plan_only=True)
    made.pass_time(1.0)
    return made["alpha"].replies[1]


def planned(made: Grid, wanted: GroupSpec) -> GangDecision:
    found = answer(made, wanted)
    assert isinstance(found, fx.DecisionMade) and found.decision.gang is not None, found
    return found.decision.gang


def sites(made: Grid, wanted: GroupSpec) -> list[str]:
    return sorted(place.site for place in planned(made, wanted).components)


def quotes(change: Callable[[ms.Quote], ms.Quote]) -> Fate:
    """Have every quote that arrives changed so."""

    def fate(made: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Quote) and (other := change(message)) != message:
            made.post(sender, to, other)
            return "lose"
        return "deliver"

    return fate


def test_a_gang_with_a_board_for_each_component_runs_over_two_sites_and_the_next_waits_for_the_boards() -> None:
    made = grid(beta=1, gamma=1)
    for number in (1, 2):
        assert isinstance(made["alpha"].submit(wanting("2x1"), 2, number), fx.GroupAccepted)
    made.pass_time(1.0)
    assert begun(made) == [("beta", 0), ("gamma", 1)] or begun(made) == [("beta", 1), ("gamma", 0)]
    made.pass_time(20.0)
    assert len(begun(made)) == 2, "no board is given twice, though processors are idle"
    made.finish()
    assert {group.state for group in made["alpha"].engine.state.groups.values()} == {"done"}
    assert set(made.claims().values()) == {1}


def test_a_plan_says_what_a_component_asks_and_when_the_last_board_comes_free() -> None:
    made = grid(beta=1, gamma=1)
    busy = msgspec.structs.replace(spec(1, sites=("gamma",)), resources=BOARD)
    made["gamma"].submit(busy, 1, 5, who=BOB)
    made.pass_time(1.0)
    one, two = planned(made, wanting("2x1")).components
    assert one.resources == two.resources == {"fpga": 1}
    waits = {one.site: one.wait_s, two.site: two.wait_s}
    assert waits["beta"] == 0.0 and 25.0 <= waits["gamma"] <= 30.0
    assert sites(made, wanting("1x1")) == ["beta"], "its board is idle"


@pytest.mark.parametrize("components", ["3x1", "2x1@beta", "1x1@beta+1x1@beta"])
def test_more_components_than_there_are_boards_are_refused_with_what_is_short(components: str) -> None:
    said = answer(grid(beta=1, gamma=1), wanting(components))
    assert isinstance(said, fx.Refusal) and said.code == "unplaceable" and "0 fpga left" in said.text, said
    assert ("--components 2x1 is the most" in said.text) == (components == "3x1") and "\n" not in said.text


def test_a_divided_gang_has_a_board_in_each_of_its_parts() -> None:
    flexible = msgspec.structs.replace(spec(1), resources=BOARD, flexible=FlexibleSpec(processors=6))
    assert sites(grid(beta=1, gamma=1), flexible) == ["beta", "gamma"]
    said = answer(grid(beta=1, gamma=0), flexible)
    assert isinstance(said, fx.Refusal) and "--flexible 4 is the most that fits" in said.text, said


def test_licences_of_a_site_count_as_its_boards_do() -> None:
    made = grid({"licences": {"matlab": 2}}, beta=0, gamma=0)
    assert sites(made, wanting("6x1", MATLAB)) == sorted(["alpha", "beta", "gamma"] * 2)
    said = answer(made, wanting("7x1", MATLAB))
    assert isinstance(said, fx.Refusal) and "0 of matlab left" in said.text, said
    made["beta"].submit(msgspec.structs.replace(spec(2, sites=("beta",)), resources=MATLAB), 2, 5, who=BOB)
    assert sorted({place.wait_s > 0 for place in planned(made, wanting("6x1", MATLAB)).components}) == [False, True]
    assert "beta" not in sites(made, wanting("4x1", MATLAB))


def test_what_other_gangs_of_the_origin_wait_to_claim_is_left_to_them() -> None:
    made = grid(beta=1, gamma=1)
    # Beta has more idle processors than gamma, also beside the first of them.
    made["gamma"].submit(spec(2, sites=("gamma",), work_s=30.0), 2, 5, who=BOB)
    made.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    made["alpha"].submit(wanting("1x1", jobs=2), 2)
    made.pass_time(2.0)
    (group,) = made["alpha"].engine.state.groups.values()
    assert sorted(one.site for one in group.subgroups.values()) == ["beta", "gamma"]


def test_an_older_site_has_as_many_as_its_quote_says_it_has_and_none_to_come() -> None:
    made = grid(beta=3, gamma=3)

    def older(quote: ms.Quote) -> ms.Quote:
        coming = tuple(msgspec.structs.replace(one, free={}) for one in quote.coming)
        return msgspec.structs.replace(quote, free={}, whole={}, coming=coming)

    made.fate = quotes(older)
    assert sites(made, wanting("2x1")) == ["beta", "gamma"]
    said = answer(made, wanting("3x1"))
    assert isinstance(said, fx.Refusal) and said.text.startswith("no place for this gang now"), "who knows its total?"
    two = Resources(others=(("fpga", 2),))
    assert sites(made, wanting("2x1", two)) == ["beta", "gamma"]


def test_a_site_that_lies_of_its_boards_is_believed_within_its_processors_and_of_what_was_asked() -> None:
    made = grid(beta=1, slots=2)
    much = {"fpga": (1 << 63) - 1, "tape": 1 << 60, "processors": 1 << 60, "gpus": 9}
    made.fate = quotes(
        lambda quote: msgspec.structs.replace(
            quote, free=much, whole={"fpga": 0}, coming=(ms.ComingRoom(1.0, 1 << 60, 0, much),)
        )
    )
    assert sites(made, wanting("2x1")) == ["beta", "beta"]
    assert isinstance(answer(made, wanting("3x1")), fx.Refusal)
    gpu = msgspec.structs.replace(components_of("1x1")[0], gpus=1)
    assert isinstance(answer(made, msgspec.structs.replace(wanting("1x1"), components=(gpu,))), fx.Refusal)


def test_a_quote_tells_of_boards_and_licences_only_where_they_are_asked_for() -> None:
    made = grid({"licences": {"matlab": 2}}, beta=2)
    made["beta"].submit(msgspec.structs.replace(spec(1, sites=("beta",)), resources=BOARD), 1, 5, who=BOB)
    told: list[ms.Quote] = []

    def seen(quote: ms.Quote) -> ms.Quote:
        told.append(quote)
        return quote

    made.fate = quotes(seen)
    answer(made, gang("1x1"))
    assert all(one.free == one.whole == {} and not any(step.free for step in one.coming) for one in told)
    told.clear()
    answer(made, wanting("1x1", Resources(others=(("fpga", 1),), licences=(("matlab", 1),))))
    (quote,) = told
    assert (quote.free, quote.whole) == ({"fpga": 1, "licence:matlab": 2}, {"fpga": 2, "licence:matlab": 2})
    assert [step.free for step in quote.coming] == [quote.free, quote.whole]
