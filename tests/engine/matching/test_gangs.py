"""Gangs keep the requirements of their group, of each component, of their sites together and of the links between them
(SPEC G1)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.model.ids import GroupId, SiteId
from diana.model.job.components import components_of
from diana.model.job.spec import ComponentSpec, GroupSpec
from diana.policy.requirements.group import plain
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec

GIB = 2**30


def grid(**memory_gib: int) -> Grid:
    made = Grid({"binding": "early"}, **dict.fromkeys(memory_gib, 8))
    for name, gib in memory_gib.items():
        settings = msgspec.structs.replace(made[name].settings, memory_bytes=gib * GIB, domain=f"{name}.edu")
        made[name].settings = settings
        made[name].restart()
    made.settle()
    return made


def measure(one: Site, other: str, seconds: float) -> None:
    book = one.engine.core.view.book
    book.link(SiteId(other)).rtt.add(one.grid.now, seconds)
    book.fresh(SiteId(other))


def gang(components: str | tuple[ComponentSpec, ...], **more: object) -> GroupSpec:
    parts = components_of(components) if isinstance(components, str) else components
    return msgspec.structs.replace(spec(1, **more), components=parts)


def answer(made: Grid, wanted: GroupSpec) -> object:
    made["alpha"].replies.pop(1, None)
    made["alpha"].submit(wanted, 1, plan_only=True)
    made.pass_time(60.0)
    return made["alpha"].replies[1]


def places(made: Grid, wanted: GroupSpec) -> list[str]:
    found = answer(made, wanted)
    assert isinstance(found, fx.DecisionMade) and found.decision.gang is not None, found
    return [place.site for place in found.decision.gang.components]


def test_all_components_keep_the_requirements_of_their_group() -> None:
    made = grid(alpha=2, beta=8, gamma=8)
    wanted = gang("2x4", requirements=("site.memory_bytes >= 8e9",))
    assert sorted(places(made, wanted)) == ["beta", "gamma"]
    found = answer(made, wanted)
    assert isinstance(found, fx.DecisionMade) and found.decision.gang is not None
    rejected = {site.site: site.rejected for site in found.decision.gang.sites}
    assert rejected["alpha"] == "does not meet: site.memory_bytes >= 8e9"


@pytest.mark.parametrize("policy", ["worst-fit", "close-to-files", "cluster-min"])
def test_each_component_goes_where_its_own_requirements_hold(policy: str) -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    large = ComponentSpec(name="large", processors=2, requirements=("site.memory_bytes >= 8e9",))
    small = ComponentSpec(name="small", count=2, processors=2, requirements=("suffix(site.domain, ['beta.edu'])",))
    anywhere = ComponentSpec(name="any", processors=8)
    wanted = msgspec.structs.replace(gang((large, small, anywhere)), gang_placement=policy)
    assert places(made, wanted) == ["gamma", "beta", "beta", "alpha"]


@pytest.mark.parametrize("policy", ["worst-fit", "close-to-files", "cluster-min"])
def test_a_component_that_fewer_sites_may_run_is_placed_before_one_that_more_may(policy: str) -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    some = ComponentSpec(processors=8, requirements=("suffix(site.domain, ['beta.edu', 'gamma.edu'])",))
    one = ComponentSpec(processors=8, requirements=("suffix(site.domain, ['beta.edu'])",))
    fixed = ComponentSpec(processors=8, site="alpha")
    wanted = msgspec.structs.replace(gang((some, one, fixed)), gang_placement=policy)
    assert places(made, wanted) == ["gamma", "beta", "alpha"]


def test_a_component_sees_its_own_processors() -> None:
    made = grid(alpha=2, beta=4)
    two = tuple(ComponentSpec(processors=n, requirements=("site.slots >= 2 * job.processors",)) for n in (4, 5))
    found = answer(made, gang(two))
    assert isinstance(found, fx.Refusal)
    assert "component 2: no site meets site.slots >= 2 * job.processors (alpha: 8 >= 10 does not hold" in found.text


def test_the_sites_of_a_gang_together_meet_what_is_wanted_of_a_set() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    assert len(set(places(made, gang("2x4")))) == 2
    assert len(set(places(made, gang("2x4", set_requirements=("size(set) == 1",))))) == 1
    assert len(set(places(grid(alpha=2, beta=4), gang("2x4", set_requirements=("size(set) == 1",))))) == 1
    used = places(made, gang("2x4", set_requirements=("min(set.memory_bytes) >= 4e9",)))
    assert set(used) == {"beta", "gamma"}
    found = answer(made, gang("2x4", set_requirements=("sum(set.memory_bytes) >= 1e12",)))
    assert isinstance(found, fx.Refusal)
    assert (
        "no set of sites with room meets: sum(set.memory_bytes) >= 1e12; the best is beta + gamma: "
        "12884901888 >= 1e+12 does not hold (takes it if sum(set.memory_bytes) >= 12884901888)"
    ) in found.text


def test_a_set_of_sites_that_would_do_and_has_no_room_is_told_beside_the_best() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    found = answer(made, gang("3x8", set_requirements=("size(set) <= 2",)))
    assert isinstance(found, fx.Refusal)
    assert (
        "size(set) <= 2; the best is alpha + beta + gamma: 3 <= 2 does not hold (takes it if size(set) <= 3); "
        "alpha + beta would do, without the room for it"
    ) in found.text


def test_the_links_between_the_components_count_and_not_only_those_from_home() -> None:
    made = grid(alpha=8, beta=8, gamma=8)
    for one, other, seconds in (("alpha", "beta", 0.01), ("alpha", "gamma", 0.01), ("beta", "gamma", 0.5)):
        measure(made[one], other, seconds)
        measure(made[other], one, seconds)
    apart = gang("3x8", link_requirements=("link.rtt_s < 0.1",))
    found = answer(made, apart)
    assert (
        isinstance(found, fx.Refusal)
        and "beta to gamma: link.rtt_s < 0.1; the best is alpha + beta + gamma: 0.5 < 0.1 does not hold" in found.text
    )
    two = places(made, gang("2x8", link_requirements=("link.rtt_s < 0.1",)))
    assert "alpha" in two and len(set(two)) == 2


def test_a_link_that_nobody_measured_is_not_taken_for_the_one_from_home() -> None:
    made = grid(alpha=8, beta=8, gamma=8)
    for other in ("beta", "gamma"):
        measure(made["alpha"], other, 0.01)
    found = answer(made, gang("3x8", link_requirements=("link.rtt_s < 0.1",)))
    assert (
        isinstance(found, fx.Refusal)
        and "beta to gamma: link.rtt_s < 0.1; the best is alpha + beta + gamma: link.rtt_s not told" in found.text
    )


def test_a_gang_that_is_submitted_goes_where_it_was_planned() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    large = ComponentSpec(name="large", processors=2, requirements=("site.memory_bytes >= 8e9",))
    made["alpha"].submit(gang((large, ComponentSpec(processors=2, site="alpha"))), 2)
    made.pass_time(5.0)
    parts = made["alpha"].group(GroupId("alpha-1")).subgroups.values()
    assert {part.site for part in parts} == {"gamma", "alpha"}
    (placed,) = made["alpha"].records(records.GroupPlaced)
    assert placed.decision.gang is not None  # type: ignore[attr-defined]


# --- wishes of a component for links and for its sites together ----------------------------------------------


def measured(made: Grid, **seconds: float) -> None:
    """`alpha_beta=0.01`: both sides measured that."""
    for pair, taken in seconds.items():
        one, other = pair.split("_")
        measure(made[one], other, taken)
        measure(made[other], one, taken)


def test_a_component_wants_a_link_from_the_site_of_submission_that_the_others_need_not_have() -> None:
    made = grid(alpha=8, beta=8, gamma=8)
    measured(made, alpha_beta=0.5, alpha_gamma=0.01, beta_gamma=0.01)
    near = ComponentSpec(
        name="near", processors=8, link_requirements=("link.rtt_s < 0.1",), requirements=("site.name != 'alpha'",)
    )
    assert places(made, gang((near,))) == ["gamma"]
    found = answer(made, gang((msgspec.structs.replace(near, link_requirements=("link.rtt_s < 0.001",)),)))
    assert isinstance(found, fx.Refusal)
    assert "component near: no site meets site.name != 'alpha' && link.rtt_s < 0.001" in found.text
    assert "0.01 < 0.001 does not hold" in found.text


def test_sites_are_asked_about_software_that_a_component_names_under_any_key() -> None:
    made = grid(alpha=8, beta=8)
    part = ComponentSpec(processors=8, requirements=("site.name == 'beta'",))
    for text, takes in (("!('mpi' in site.software)", True), ("'mpi' in site.software", False)):
        found = answer(made, gang((msgspec.structs.replace(part, link_requirements=(text,)),)))
        assert isinstance(found, fx.Refusal) is not takes, text
        if isinstance(found, fx.Refusal):
            assert "site.software = []" in found.text


def test_a_component_wants_links_to_each_other_site_and_two_others_need_none_between_them() -> None:
    made = grid(alpha=8, beta=8, gamma=8)
    measured(made, alpha_beta=0.01, alpha_gamma=0.01, beta_gamma=0.5)
    near = ("link.rtt_s < 0.1",)
    hub = ComponentSpec(name="hub", processors=8, site="alpha", link_requirements=near)
    other = ComponentSpec(name="other", count=2, processors=8)
    assert sorted(places(made, gang((hub, other)))) == ["alpha", "beta", "gamma"]
    found = answer(made, gang((msgspec.structs.replace(hub, site="beta"), other)))
    assert isinstance(found, fx.Refusal)
    assert "beta to gamma: link.rtt_s < 0.1; the best is alpha + beta + gamma: 0.5 < 0.1 does not hold" in found.text
    found = answer(made, gang((msgspec.structs.replace(hub, site="gamma"), other)))
    assert isinstance(found, fx.Refusal) and "gamma to beta: link.rtt_s < 0.1" in found.text
    assert isinstance(answer(made, gang("3x8", link_requirements=near)), fx.Refusal), "for the group it holds of all"


def test_the_sites_of_one_table_together_meet_what_it_wants_of_them() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    apart = ComponentSpec(name="apart", count=2, processors=2, set_requirements=("size(set) == 2",))
    alone = ComponentSpec(name="alone", count=2, processors=2, set_requirements=("size(set) == 1",))
    found = places(made, gang((apart,)))
    assert len(set(found)) == 2
    assert len(set(places(made, gang((alone,))))) == 1
    answered = answer(made, gang((msgspec.structs.replace(apart, set_requirements=("sum(set.memory_bytes) > 1e12",)),)))
    assert isinstance(answered, fx.Refusal)
    assert "apart: sum(set.memory_bytes) > 1e12; the best is " in answered.text


def test_expressions_of_components_count_among_those_of_the_group() -> None:
    many = tuple(f"link.rtt_s < {n}" for n in range(1, 34))
    one = ComponentSpec(processors=1, link_requirements=many, set_requirements=("size(set) < 9",) * 32)
    assert not plain(gang((one,))) and plain(gang((msgspec.structs.replace(one, set_requirements=()),)))


@pytest.mark.parametrize("policy", ["worst-fit", "cluster-min", "turnaround"])
def test_a_gang_that_one_site_holds_takes_several_where_only_these_together_are_as_it_wants(policy: str) -> None:
    """Policies fill one site first; its share at each makes the gang need them all."""
    made = grid(alpha=2, beta=8, gamma=8)
    wanted = gang("2x2", set_requirements=("sum(set.memory_bytes) >= 16e9", "size(set) == 2"), gang_placement=policy)
    assert sorted(places(made, wanted)) == ["beta", "gamma"]
