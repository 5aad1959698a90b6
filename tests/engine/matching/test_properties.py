"""Sites are known by more than their sizes: properties that their operators declare, software, the group's data that
they hold, and the memory of all their machines; told in quotes and summaries, and judged as far as it was told (SPEC
G1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.matching import facts
from diana.engine.membership import gossip, merge, sizes
from diana.engine.messages import messages as ms
from diana.engine.placement import quote_round
from diana.engine.placement.draft import Draft, Probe
from diana.engine.placement.reservations import Reservations
from diana.model.ids import GroupId, SiteId
from diana.model.job.properties import MOST_BYTES, MOST_PROPERTIES
from diana.model.job.spec import Axis, ComponentSpec, GroupSpec, Sweep
from diana.model.views.decision import Decision
from diana.policy.requirements.group import GroupRequirements
from diana.policy.requirements.software import names_of_software
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, dataset, spec, whole
from tests.engine.gossiping import entry, hello
from tests.engine.matching.test_requirements import GIB, grid, learn, plan, rows, wanted
from tests.engine.membership.test_told_resources import machine, tell


def declaring(**sites: dict[str, str]) -> Grid:
    made = Grid({"binding": "early"}, **dict.fromkeys(sites, 4))
    for name, properties in sites.items():
        learn(made[name], properties=properties)
    return made


def decided(made: Grid, asked: GroupSpec, jobs: int = 4, refs: Sequence[str] = ()) -> Decision:
    made["alpha"].replies.pop(1, None)
    read = tuple((f"dataset:{ref}", whole(jobs)) for ref in refs)
    answer = made["alpha"].submit(asked, jobs, refs=read, plan_only=True)
    assert isinstance(answer, fx.DecisionMade), answer
    return answer.decision


def used(made: Grid, *requirements: str, refs: Sequence[str] = (), **more: Any) -> set[str]:
    return {part.site for part in decided(made, wanted(requirements=requirements, **more), refs=refs).parts}


def lacks(made: Grid, site: str, *requirements: str, refs: Sequence[str] = (), **more: Any) -> str:
    return rows(decided(made, wanted(requirements=requirements, **more), refs=refs))[site].failed[0].found


def peer(site: Site, name: str, **told: Any) -> None:
    """A peer that answers no quotes."""
    site.handle(ev.PeerUp(hello(name)))
    site.handle(ev.Received(SiteId(name), entry(name, **told)))


def short_list(site: Site, requirement: str) -> list[str]:
    """Return the peers that are asked for a quote."""
    asked = spec(1, requirements=(requirement,))
    draft = Draft(1, asked, whole(1), (), owner="", purpose=Probe(lambda _: None))
    return list(quote_round._short_list(site.engine.core, draft))


# --- properties ----------------------------------------------------------------------------------------------


def test_jobs_go_where_a_property_is_as_wanted() -> None:
    made = declaring(alpha={"tier": "iron"}, beta={"tier": "gold", "power_kw": "3.5"}, gamma={"power_kw": "12"})
    assert used(made, "site.properties.tier == 'gold'") == {"beta"}
    assert used(made, "number(site.properties.power_kw) >= 4") == {"gamma"}
    assert lacks(made, "alpha", "site.properties.tier == 'gold'") == "'iron' == 'gold' does not hold"
    assert rows(plan(made, wanted(requirements=("number(site.properties.power_kw) >= 4",))))["beta"].near_miss == (
        "number(site.properties.power_kw) >= 3.5"
    )


def test_a_site_that_does_not_declare_it_is_told_with_the_name_that_it_may_have_meant() -> None:
    made = declaring(alpha={}, beta={"tier": "gold"}, gamma={"teir": "gold"})
    gold = "site.properties.teir == 'gold'"
    assert used(made, gold) == {"gamma"}
    assert lacks(made, "alpha", gold) == "site.properties.teir not told"
    assert lacks(made, "beta", gold) == "site.properties.teir not told; did you mean site.properties.tier?"


def test_a_text_that_is_no_number_is_told_and_the_rest_may_still_decide() -> None:
    made = declaring(alpha={"level": "gold"}, beta={"level": "7"}, gamma={"level": "1e999"})
    high = "number(site.properties.level) > 3"
    assert used(made, high) == {"beta"}
    assert lacks(made, "alpha", high) == "'gold' is no number"
    assert lacks(made, "gamma", high) == "'1e999' is no number"
    assert used(made, f"{high} && site.name != 'beta' || site.name == 'alpha'") == {"alpha"}


def test_a_rank_by_a_property_passes_over_sites_where_it_is_no_number() -> None:
    made = declaring(alpha={"stars": "many"}, beta={"stars": "2"}, gamma={"stars": "5"})
    assert used(made, rank="number(site.properties.stars)") == {"gamma"}
    (why,) = rows(plan(made, wanted(requirements=(), rank="number(site.properties.stars)")))["alpha"].failed
    assert (why.text, why.found) == ("no rank by number(site.properties.stars)", "'many' is no number")


def test_properties_of_a_set_are_a_list_of_texts() -> None:
    made = declaring(alpha={"os": "a", "kw": "1"}, beta={"os": "b", "kw": "2.5"}, gamma={"os": "b"})
    many = plan(made, wanted(2, (), set_requirements=("sum(number(set.properties.kw)) >= 3",)), 2)
    assert {part.site for part in many.parts} == {"alpha", "beta"}
    only = plan(made, wanted(2, (), set_requirements=("!('a' in set.properties.os)",)), 2)
    assert {part.site for part in only.parts} <= {"beta", "gamma"}


def test_in_a_large_grid_summaries_tell_whom_to_ask() -> None:
    site = Grid({"binding": "early"}, alpha=1)["alpha"]
    for number in range(60):
        peer(
            site,
            f"plain{number:02}",
            slots=64,
            free_slots=64,
            speed=4.0,
            properties={"tier": "iron"} if number % 2 else {},
            declares=True,
        )
    gold = "site.properties.tier == 'gold'"
    assert short_list(site, gold) == []
    assert len(short_list(site, f"{gold} || site.slots == 64")) > 2
    peer(site, "zz", slots=4, free_slots=4, properties={"tier": "gold"})
    assert short_list(site, gold) == ["zz"]


def test_a_group_that_waits_for_its_turn_keeps_no_list_of_the_sites_that_it_passed_over() -> None:
    site = Grid({"binding": "late"}, alpha=1)["alpha"]
    learn(site, properties={"tier": "gold"})
    for number in range(300):
        peer(site, f"plain{number:03}", slots=64, free_slots=64, declares=True)
    site.submit(spec(4, requirements=("site.properties.tier == 'gold'",), work_s=100.0), 4)
    decision = site.group("alpha-1").decisions[-1]
    assert [(row.sites, row.reason) for row in decision.reasons] == [
        (300, "does not meet: site.properties.tier == 'gold'")
    ]
    waiting = site.engine.core.book(Reservations).groups[GroupId("alpha-1")]
    assert waiting.draft.match(site.engine.core).passed_over == {}


def test_a_site_whose_word_came_by_an_older_release_is_asked_what_it_declares() -> None:
    """An older release that passes a word on leaves out what it does not know."""
    site = Grid({"binding": "early"}, alpha=1)["alpha"]
    told = gossip.summary(declaring(beta={"tier": "gold"})["beta"].engine.core)
    assert told.declares
    for number in range(60):
        peer(site, f"plain{number:02}", slots=64, free_slots=64, declares=True)
    peer(site, "beta", slots=64, free_slots=64)
    assert short_list(site, "site.properties.tier == 'gold'") == ["beta"]


def test_of_what_a_peer_says_only_what_may_be_is_kept_and_passed_on() -> None:
    site = Grid(alpha=1)["alpha"]
    odd = {"tier": "gold", "no-name": "x", "größe": "x", "in": "x", "x" * 41: "x", "long": "x" * 101, "tab": "a\tb"}
    peer(site, "liar", slots=8, properties=odd)
    told = site.engine.core.view.peers[SiteId("liar")].summary
    assert told is not None and told.properties == {"tier": "gold"} and told.slots == 8
    peer(site, "many", properties={f"p{number:04}": "v" for number in range(1000)})
    told = site.engine.core.view.peers[SiteId("many")].summary
    assert told is not None and list(told.properties) == [f"p{number:04}" for number in range(MOST_PROPERTIES)]
    peer(site, "wide", properties={f"p{number}": "ü" * 100 for number in range(9)})
    told = site.engine.core.view.peers[SiteId("wide")].summary
    assert told is not None and list(told.properties) == ["p0", "p1"]


def test_a_quote_with_nonsense_is_read_as_far_as_it_can_be() -> None:
    made = declaring(alpha={}, beta={})
    send = made.post

    def lying(sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Quote):
            message = msgspec.structs.replace(message, properties={"tier": "gold", "a b": "x", "os": "\u202e"})
        send(sender, to, message)

    made.post = lying  # type: ignore[method-assign]
    assert used(made, "site.properties.tier == 'gold'") == {"beta"}
    assert lacks(made, "beta", "site.properties.os == 'x' || site.name == 'alpha'") == "site.properties.os not told"


def test_a_summary_grows_by_no_more_than_its_properties_may_have() -> None:
    site = declaring(alpha={f"p{n}": "x" * 98 for n in range(5)})["alpha"]
    told = gossip.summary(site.engine.core)
    bare = msgspec.structs.replace(told, properties={})
    assert 500 <= sizes.summary_bytes(told) - sizes.summary_bytes(bare) <= MOST_BYTES + 8 * MOST_PROPERTIES
    assert facts.of_summary(told)["site.properties.p4"] == "x" * 98
    assert facts.of_home(site.engine.core)["site.properties.p4"] == "x" * 98


def test_a_property_that_an_operator_changes_counts_from_then_on() -> None:
    made = declaring(alpha={}, beta={"tier": "iron"}, gamma={"tier": "gold"})
    learn(made["beta"], properties={"tier": "gold"})
    learn(made["gamma"], properties={})
    assert used(made, "site.properties.tier == 'gold'") == {"beta"}


# --- software ------------------------------------------------------------------------------------------------


def offering(site: Site, *names: str) -> None:
    site.session += 1
    site.handle(ev.LrmReady(worker="main", session=site.session, slots=4, known=(), software=names))
    site.grid.settle()


def test_jobs_go_where_software_is_offered_that_none_of_them_needs() -> None:
    made = declaring(alpha={}, beta={}, gamma={})
    offering(made["beta"], "containers", "module gcc/12")
    offering(made["gamma"], "module *")
    assert used(made, "'containers' in site.software") == {"beta"}
    assert used(made, "'module gcc/13' in site.software") == {"gamma"}
    assert used(made, "!('module gcc/12' in site.software)") == {"alpha"}
    assert lacks(made, "alpha", "'containers' in site.software") == "site.software = []"
    assert used(made, rank='"containers" in site.software ? 2.0 : 1.0') == {"beta"}


def test_a_site_of_an_older_release_tells_no_software_either_way() -> None:
    made = grid(alpha=8, beta=8)
    send = made.post

    def as_of_old(sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Quote):
            message = msgspec.structs.replace(message, offers=(), lacks=(), properties={}, kinds=())
        send(sender, to, message)

    made.post = as_of_old  # type: ignore[method-assign]
    for one in ("'mpi' in site.software", "!('mpi' in site.software)"):
        assert lacks(made, "beta", f"({one}) || site.name == 'alpha'") == "site.software not told"
    told = lacks(made, "beta", "site.total_memory_bytes > 1 || site.name == 'alpha'")
    assert told == "site.total_memory_bytes not told"
    assert lacks(made, "beta", "site.properties.a == '' || site.name == 'alpha'") == "site.properties.a not told"


def test_a_group_asks_about_no_more_software_than_an_answer_may_name() -> None:
    many = " || ".join(f"'module m{number}' in site.software" for number in range(40))
    more = " || ".join(f"'module n{number}' in site.software" for number in range(25))
    assert len(names_of_software(spec(1, requirements=(many,), rank="'mpi' in site.software ? 1.0 : 0.0"))) == 41
    with pytest.raises(ValueError, match=r"65 names in site\.software; a group asks about 64 at most"):
        GroupRequirements(spec(1, requirements=(many, more)))


@pytest.mark.parametrize(
    "text",
    [
        "'mpi'in site.software",
        "'mpi' in (site.software)",
        "('mpi') in site . software",
        '!(("mpi")in(site.software))',
        "'mpi'\n in site.software",
    ],
)
def test_software_is_asked_about_however_the_author_sets_blanks_and_brackets(text: str) -> None:
    assert names_of_software(spec(1, requirements=(text,))) == ("mpi",)


def test_software_that_a_component_wants_at_the_end_of_a_link_is_asked_about() -> None:
    component = ComponentSpec(link_requirements=("link.rtt_s < 0.1 || 'mpi' in site.software",))
    assert names_of_software(spec(1, components=(component,))) == ("mpi",)


def test_a_swept_name_stands_for_its_text() -> None:
    made = declaring(alpha={}, beta={})
    offering(made["beta"], "module gcc/12")
    sweep = Sweep(axes=(Axis(name="tool", values=("module gcc/12",)),))
    asked = msgspec.structs.replace(wanted(1, ("tool in site.software",)), sweep=sweep)
    assert {part.site for part in decided(made, asked, 1).parts} == {"beta"}


# --- data ----------------------------------------------------------------------------------------------------


def holding(made: Grid, site: str, name: str, *files: str, size_bytes: int) -> None:
    made[site].handle(
        ev.AddDataset(request=5, principal=OPERATOR, dataset=dataset(name, *files, size_bytes=size_bytes))
    )
    made.settle()


def test_jobs_go_where_enough_of_their_data_lies() -> None:
    made = declaring(alpha={}, beta={}, gamma={})
    holding(made, "beta", "large", "f", size_bytes=9000)
    holding(made, "gamma", "small", "f", "g", size_bytes=1000)
    both = ("large/f", "small/f", "small/f")
    assert used(made, "site.data_bytes >= 0.5 * group.data_bytes", refs=both) == {"beta"}
    assert lacks(made, "gamma", "site.data_bytes >= 0.5 * group.data_bytes", refs=both) == "1000 >= 5000 does not hold"
    assert used(made, "site.data_bytes < group.data_bytes / 2", rank="site.data_bytes", refs=both) == {"gamma"}
    assert used(made, rank="site.data_bytes", refs=both) == {"beta"}
    whole_set = wanted(2, (), set_requirements=("sum(set.data_bytes) == group.data_bytes",))
    assert {part.site for part in decided(made, whole_set, 2, both).parts} >= {"beta", "gamma"}


def test_a_group_without_inputs_has_no_bytes_and_each_site_has_all_of_them() -> None:
    made = declaring(alpha={}, beta={})
    assert used(made, "group.data_bytes == 0 && site.data_bytes == group.data_bytes", "site.name == 'beta'") == {"beta"}


# --- memory --------------------------------------------------------------------------------------------------


def test_the_memory_of_all_machines_is_summed_over_a_site_and_over_a_set() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    beta = made["beta"]
    beta.session += 1
    beta.handle(ev.LrmReady(worker="m1", session=beta.session, slots=4, known=(), memory_bytes=16 * GIB))
    made.settle()
    assert used(made, "site.total_memory_bytes >= 18 * 1073741824") == {"beta"}
    asked = wanted(2, (), set_requirements=(f"sum(set.total_memory_bytes) >= {20 * GIB}",))
    assert {part.site for part in plan(made, asked, 2).parts} == {"beta", "gamma"}


def test_a_site_whose_machines_tell_no_memory_tells_no_sum() -> None:
    made = declaring(alpha={}, beta={})
    answer = made["alpha"].submit(wanted(requirements=("site.total_memory_bytes >= 0",)), 4)
    assert isinstance(answer, fx.Refusal) and "site.total_memory_bytes not told" in answer.text


def test_a_model_may_name_what_its_site_declares_and_the_memory_of_all_machines() -> None:
    made = grid(alpha=1, beta=2)
    learn(made["beta"], properties={"factor": "0.5"})
    model = (
        ("time_s", "site.name == 'alpha' ? 99.0 : number(site.properties.factor) * site.total_memory_bytes / 1e9"),
    )
    row = rows(decided(made, wanted(requirements=(), model=model)))["beta"]
    assert row.model_s == pytest.approx(0.5 * 2 * GIB / 1e9)


def test_a_word_with_another_property_is_news_to_those_that_plan() -> None:
    one, other = entry("beta", properties={"tier": "gold"}), entry("beta", properties={"tier": "iron"})
    assert merge._tells_more(one, other) and not merge._tells_more(one, one)


@pytest.mark.parametrize("text", ["site.data_bytes >= group.data_bytes", "site.total_memory_bytes > 1"])
def test_what_only_quotes_tell_excludes_no_site_before_it_is_asked(text: str) -> None:
    site = Grid(alpha=1)["alpha"]
    peer(site, "beta", slots=4, free_slots=4)
    assert short_list(site, text) == ["beta"]


# --- declared resources --------------------------------------------------------------------------------------


def with_boards() -> Grid:
    made = Grid({"binding": "early"}, alpha=4, beta=4, gamma=4)
    machine(made["beta"], 4, fpga=2)
    machine(made["gamma"], 4, fpga=4, tape=1)
    machine(made["alpha"], 4, tape=3)
    tell(made)
    return made


def test_sites_are_required_to_have_so_much_of_a_declared_resource_for_one_job() -> None:
    made = with_boards()
    assert used(made, "site.resources.fpga >= 3") == {"gamma"}
    assert used(made, "site.resources.tape >= 2") == {"alpha"}
    assert lacks(made, "beta", "site.resources.fpga >= 3") == "2 >= 3 does not hold"
    assert lacks(made, "alpha", "site.resources.fpga >= 1") == "site.resources.fpga not told"
    both = wanted(requirements=("site.resources.fpga >= 1",), set_requirements=("sum(set.resources.fpga) >= 6",))
    assert {part.site for part in decided(made, both).parts} == {"beta", "gamma"}


def test_a_site_whose_resource_is_too_little_is_not_asked_and_one_that_may_have_others_is() -> None:
    site = Grid(alpha=1)["alpha"]
    for number in range(70):
        peer(site, f"few{number}", resources={"fpga": 1}, slots=8)
    peer(site, "more", resources={"fpga": 4}, slots=8)
    peer(site, "silent", slots=8)
    assert short_list(site, "site.resources.fpga >= 2") == ["more", "silent"]


# --- sites that were passed over -----------------------------------------------------------------------------


def test_sites_that_were_passed_over_are_counted_by_what_they_surely_lack() -> None:
    made = Grid({"binding": "early"}, alpha=4)
    learn(made["alpha"], memory_bytes=4 * GIB)
    for number in range(70):
        peer(made["alpha"], f"small{number}", memory_bytes=GIB, slots=8)
    decision = decided(made, wanted(requirements=("site.memory_bytes >= 4e9",)))
    assert [(one.reason, one.sites) for one in decision.reasons] == [("does not meet: site.memory_bytes >= 4e9", 70)]
    made["alpha"].replies.pop(1, None)
    found = made["alpha"].submit(wanted(requirements=("site.memory_bytes >= 8e9",)), 4, plan_only=True)
    assert isinstance(found, fx.Refusal)
    assert found.text.endswith("70 more sites: does not meet: site.memory_bytes >= 8e9")
