"""Words of sites on their machines before they are asked: the widest one, and what operators declare. A group that no
site can take by it is refused at once; where anything is in doubt, quotes decide."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import gossip
from diana.engine.messages import messages as ms
from diana.engine.placement import accept, quote_round
from diana.engine.placement.candidates import unusable
from diana.engine.placement.draft import Draft, Probe
from diana.model.ids import SiteId
from diana.model.job.declared import MOST_AMOUNT, MOST_DECLARED
from diana.model.job.spec import GroupSpec, Resources
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec, whole
from tests.engine.gossiping import entry, hello


def wanting(sites: tuple[str, ...] = (), **others: int) -> GroupSpec:
    has = Resources(others=tuple(sorted(others.items())), work_s=10.0)
    return GroupSpec(argv=("true",), resources=has, sites=tuple(map(SiteId, sites)))


def machine(site: Site, slots: int, worker: str = "main", **others: int) -> None:
    told = tuple(sorted(others.items()))
    site.session += 1
    site.handle(ev.LrmReady(worker=worker, session=site.session, slots=slots, known=(), resources=told))


def tell(grid: Grid) -> None:
    """Each site tells the others of itself."""
    for site in grid.sites.values():
        said = gossip.summary(site.engine.core)
        for other in grid.sites.values():
            if other is not site:
                other.handle(ev.Received(site.name, said))
    grid.settle()


def peer(site: Site, name: str, **told: Any) -> None:
    """A peer that answers no quotes."""
    site.handle(ev.PeerUp(hello(name)))
    site.handle(ev.Received(SiteId(name), entry(name, **told)))


# --- the widest machine -------------------------------------------------------------------------------------


def test_a_summary_tells_the_widest_machine_only_where_that_is_not_the_whole_site() -> None:
    site = Grid(alpha=4)["alpha"]
    assert gossip.summary(site.engine.core).widest == 0
    machine(site, 2, "m1")
    told = gossip.summary(site.engine.core)
    assert (told.slots, told.widest) == (6, 4)


def four_machines_of_two() -> tuple[Grid, Site]:
    grid = Grid(alpha=1, beta=2)
    for number in range(3):
        machine(grid["beta"], 2, f"m{number}")
    tell(grid)
    return grid, grid["alpha"]


def test_a_job_wider_than_any_machine_of_the_only_peer_is_refused_by_quotes_and_not_accepted_before() -> None:
    _, alpha = four_machines_of_two()
    assert alpha.engine.core.view.peers[SiteId("beta")].summary.slots == 8  # type: ignore[union-attr]
    assert not accept.surely_placeable(alpha.engine.core, spec(1, processors=8))
    answer = alpha.submit(spec(1, processors=8), 1)
    assert isinstance(answer, fx.Refusal) and "has 2 of the 8 processors a job needs" in answer.text
    assert accept.surely_placeable(alpha.engine.core, spec(1, processors=2))
    assert isinstance(alpha.submit(spec(1, processors=2), 1, 2), fx.GroupAccepted)


def test_an_older_peer_that_does_not_tell_is_as_wide_as_its_slots() -> None:
    site = Grid(alpha=1)["alpha"]
    peer(site, "old", slots=8)
    assert accept.surely_placeable(site.engine.core, spec(1, processors=8))


@pytest.mark.parametrize("policy", ["diana", "greedy", "fastest", "round-robin", "random", "least-queue"])
def test_in_a_large_grid_sites_of_narrow_machines_take_no_place_of_the_one_that_is_wide_enough(policy: str) -> None:
    site = Grid({"placement": policy}, alpha=1)["alpha"]
    for number in range(100):
        peer(site, f"narrow{number}", slots=64, free_slots=64, speed=4.0, widest=2)
    assert not accept.surely_placeable(site.engine.core, spec(1, processors=8))
    peer(site, "wide", slots=8)
    assert accept.surely_placeable(site.engine.core, spec(1, processors=8))
    draft = Draft(1, spec(1, processors=8), whole(1), (), owner="", purpose=Probe(lambda _: None))
    assert quote_round._short_list(site.engine.core, draft) == ["wide"]


# --- declared resources -------------------------------------------------------------------------------------


def test_a_summary_tells_the_most_of_each_resource_that_one_job_may_have() -> None:
    site = Grid(alpha=4)["alpha"]
    assert gossip.summary(site.engine.core).resources == {}
    machine(site, 2, "m1", fpga=2)
    machine(site, 2, "m2", fpga=1, tape=3)
    assert gossip.summary(site.engine.core).resources == {"fpga": 2, "tape": 3}


def test_of_a_row_the_names_that_are_none_are_left_out_and_the_rest_is_kept_and_passed_on() -> None:
    site = Grid(alpha=1)["alpha"]
    odd = {"fpga": 2**62, "Bad": 1, "gpus": 4, "x" * 41: 1, "tape": 0, "memory_bytes": 2**40, "licence:matlab": 1}
    peer(site, "liar", slots=8, resources=odd)
    told = site.engine.core.view.peers[SiteId("liar")].summary
    assert told is not None and told.resources == {"fpga": MOST_AMOUNT} and told.slots == 8
    peer(site, "many", resources={f"r{number}": 1 for number in range(1000)})
    told = site.engine.core.view.peers[SiteId("many")].summary
    assert told is not None and len(told.resources) == MOST_DECLARED


def answer(grid: Grid, wanted: GroupSpec, *, plan: bool = False) -> str:
    """Return the answer of alpha once it has its quotes."""
    alpha = grid["alpha"]
    alpha.replies.pop(9, None)
    alpha.submit(wanted, 1, 9, plan_only=plan)
    grid.pass_time(1.0)
    found = alpha.replies[9]
    return found.text if isinstance(found, fx.Refusal) else ""


@pytest.mark.parametrize("plan", [False, True])
def test_a_slip_of_the_pen_in_a_resource_is_refused_with_the_name_that_a_site_has(plan: bool) -> None:
    grid = Grid(alpha=4, beta=4)
    machine(grid["beta"], 4, fpga=2)
    tell(grid)
    assert answer(grid, wanting(fpgaa=1), plan=plan) == (
        "no site can take this group: alpha, beta: has no fpgaa; did you mean fpga by fpgaa?"
    )
    assert "did you mean" not in answer(grid, wanting(quantum=1), plan=plan)
    assert answer(grid, wanting(fpga=1)) == ""
    assert "beta: has 2 of the 3 fpga a job needs (takes it if fpga <= 2)" in answer(grid, wanting(fpga=3))


def test_a_site_that_has_it_since_its_last_word_takes_the_job_all_the_same() -> None:
    grid = Grid(alpha=4, beta=4)
    tell(grid)
    machine(grid["beta"], 4, fpga=2)
    assert answer(grid, wanting(fpga=1)) == ""


def test_a_name_that_this_site_alone_has_is_meant_too() -> None:
    grid = Grid(alpha=4)
    machine(grid["alpha"], 4, tapes=1)
    assert answer(grid, wanting(tape=1)).endswith("has no tape; did you mean tapes by tape?")


def test_a_name_counts_until_no_known_site_has_it_any_more() -> None:
    site = Grid(alpha=4)["alpha"]
    for name in ("beta", "gamma"):
        peer(site, name, resources={"fpga": 2})
    there = site.engine.core.roster.resources
    assert there() == {"fpga": 2}
    site.handle(ev.Received(SiteId("beta"), entry("beta", counter=2)))
    assert there() == {"fpga": 1}
    site.handle(ev.PeerDown(SiteId("gamma")))
    assert there() == {"fpga": 1}, "gamma may come back with it"
    site.handle(ev.PeerUp(hello("gamma", 2)))
    site.handle(ev.Received(SiteId("gamma"), entry("gamma", generation=2)))
    assert not there()


def test_a_large_grid_is_asked_where_the_resource_is() -> None:
    site = Grid(alpha=1)["alpha"]
    for number in range(100):
        peer(site, f"s{number}", slots=64, free_slots=64, speed=4.0)
    peer(site, "boards", resources={"fpga": 2})
    draft = Draft(1, wanting(fpga=1), whole(1), (), owner="", purpose=Probe(lambda _: None))
    assert quote_round._short_list(site.engine.core, draft) == ["boards"]


# --- quotes -------------------------------------------------------------------------------------------------


def quote(**told: object) -> ms.Quote:
    fields: dict[str, object] = {
        "quote": 1, "rejected": "", "slots": 8, "free_slots": 8, "speed": 1.0, "work_ahead_s": 0.0, "files": (),
        "unknown_refs": (), "links": (),
    }  # fmt: skip
    return ms.Quote(**(fields | told))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "has", "why"),
    [
        ({}, Resources(processors=8), ""),
        ({}, Resources(processors=9), "has 8 of the 9 processors a job needs"),
        ({"widest": 2}, Resources(processors=8), "has 2 of the 8 processors a job needs"),
        ({"widest": 2**30}, Resources(processors=9), "has 8 of the 9 processors a job needs"),
        ({"memory_bytes": 2**30}, Resources(memory_bytes=2**31), "has 1.0 GiB of memory, a job needs 2.0 GiB"),
        ({}, Resources(memory_bytes=2**31), ""),
        ({"gpus": 1}, Resources(gpus=2), "has 1 GPU for one job, a job needs 2"),
        ({}, Resources(gpus=2), ""),
        ({}, Resources(others=(("fpga", 1),)), "has no fpga"),
        ({"software": ("resource fpga 1",)}, Resources(others=(("fpga", 2),)), "has 1 of the 2 fpga a job needs"),
        ({"software": ("resource fpga 2",)}, Resources(others=(("fpga", 2),)), ""),
        ({"software": ("licence matlab 1",)}, Resources(licences=(("matlab", 1),)), ""),
        ({}, Resources(licences=(("matlab", 1),)), "has no licence of matlab"),
    ],
)
def test_a_quote_is_judged_by_the_words_of_a_machine(told: dict[str, object], has: Resources, why: str) -> None:
    assert unusable(quote(**told), GroupSpec(argv=("true",), resources=has)) == why


def test_an_mpi_job_may_lie_on_several_machines_whatever_the_widest_is() -> None:
    wanted = msgspec.structs.replace(spec(1, processors=8), mpi=True)
    assert unusable(quote(widest=2, software=("mpi",)), wanted) == ""
    assert "has no" in unusable(quote(widest=2), wanted) or "MPI" in unusable(quote(widest=2), wanted)
