"""Jobs that ask for modules or a container are placed only where these are, and a site without refuses them itself."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId
from diana.model.job.software import FOUND, had, lacking, needed
from diana.model.job.spec import GroupSpec, Outputs
from tests.engine.bench import Grid, Post
from tests.engine.builders import spec

WANTS = {"container": "image", "modules": ("gcc/12",)}


def offers(grid: Grid, name: str, *software: str) -> None:
    site = grid[name]
    site.handle(ev.SettingsLoaded(site.settings, software=software))


def plan(grid: Grid, **wanted: object) -> object:
    grid["alpha"].replies.pop(1, None)
    grid["alpha"].submit(spec(2, **wanted), 2, plan_only=True)
    grid.pass_time(60.0)
    return grid["alpha"].replies[1]


def test_names_are_compared_as_they_are_but_for_a_site_with_any_module() -> None:
    asked = needed(GroupSpec(argv=("true",), container="image", modules=("gcc/12", "root")))
    assert asked == ("containers", "module gcc/12", "module root")
    assert had(("containers", "module root"), asked) == ("containers", "module root")
    assert had(("module *",), asked) == ("module gcc/12", "module root")
    assert lacking(("containers", "module gcc"), asked) == "has no module gcc/12"
    assert lacking((), asked) == "runs no containers"
    assert lacking(asked, asked) == "" == lacking((), ())


def test_a_group_with_patterns_goes_to_no_site_of_an_older_release() -> None:
    grid = Grid(alpha=2, beta=8)
    offers(grid, "beta")
    offers(grid, "alpha", FOUND)
    wanted = spec(2)
    for kept, told in ((True, "finds no outputs by patterns or folders, as it is of an older release"), (False, "")):
        outputs = Outputs(collect=("*.csv",), kept=kept)
        grid["alpha"].replies.pop(1, None)
        grid["alpha"].submit(msgspec.structs.replace(wanted, outputs=outputs), 2, plan_only=True)
        grid.pass_time(60.0)
        answer = grid["alpha"].replies[1]
        assert isinstance(answer, fx.DecisionMade)
        assert {row.site: row.rejected for row in answer.decision.candidates}["beta"] == told
    assert needed(GroupSpec(outputs=Outputs(collect=("out-{index}",), kept=True))) == ()
    assert needed(GroupSpec(outputs=Outputs(collect=("x", "out/"), kept=True))) == (FOUND,)


def test_a_group_goes_where_its_software_is() -> None:
    grid = Grid(alpha=8, beta=2, gamma=2)
    offers(grid, "beta", "containers", "module gcc/12")
    offers(grid, "gamma", "containers", "module gcc/11")
    answer = plan(grid, **WANTS)
    assert isinstance(answer, fx.DecisionMade)
    told = {row.site: row.rejected for row in answer.decision.candidates}
    assert told == {"beta": "", "alpha": "runs no containers", "gamma": "has no module gcc/12"}
    # It is not called placeable before anybody said so.
    assert grid["alpha"].submit(spec(2, **WANTS), 2, request=3) == fx.GroupAccepted(GroupId("alpha-1"), 2)
    assert {part.site for part in grid["alpha"].group("alpha-1").subgroups.values()} == {"beta"}


def test_where_nobody_has_it_every_site_is_named_with_what_it_lacks() -> None:
    grid = Grid(alpha=8, beta=2)
    answer = plan(grid, modules=("root",))
    assert isinstance(answer, fx.Refusal)
    assert "alpha, beta: has no module root" in answer.text


def test_a_site_that_never_heard_of_software_is_not_taken_for_one_that_has_it() -> None:
    """An older release quotes as if nothing had been asked; it would run the jobs without."""
    grid = Grid(alpha=0, beta=4)

    def older(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.QuoteRequest) and message.software:
            grid.post(sender, to, msgspec.structs.replace(message, software=()))
            return "lose"
        return "deliver"

    grid.fate = older
    answer = plan(grid, modules=("root",))
    assert isinstance(answer, fx.Refusal) and "beta: has no module root" in answer.text


@pytest.mark.parametrize("wanted", [{"container": "image"}, {"modules": ("gcc/12",)}])
def test_an_offer_to_a_site_that_has_it_no_more_is_refused_there(wanted: dict[str, object]) -> None:
    grid = Grid(alpha=0, beta=4)
    offers(grid, "beta", "containers", "module gcc/12")

    def removed(grid: Grid, number: int, letter: Post) -> str:
        if isinstance(letter[2], ms.Prepare):
            offers(grid, "beta")
        return "deliver"

    grid.fate = removed
    grid["alpha"].submit(spec(2, **wanted), 2)
    grid.pass_time(1.0)
    assert not grid["beta"].engine.core.state.custodies
    lacks = "runs no containers" if "container" in wanted else "has no module gcc/12"
    assert f"beta: {lacks}" in grid["alpha"].engine.core.waiting_notes[GroupId("alpha-1")]
