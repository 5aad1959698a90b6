"""Before a gang is let go its sites look whether they reach each other's hosts (SPEC K6)."""

from __future__ import annotations

import msgspec

from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId
from tests.engine.bench import Grid, Post
from tests.engine.handover.test_gangs import begun, gang, hear, held

AT_THREE = "1x1@alpha+1x1@beta+1x1@gamma"


def looking(**slots: int) -> Grid:
    """A grid whose sites have addresses, so that they look."""
    grid = Grid({"claim_wait_s": 20.0}, **slots)
    for name, site in grid.sites.items():
        site.engine.core.book(ClaimBook).host = f"{name}.example"
    return grid


def submit(grid: Grid, components: str, runner: str = "") -> str:
    wanted = msgspec.structs.replace(gang(components), runner=runner)
    answer = grid["alpha"].submit(wanted, wanted.gang_size)
    assert isinstance(answer, fx.GroupAccepted)
    return answer.group


def test_no_component_is_let_go_before_every_site_has_reached_the_hosts_of_the_others() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["gamma"].look_at_once = False
    name = submit(grid, AT_THREE)
    assert begun(grid) == [] and len(held(grid)) == 3
    (order,) = grid["gamma"].looks
    assert order.hosts == ("alpha.example", "beta.example") and order.ports == (7, 7)
    note = grid["alpha"].engine.core.waiting_notes[GroupId(name)]
    assert "gamma look whether they reach the others" in note, note
    grid["gamma"].looked(order)
    grid.settle()
    assert [site for site, _ in begun(grid)] == ["alpha", "beta", "gamma"]


def test_a_pair_of_sites_that_do_not_reach_each_other_is_named_and_nothing_begins() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["beta"].out_of_reach = {"gamma.example"}
    name = submit(grid, AT_THREE)
    assert begun(grid) == [] and not grid["alpha"].records(r.GangGo)
    note = grid["alpha"].engine.core.waiting_notes[GroupId(name)]
    assert note.startswith("beta does not reach gamma at gamma.example"), note
    assert 'gang.runner = "none"' in note
    grid.pass_time(30.0)
    assert begun(grid) == [], "it is tried again, and looked at again"
    grid["beta"].out_of_reach = set()
    grid.finish(rounds=300)
    assert grid["alpha"].group(name).state == "done"


def test_the_next_attempt_goes_to_sites_that_reach_each_other() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["beta"].out_of_reach = {"alpha.example", "gamma.example"}
    grid["alpha"].out_of_reach = grid["gamma"].out_of_reach = {"beta.example"}
    name = submit(grid, "2x1")
    for _ in range(200):
        if begun(grid):
            break
        grid.pass_time(1.0)
    assert [site for site, _ in begun(grid)] == ["alpha", "gamma"]
    grid.finish()
    assert grid["alpha"].group(name).state == "done"


def test_components_at_one_site_are_not_looked_for() -> None:
    grid = looking(alpha=2)
    grid["alpha"].look_at_once = False
    submit(grid, "2x1@alpha")
    assert len(begun(grid)) == 2


def test_components_that_do_not_talk_are_let_go_without_a_look() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["beta"].out_of_reach = {"gamma.example"}
    submit(grid, AT_THREE, "none")
    assert len(begun(grid)) == 3 and not any(site.looks for site in grid.sites.values())


def test_a_site_that_does_not_look_holds_nobody_up() -> None:
    """A release before this, or a site without an address."""
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["gamma"].engine.core.book(ClaimBook).host = ""
    submit(grid, AT_THREE)
    assert len(begun(grid)) == 3


def test_a_look_whose_answer_was_lost_with_its_node_is_made_again() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid["gamma"].look_at_once = False
    name = submit(grid, AT_THREE)
    (lost,) = grid["gamma"].looks
    grid["gamma"].looks.clear()
    grid["gamma"].restart()
    grid["gamma"].engine.core.book(ClaimBook).host = "gamma.example"
    grid["gamma"].look_at_once = True
    grid["gamma"].looked(lost)
    for _ in range(60):
        grid.pass_time(1.0)
    grid.finish(rounds=300)
    assert grid["alpha"].group(name).state == "done"


def test_addresses_that_are_none_and_an_answer_nobody_asked_for_change_nothing() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    submit(grid, AT_THREE)
    (custody,) = grid["beta"].engine.core.state.custodies.values()
    named = {"subgroup": custody.subgroup, "epoch": custody.epoch}
    claim = ms.GangClaim(**named, db_uuid="db-beta", wait_s=9.0, meet_hosts=("a b",), meet_ports=(7,))  # type: ignore[arg-type]
    hear(grid, "beta", "alpha", claim)
    assert not grid["beta"].looks and any("addresses that are none" in line for line in grid["beta"].warnings)
    many = tuple(f"h{at}" for at in range(300))
    grid["beta"].look_at_once = False
    hear(grid, "beta", "alpha", msgspec.structs.replace(claim, meet_hosts=many, meet_ports=(7,) * 300))
    (order,) = grid["beta"].looks
    assert len(order.hosts) == 64
    assert begun(grid) == []


def test_a_look_that_was_asked_for_in_vain_is_asked_for_again() -> None:
    grid = looking(alpha=1, beta=1, gamma=1)
    lost: list[object] = []

    def fate(_: Grid, at: int, post: Post) -> str:
        if isinstance(post[2], ms.GangClaim) and post[2].meet_hosts and not lost:
            lost.append(post)
            return "lose"
        return "deliver"

    grid.fate = fate
    submit(grid, AT_THREE)
    assert lost and begun(grid) == []
    grid.pass_time(8.0)
    assert len(begun(grid)) == 3 and not grid["alpha"].records(r.TakenBack)
