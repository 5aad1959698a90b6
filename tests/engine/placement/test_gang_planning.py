"""Places for the components of gangs, from quotes of peers to the decision that `diana plan` shows (SPEC K1-K3)."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.components import components_of
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, ComponentSpec, FlexibleSpec, GroupSpec, InputFile, Sweep, encode_spec
from diana.model.views.decision import Decision
from tests.engine.bench import Grid, Post
from tests.engine.builders import spec


def gang(components: str = "", flexible: int = 0, policy: str = "", **more: object) -> GroupSpec:
    return msgspec.structs.replace(
        spec(1, **more),
        components=components_of(components) if components else (),
        flexible=FlexibleSpec(processors=flexible) if flexible else None,
        gang_placement=policy,
    )


def answer(grid: Grid, wanted: GroupSpec) -> object:
    grid["alpha"].replies.pop(1, None)
    grid["alpha"].submit(wanted, 1, plan_only=True)
    grid.pass_time(60.0)
    return grid["alpha"].replies[1]


def places(grid: Grid, wanted: GroupSpec) -> list[str]:
    made = answer(grid, wanted)
    assert isinstance(made, fx.DecisionMade), made
    gang = made.decision.gang
    assert gang is not None and made.decision.parts == ()
    return [f"{piece.processors}@{piece.site}" for piece in gang.components]


def test_each_policy_places_by_what_the_sites_say_is_idle() -> None:
    grid = Grid(alpha=18, beta=15, gamma=12)
    assert places(grid, gang("3x8")) == ["8@alpha", "8@beta", "8@gamma"]
    assert places(grid, gang("3x8", policy="cluster-min")) == ["8@alpha", "8@alpha", "8@beta"]
    assert places(grid, gang(flexible=24)) == ["18@alpha", "6@beta"]


def test_a_plan_of_several_gangs_says_that_it_shows_the_first() -> None:
    grid = Grid(alpha=4, beta=4)
    placed = "2 components at 2 sites by worst-fit: alpha, beta"
    for jobs, told in ((6, f"{placed}; the first of 3 gangs"), (2, placed)):
        grid["alpha"].submit(gang("2x2"), jobs, 7, plan_only=True)
        grid.pass_time(60.0)
        made = grid["alpha"].replies.pop(7)
        assert isinstance(made, fx.DecisionMade) and made.decision.reason == told, made


def why(grid: Grid, wanted: GroupSpec, refs: tuple[tuple[str, IndexSet], ...] = ()) -> dict[str, str]:
    grid["alpha"].submit(wanted, wanted.gang_size, 7, refs=refs, plan_only=True)
    grid.pass_time(60.0)
    made = grid["alpha"].replies.pop(7)
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None, made
    return {f"{one.component + 1}@{one.site}": one.reason for one in made.decision.gang.components}


def test_each_component_says_why_it_goes_where_it_goes_by_what_was_idle_at_its_turn() -> None:
    grid = Grid(alpha=18, beta=15, gamma=12)
    emptiest = "the emptiest, takes {} idle"
    assert why(grid, gang("3x8")) == {
        "1@alpha": emptiest.format("8 of 18"),
        "2@beta": emptiest.format("8 of 15"),
        "3@gamma": emptiest.format("8 of 12"),
    }
    packed = why(grid, gang("3x8", policy="cluster-min"))
    assert packed["2@alpha"] == "takes 8 of 10 idle", "beta has more, which the policy does not look at"
    # The larger one has its turn first, and the one whose site is given before all.
    assert why(grid, gang("1x4+1x9+1x6@gamma")) == {
        "1@beta": emptiest.format("4 of 15"),
        "2@alpha": emptiest.format("9 of 18"),
        "3@gamma": "the job names it, takes 6 of 12 idle",
    }
    assert why(grid, gang("1x4+1x9+1x6@alpha")) == {
        "1@alpha": emptiest.format("4 of 12"),
        "2@beta": emptiest.format("9 of 15"),
        "3@alpha": "the job names it, takes 6 of 18 idle",
    }
    assert why(grid, gang(flexible=24)) == {
        "1@alpha": emptiest.format("18 of 18"),
        "2@beta": emptiest.format("6 of 15"),
    }


def test_processors_of_running_jobs_are_not_idle() -> None:
    grid = Grid(alpha=18, beta=15, gamma=12)
    grid["beta"].submit(spec(10, sites=("beta",)), 10, 5)
    grid.pass_time(5.0)
    assert places(grid, gang(flexible=24)) == ["18@alpha", "6@gamma"]


def test_a_fixed_component_goes_to_its_site_and_the_names_are_told() -> None:
    grid = Grid(alpha=18, beta=4)
    wanted = msgspec.structs.replace(
        gang("1x1"),
        components=(ComponentSpec(name="view", processors=2), ComponentSpec(name="sim", processors=4, site="beta")),
    )
    made = answer(grid, wanted)
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None
    assert [(p.name, p.site) for p in made.decision.gang.components] == [("view", "alpha"), ("sim", "beta")]
    assert made.decision.reason == "2 components at 2 sites by worst-fit: alpha, beta"


@pytest.mark.parametrize(
    ("wanted", "code", "told"),
    [
        (gang("3x20"), "unplaceable", "has 18 of the 20 processors a job needs"),
        (gang("4x12"), "unplaceable", "component 4 wants 12 processors; the most that is left is 6 at alpha"),
        (gang(flexible=46), "unplaceable", "46 processors are wanted; all sites together have 45 idle and 45 in all"),
        (gang("2x1@mars"), "usage", "component at mars: no site known here; see diana sites"),
        (gang("2x1@gama"), "usage", "component at gama: no site known here; did you mean gamma?"),
        (gang("2x1", sites=("gama",)), "usage", "gama: no site known here; did you mean gamma?"),
        (gang("2x20", sites=("alpha", "gama")), "unplaceable", "(gama: no site known here; did you mean gamma?; "),
    ],
)
def test_a_gang_without_a_place_is_refused_with_the_nearest_there_is(wanted: GroupSpec, code: str, told: str) -> None:
    said = answer(Grid(alpha=18, beta=15, gamma=12), wanted)
    assert isinstance(said, fx.Refusal)
    assert said.code == code and told in said.text and "\n" not in said.text


def test_a_site_that_quotes_nonsense_gets_no_component() -> None:
    grid = Grid(alpha=4, beta=4)

    def liar(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if sender == "beta" and isinstance(message, ms.Quote) and message.free_slots < 1000:
            grid.post(sender, to, msgspec.structs.replace(message, free_slots=1 << 40, widest=-5, free_gpus=-1))
            return "lose"
        return "deliver"

    grid.fate = liar
    # It says that all its slots are idle and no more: beyond them it is not believed.
    assert places(grid, gang(flexible=8)) == ["4@alpha", "4@beta"]


def test_what_is_read_by_url_is_near_to_nobody_and_keeps_no_gang_from_its_place() -> None:
    grid = Grid(alpha=4, beta=8)
    ref = "url:https://host/in/x"
    wanted = msgspec.structs.replace(gang("2x4"), inputs=(InputFile(source=ref, path="x"),))
    grid["alpha"].submit(wanted, 1, 1, refs=((ref, IndexSet.span(0, 1)),), plan_only=True)
    grid.pass_time(60.0)
    made = grid["alpha"].replies[1]
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None, made
    gang_ = made.decision.gang
    assert (gang_.policy, gang_.transfer_s) == ("worst-fit", 0.0)
    assert [place.site for place in gang_.components] == ["beta", "alpha"]


def test_uploads_at_home_reach_every_site_that_answered_in_a_grid_of_many() -> None:
    grid = Grid(alpha=1, **{f"s{n:02}": (8 if n == 13 else 1) for n in range(18)})
    wanted = msgspec.structs.replace(
        gang("1x8"), inputs=(InputFile(source=f"blob:{'a' * 64}", path="x", size_bytes=1000),)
    )
    refs = ((f"blob:{'a' * 64}", IndexSet.span(0, 1)),)
    grid["alpha"].submit(wanted, 1, 1, refs=refs, plan_only=True)
    grid.pass_time(60.0)
    made = grid["alpha"].replies[1]
    assert isinstance(made, fx.DecisionMade) and made.decision.gang is not None, made
    piece = made.decision.gang.components[0]
    assert (piece.site, piece.sources, piece.bytes_in) == ("s13", ("alpha",), 1000)


def test_a_site_takes_no_gang_from_a_peer_for_an_ordinary_job() -> None:
    grid = Grid(alpha=0, beta=4)
    grid["alpha"].submit(spec(2, sites=("beta",)), 2, 1, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    offer = grid.post_box[0][2]
    assert isinstance(offer, ms.Prepare)
    as_gang = encode_spec(msgspec.structs.replace(spec(2, sites=("beta",)), components=components_of("1x1")))
    hashed = msgspec.structs.replace(offer.authorisation, spec_sha256=hashlib.sha256(as_gang).hexdigest())
    lie = msgspec.structs.replace(offer, spec=as_gang, authorisation=hashed)
    sent = [one for one in grid["beta"].handle(ev.Received(SiteId("alpha"), lie)) if isinstance(one, fx.Send)]
    refused = [one.message for one in sent if isinstance(one.message, ms.Refused)]
    assert [one.reason for one in refused] == ["the offer holds components of several gangs"]
    assert not grid["beta"].engine.core.state.custodies


def test_a_site_takes_no_part_of_a_gang_whose_components_are_not_alike() -> None:
    grid = Grid(alpha=0, beta=4)
    wanted = msgspec.structs.replace(gang("1x1@beta"), sweep=Sweep(axes=(Axis(name=COMPONENT, start=0, stop=1),)))
    grid["alpha"].submit(wanted, 1, 1, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    offer = grid.post_box[0][2]
    assert isinstance(offer, ms.Prepare)
    for lie, why in (
        (components_of("1x1+1x2"), "components that are not alike"),
        ((ComponentSpec(processors=0),), "0 processors"),
        ((ComponentSpec(count=10**9),), "want 1 to"),
    ):
        body = encode_spec(msgspec.structs.replace(wanted, components=lie))
        hashed = msgspec.structs.replace(offer.authorisation, spec_sha256=hashlib.sha256(body).hexdigest())
        message = msgspec.structs.replace(offer, spec=body, authorisation=hashed, indices=IndexSet.span(0, 2))
        sent = [one for one in grid["beta"].handle(ev.Received(SiteId("alpha"), message)) if isinstance(one, fx.Send)]
        (refused,) = [one.message for one in sent if isinstance(one.message, ms.Refused)]
        assert why in refused.reason


def test_a_decision_keeps_its_components_in_the_journals_form() -> None:
    made = answer(Grid(alpha=4), gang("2x1"))
    assert isinstance(made, fx.DecisionMade)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(made.decision), type=Decision)
    assert again == made.decision and again.gang is not None
