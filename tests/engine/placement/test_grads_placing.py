"""Gangs placed by the model of their run: the machines that sites quote, the links between them, the division of the
data, and the reasons that `diana plan` shows (SPEC G2-G4)."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.messages.messages import MachineKind
from diana.model.ids import GroupId, SiteId
from diana.model.job.components import components_of
from diana.model.job.gang import of_rank
from diana.model.job.software import BARRIER
from diana.model.job.spec import ComponentSpec, FlexibleSpec, GroupSpec, MapperSpec
from diana.model.views.decision import GangDecision
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import spec

MODEL = (
    ("compute_s", "1200 * component.share / (component.speed * component.processors)"),
    ("time_s", "compute_s + 100 * link.rtt_s + 2"),
)
BALANCED = MapperSpec(kind="time-balance", items="1000")


def grid(**slots_and_speeds: tuple[int, float]) -> Grid:
    made = Grid({"binding": "early"}, **{name: slots for name, (slots, _) in slots_and_speeds.items()})
    for name, (_, speed) in slots_and_speeds.items():
        made[name].settings = msgspec.structs.replace(made[name].settings, speed=speed)
        made[name].restart()
    made.settle()
    for one, other in combinations(slots_and_speeds, 2):
        measure(made[one], other, 0.01)
        measure(made[other], one, 0.01)
    return made


def measure(one: Site, other: str, seconds: float) -> None:
    book = one.engine.core.view.book
    for _ in range(3):
        book.link(SiteId(other)).rtt.add(one.grid.now, seconds)
    book.fresh(SiteId(other))


def gang(components: str | tuple[ComponentSpec, ...] = "2x4", **more: object) -> GroupSpec:
    parts = components_of(components) if isinstance(components, str) else components
    wanted = msgspec.structs.replace(spec(1), components=parts, model=MODEL)
    return msgspec.structs.replace(wanted, **more)


def answer(made: Grid, wanted: GroupSpec) -> object:
    made["alpha"].replies.pop(1, None)
    made["alpha"].submit(wanted, 1, plan_only=True)
    made.pass_time(60.0)
    return made["alpha"].replies[1]


def planned(made: Grid, wanted: GroupSpec) -> GangDecision:
    found = answer(made, wanted)
    assert isinstance(found, fx.DecisionMade) and found.decision.gang is not None, found
    return found.decision.gang


def sites(gang_: GangDecision) -> list[str]:
    return [place.site for place in gang_.components]


def test_a_gang_with_a_model_goes_where_its_run_is_foretold_to_end_first() -> None:
    made = grid(alpha=(16, 1.0), beta=(4, 2.0), gamma=(4, 3.0))
    found = planned(made, gang())
    assert found.policy == "grads" and sorted(sites(found)) == ["beta", "gamma"]
    assert found.run_s == pytest.approx(1200 * 0.5 / (2.0 * 4) + 100 * 0.01 + 2)
    assert (found.runner_up, found.runner_up_s) != ((), 0.0) and found.runner_up_s > found.run_s
    assert 0 < found.models <= found.most_models == 3 * found.kinds * 2**found.searched_sites
    assert (found.kinds, found.searched_sites) == (3, 3)


def test_a_far_site_is_left_where_the_links_cost_more_than_its_machines_gain() -> None:
    made = grid(alpha=(16, 1.0), beta=(4, 2.0), gamma=(4, 3.0))
    for one in ("alpha", "beta"):
        measure(made["gamma"], one, 9.0)
        measure(made[one], "gamma", 9.0)
    assert sites(planned(made, gang())) == ["alpha", "alpha"]
    assert sorted(
        sites(planned(made, gang(link_requirements=("link.rtt_s < 0.1",), components=components_of("2x4"))))
    ) == [
        "alpha",
        "alpha",
    ]


@pytest.mark.parametrize(
    "three", [gang("3x1"), gang((), flexible=FlexibleSpec(processors=3))], ids=["components", "flexible"]
)
def test_a_gang_that_one_site_holds_takes_several_where_only_these_together_are_as_it_wants(three: GroupSpec) -> None:
    """Its first machines are all at one site, whichever is looked at first."""
    made = grid(alpha=(8, 1.0), beta=(8, 1.1), gamma=(8, 1.2))
    wanted = msgspec.structs.replace(three, set_requirements=("sum(set.slots) >= 16", "size(set) < 3"))
    assert len(set(sites(planned(made, wanted)))) == 2
    of_three = planned(made, msgspec.structs.replace(three, set_requirements=("size(set) == 3",)))
    assert set(sites(of_three)) == {"alpha", "beta", "gamma"}
    # Three kinds at three sites, 3 p 2^s, looked at twice.
    assert of_three.models <= of_three.most_models == 2 * 72


def test_the_mapper_lets_all_components_end_at_one_time() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 3.0))
    equal = planned(made, gang(mapper=MapperSpec(kind="equal", items="1000")))
    assert [place.items for place in equal.components] == [500, 500]
    found = planned(made, gang(mapper=BALANCED))
    items = {place.site: place.items for place in found.components}
    assert items == {"alpha": 250, "beta": 750} and found.mapper == "time-balance"
    assert len({round(place.run_s, 6) for place in found.components}) == 1
    assert found.run_s < equal.run_s


def test_the_mapper_keeps_to_the_memory_of_the_machines() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 3.0))
    for name, size in (("alpha", 4000), ("beta", 600)):
        made[name].settings = msgspec.structs.replace(made[name].settings, memory_bytes=size)
        made[name].restart()
    made.settle()
    for name, other in (("alpha", "beta"), ("beta", "alpha")):
        measure(made[name], other, 0.01)
    tight = MapperSpec(kind="time-balance", items="1000", item_bytes="1")
    assert {place.site: place.items for place in planned(made, gang(mapper=tight)).components} == {
        "alpha": 400,
        "beta": 600,
    }
    large = MapperSpec(kind="time-balance", items="9000", item_bytes="1")
    found = answer(made, gang(mapper=large))
    assert isinstance(found, fx.Refusal) and "have memory for 4,600 of 9,000 items, 4,400 too few" in found.text


def test_a_flexible_gang_is_cut_to_the_machines_of_the_first_end() -> None:
    made = grid(alpha=(16, 1.0), beta=(4, 2.0), gamma=(6, 3.0))
    flexible = FlexibleSpec(processors=8, min_processors=2)
    wanted = msgspec.structs.replace(spec(1), model=MODEL, flexible=flexible, mapper=BALANCED)
    found = planned(made, wanted)
    assert sorted((place.site, place.processors) for place in found.components) == [("beta", 2), ("gamma", 6)]
    assert sum(place.items for place in found.components) == 1000
    made["beta"].submit(spec(4, sites=("beta",)), 4, 5)
    made.pass_time(1.0)
    found = planned(made, wanted)
    assert sorted((place.site, place.processors) for place in found.components) == [("alpha", 2), ("gamma", 6)]


def test_kinds_of_machines_within_a_site_count_and_not_the_site_alone() -> None:
    made = grid(alpha=(4, 1.0), beta=(2, 0.5))
    made["beta"].handle(ev.LrmReady(worker="fast", session=1, slots=4, known=(), software=(BARRIER,), speed=4.0))
    made.settle()
    assert sites(planned(made, gang("1x4"))) == ["beta"]
    assert sites(planned(made, gang("1x4", requirements=("site.speed >= 1",)))) == ["alpha"]


def test_other_policies_tell_the_prediction_too() -> None:
    made = grid(alpha=(16, 1.0), beta=(4, 2.0))
    found = planned(made, gang(gang_placement="worst-fit"))
    assert sites(found) == ["alpha", "alpha"] and found.models == 0
    assert found.run_s == pytest.approx(1200 * 0.5 / 4 + 2)
    assert planned(made, gang(gang_placement="worst-fit", model=())).run_s == 0.0


def test_gangs_have_a_rank() -> None:
    made = grid(alpha=(16, 1.0), beta=(4, 2.0), gamma=(6, 3.0))
    wanted = gang(model=(), rank="site.speed")
    assert sorted(sites(planned(made, wanted))) == ["beta", "gamma"]
    assert sites(planned(made, gang("1x4", model=(), rank="-site.speed"))) == ["alpha"]
    made["gamma"].submit(spec(6, sites=("gamma",)), 6, 5)
    made.pass_time(1.0)
    assert sites(planned(made, wanted)) == ["alpha", "alpha"], "all may have it where the first do not hold it"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"model": (("time_s", "0.0 / component.share - 1"),)}, "its model gives no time"),
        ({"model": (("time_s", "site.gpus + 1 / link.loss - 5"),)}, "its model gives no time"),
        ({"model": (), "gang_placement": "grads"}, "grads places by a model"),
        (
            {"gang_placement": "astrology"},
            "gang.placement: 'astrology': no such placement; known here: close-to-files,",
        ),
        ({"model": (("time_s", "nonsense"),)}, "'nonsense' is no name here"),
        ({"set_requirements": ("size(set) > 5",)}, "no set of sites with room meets: size(set) > 5"),
    ],
)
def test_a_gang_that_no_model_can_place_is_told_why(more: dict[str, object], told: str) -> None:
    made = grid(alpha=(2, 1.0), beta=(2, 2.0), gamma=(2, 1.0))
    found = answer(made, gang("2x2", **more))
    assert isinstance(found, fx.Refusal) and told in found.text and "\n" not in found.text


def test_a_link_that_nobody_knows_yet_is_waited_for() -> None:
    made = Grid({"binding": "early"}, alpha=2, beta=2)
    found = answer(made, gang("2x2"))
    told = "no place for this gang now: its model gives no time: alpha: link.rtt_s not told; submitted, it waits"
    assert isinstance(found, fx.Refusal) and found.text == told


def test_a_gang_that_needs_sites_whose_link_nobody_knows_yet_waits_for_it() -> None:
    """One site would do for its model, and not for what it wants of its sites."""
    made = Grid({"binding": "early"}, alpha=8, beta=8)
    found = answer(made, gang("2x4", set_requirements=("size(set) == 2",)))
    assert isinstance(found, fx.Refusal) and "link.rtt_s not told; submitted, it waits" in found.text


def test_a_link_that_neither_side_measured_is_as_long_as_the_way_by_home() -> None:
    made = Grid({"binding": "early"}, alpha=2, beta=4, gamma=4)
    measure(made["alpha"], "beta", 0.02)
    measure(made["alpha"], "gamma", 0.03)
    found = planned(made, gang("2x4"))
    assert sorted(sites(found)) == ["beta", "gamma"]
    assert found.run_s == pytest.approx(1200 * 0.5 / 4 + 100 * 0.05 + 2)


def test_a_site_that_lies_of_its_machines_gets_a_gang_and_breaks_nothing() -> None:
    made = grid(alpha=(8, 1.0), beta=(4, 2.0))

    def liar(made: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if sender == "beta" and isinstance(message, ms.Quote) and message.kinds and message.kinds[0].speed < 99:
            lies = (MachineKind(1 << 40, 1, 1e300), MachineKind(4, 1, float("nan")))
            made.post(sender, to, msgspec.structs.replace(message, kinds=lies))
            return "lose"
        return "deliver"

    made.fate = liar
    found = planned(made, gang("2x1"))
    assert sites(found) == ["beta", "beta"] and found.run_s < 10


def test_a_gang_that_is_submitted_goes_where_it_was_planned_and_is_told_its_shares() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 3.0))
    made["alpha"].submit(gang(mapper=BALANCED), 2)
    made.pass_time(5.0)
    group = made["alpha"].group(GroupId("alpha-1"))
    assert {part.site for part in group.subgroups.values()} == {"alpha", "beta"}
    by_site = {place.site: place.items for place in group.decisions[-1].gang.components}  # type: ignore[union-attr]
    assert by_site == {"alpha": 250, "beta": 750}
    for name in ("alpha", "beta"):
        ((run, go),) = made[name].gone.items()
        told = dict(go.environment)
        assert sorted(told["DIANA_GANG_ITEMS"].split(",")) == ["250", "750"]
        assert dict(of_rank(go.environment, run.index, 2))["DIANA_ITEMS"] == str(by_site[SiteId(name)])


def test_a_division_that_is_none_of_the_gang_lets_nothing_go() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 3.0))

    def liar(made: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Commit) and message.hosts and message.items and min(message.items) >= 0:
            made.post(sender, to, msgspec.structs.replace(message, items=(-1, 1 << 60)))
            return "lose"
        return "deliver"

    made.fate = liar
    made["alpha"].submit(gang(mapper=BALANCED), 2)
    made.pass_time(5.0)
    assert not made["beta"].gone
    assert any("not those of its gang" in line for line in made["beta"].warnings)


def run_once(made: Grid, number: int, took_s: float) -> GangDecision:
    """Submit a gang, let it run so long, and return how it was placed."""
    name = GroupId(f"alpha-{number}")
    made["alpha"].submit(gang("1x4"), 1, number)
    made.pass_time(5.0)
    decided = made["alpha"].group(name).decisions[-1].gang
    made.pass_time(took_s)
    for site in made.sites.values():
        site.end()
    made.settle()
    made.pass_time(1.0)
    assert made["alpha"].group(name).state == "done" and decided is not None
    return decided


def test_a_site_where_runs_took_longer_than_the_model_says_is_left_for_another() -> None:
    """Beta's speed is worth less to this program than the model believes; alpha keeps the model's word."""
    made = grid(alpha=(4, 1.0), beta=(4, 2.0))
    first = run_once(made, 1, 900.0)
    assert (sites(first), first.run_s, first.runs_seen) == (["beta"], 152.0, 0)
    for number in (2, 3):
        run_once(made, number, 900.0)
    found = planned(made, gang("1x4"))
    ratios = made["alpha"].engine.state.site_ratios.sketches
    assert [key.partition("/")[2].partition(" ")[0] for key in ratios] == ["beta"]
    # Of alpha nothing is known, so that the mean of all sites stands for it.
    assert sites(found) == ["beta"] and found.run_s == pytest.approx(905, rel=0.02) and found.runs_seen == 3
    for number in range(4, 7):
        made["alpha"].submit(gang("1x4", sites=("alpha",)), 1, number)
        made.pass_time(310.0)
        made["alpha"].end()
        made.settle()
    found = planned(made, gang("1x4"))
    assert sites(found) == ["alpha"] and found.run_s == pytest.approx(310, rel=0.05)
    (place,) = found.components
    assert place.model_s == pytest.approx(302.0) and found.run_low_s <= found.run_s <= found.run_high_s
    made["alpha"].restart()
    made.settle()
    assert sites(planned(made, gang("1x4"))) == ["alpha"], "after a restart, too"


def test_the_worst_link_between_the_sites_of_a_gang_counts() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 1.0), gamma=(4, 1.0))
    for one, other in (("beta", "gamma"), ("gamma", "beta")):
        for _ in range(40):
            measure(made[one], other, 0.5)
    found = planned(made, gang("3x4"))
    assert found.run_s == pytest.approx(1200 / 3 / 4 + 100 * 0.5 + 2, rel=0.05)


def test_a_component_that_waited_for_a_slower_one_teaches_nothing() -> None:
    made = grid(alpha=(4, 1.0), beta=(4, 3.0))
    made["alpha"].submit(gang(), 2, 1)
    made.pass_time(155.0)
    for site in made.sites.values():
        site.end()
    made.settle()
    made.pass_time(1.0)
    assert made["alpha"].group(GroupId("alpha-1")).state == "done"
    (key,) = made["alpha"].engine.state.site_ratios.sketches
    assert "/alpha " in key


def test_ranks_follow_each_other_by_the_nearest_sites() -> None:
    """Three sites of two alike components each; alpha is far from beta, and gamma near both."""
    made = grid(alpha=(2, 1.0), beta=(2, 1.0), gamma=(2, 1.0))
    for one, other in (("alpha", "beta"), ("beta", "alpha")):
        measure(made[one], other, 0.4)
    found = sites(planned(made, gang("6x1")))
    assert found in (["alpha"] * 2 + ["gamma"] * 2 + ["beta"] * 2, ["beta"] * 2 + ["gamma"] * 2 + ["alpha"] * 2), found
