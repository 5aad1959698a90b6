"""When a gang that was given up is tried again, and what its tries leave to others."""

from __future__ import annotations

import pytest

from diana.engine.handover import leases
from diana.engine.handover.gangs.attempts import LAST_WORD_S
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.site.timers import GroupTimer, Timers
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.policy.gang import holding
from tests.engine.bench import Grid, Post
from tests.engine.builders import ALICE, OPERATOR, dataset, spec
from tests.engine.handing import receive
from tests.engine.handover.test_gangs import begun, gang, held, kill, submit
from tests.engine.views.test_gang_views import explained

CLAIM_WAIT_S = 120.0


def given_up(other: str = "alpha", refs: tuple[tuple[str, IndexSet], ...] = ()) -> Grid:
    """A gang whose component at beta waited in vain for an ordinary job, while another one held its processor. `refs`:
    files that it reads."""
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1, gamma=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=1.0), 1, 9)
    grid["alpha"].handle(ev.AddDataset(request=7, principal=OPERATOR, dataset=dataset("d", "f")))
    grid["alpha"].submit(gang(f"1x1@{other}+1x1@beta"), 2, refs=refs)
    grid.pass_time(2.0)
    assert held(grid) == [(other, 0)]
    grid.pass_time(CLAIM_WAIT_S)
    kill(grid)
    assert not held(grid) and not begun(grid)
    return grid


def placed(grid: Grid) -> int:
    """Times that the gang was placed."""
    offers = grid["alpha"].records(r.GroupPlaced)
    return sum(isinstance(one, r.GroupPlaced) and one.group == "alpha-1" for one in offers)


def note(grid: Grid) -> str:
    return grid["alpha"].engine.core.waiting_notes[GroupId("alpha-1")]


def test_a_gang_that_pauses_is_tried_early_when_all_of_its_processors_are_idle() -> None:
    grid = given_up()
    grid["beta"].end()
    grid.pass_time(holding.EARLY_EVERY_S + 2.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1)]
    grid.finish()


def test_while_a_gang_pauses_it_holds_nothing_of_sites_one_of_which_is_busy() -> None:
    grid = given_up()
    for _ in range(5):
        grid.pass_time(holding.EARLY_EVERY_S)
        assert not held(grid)
    assert placed(grid) == 1


def test_an_early_try_that_finds_less_than_it_was_told_holds_for_seconds_and_costs_no_patience() -> None:
    grid = given_up()
    grid["beta"].end()
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    grid.pass_time(holding.EARLY_EVERY_S + 1.0)
    assert held(grid) == [("alpha", 0)]
    (until_s,) = grid["alpha"].held.values()
    assert until_s <= grid.now + holding.EARLY_HOLD_S + LAST_WORD_S, "by its machine's own clock"
    grid.pass_time(holding.EARLY_HOLD_S)
    kill(grid)
    assert not held(grid)
    grid.pass_time(holding.EARLY_EVERY_S - holding.EARLY_HOLD_S - 2.0)
    assert not held(grid), "half of the time at most"
    assert explained(grid, "alpha-1")[-1].startswith("gang 0, try 2: no place yet")


def test_an_early_try_that_nobody_answers_is_over_in_seconds() -> None:
    grid = given_up("gamma")
    grid["beta"].end()
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    grid.pass_time(holding.EARLY_EVERY_S + 1.0)
    assert explained(grid, "alpha-1")[-1].startswith("gang 0, try 2: beta has waited for 1 processor")
    grid.pass_time(holding.EARLY_HOLD_S)
    assert explained(grid, "alpha-1")[-1].startswith("gang 0, try 2: no place yet")


def test_an_early_try_whose_inputs_took_longer_than_the_pause_has_the_patience_of_any() -> None:
    grid = given_up("gamma", refs=(("dataset:d/f", IndexSet.span(0, 2)),))
    grid["beta"].end()
    grid["beta"].stage_at_once = False
    grid.pass_time(holding.EARLY_EVERY_S + 1.0)
    (ticket,) = (order.ticket for order in grid["beta"].staging)
    grid.pass_time(CLAIM_WAIT_S)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    grid["beta"].handle(ev.StageDone(ticket=ticket, bytes_moved=1))
    grid.settle()
    grid.pass_time(2 * holding.EARLY_HOLD_S)
    assert held(grid) == [("gamma", 0)] and placed(grid) == 2


def test_a_gang_that_is_given_up_later_than_another_one_of_its_group_does_not_put_off_the_others_try() -> None:
    timers = Timers()
    timers.set(GroupTimer("place", GroupId("alpha-1")), 3.0)
    timers.sooner(GroupTimer("place", GroupId("alpha-1")), 5.0)
    assert timers.earliest() == 3.0
    timers.sooner(GroupTimer("place", GroupId("alpha-1")), 2.0)
    assert timers.earliest() == 2.0


def test_a_gang_that_was_held_by_its_user_is_tried_at_once_when_it_is_released() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, "1x1@alpha+1x1@beta")
    grid["alpha"].hold(name)
    kill(grid)
    grid.fate = None
    grid["alpha"].release_jobs(name)
    assert begun(grid) == [("alpha", 0), ("beta", 1)]


def test_processors_that_a_gang_holds_are_counted_once_in_the_plans_of_others() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=4, beta=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=1.0), 1, 9)
    submit(grid, "1x2@alpha+1x1@beta")
    grid.pass_time(2.0)
    assert held(grid) == [("alpha", 0)]
    grid["alpha"].submit(gang("1x2@alpha"), 1, 2, settle=False)
    grid.settle()
    assert ("alpha", 0) in begun(grid), "alpha has two processors left"
    decided = grid["alpha"].group("alpha-2").decisions[0].gang
    assert decided is not None and [one.wait_s for one in decided.components] == [0.0]


def test_a_gang_that_broke_begins_again_soon_and_at_its_sites_where_they_are_given() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    submit(grid, "1x1@alpha+1x1@beta")
    # Its machine could not begin what was let go.
    for run in list(grid["beta"].gone):
        grid["beta"]._ends(run, Outcome.UNBEGUN)
    grid.settle()
    kill(grid)
    grid.pass_time(holding.AGAIN_FIRST_S - 1.0)
    assert len(grid["alpha"].records(r.GangGo)) == 1
    grid.pass_time(3.0)
    assert len(grid["alpha"].records(r.GangGo)) == 2
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_a_site_that_refused_a_component_is_named_with_its_reason_at_the_next_try_too() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Prepared) else "deliver"
    submit(grid, "1x1@alpha+1x1@beta")
    (part,) = (one for one in grid["alpha"].group("alpha-1").subgroups.values() if one.site == "beta")
    refusal = ms.Refused(subgroup=part.subgroup, epoch=part.epoch, reason="its order is dated 3600 s ahead")
    receive(grid["alpha"], "beta", refusal)
    assert note(grid) == "beta refused: its order is dated 3600 s ahead"
    grid.pass_time(holding.AGAIN_FIRST_S + 1.0)
    assert note(grid).endswith("beta: refused part of this group just now: its order is dated 3600 s ahead")


@pytest.mark.parametrize("way", ["yields", "unrestored"])
def test_a_site_that_never_lets_a_gang_have_what_it_offers_does_not_keep_it_from_others(way: str) -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=1, gamma=1)

    def fate(_: Grid, __: int, post: Post) -> str:
        if not isinstance(post[2], ms.GangClaim) or post[1] != "beta":
            return "deliver"
        part, epoch = post[2].subgroup, post[2].epoch
        if way == "yields":
            grid.post(post[1], post[0], ms.GangYield(subgroup=part, epoch=epoch))
        else:
            word = ms.Aborted(subgroup=part, epoch=epoch, db_uuid="db-beta", seq=9, unrestored=True)
            grid.post(post[1], post[0], word)
        return "lose"

    grid.fate = fate
    submit(grid, "1x1")
    grid.pass_time(120.0)
    assert begun(grid) == [("gamma", 0)]


def test_a_gang_that_its_user_holds_and_releases_leaves_alone_what_it_held_for_as_long() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=1.0), 1, 9)
    submit(grid, "1x1@alpha+1x1@beta")
    grid.pass_time(60.0)
    assert held(grid) == [("alpha", 0)]
    grid["alpha"].hold("alpha-1")
    kill(grid)
    grid["alpha"].release_jobs("alpha-1")
    grid.pass_time(55.0)
    assert placed(grid) == 1
    grid.pass_time(10.0)
    assert placed(grid) == 2


def test_a_gang_that_its_user_held_begins_soon_where_all_is_idle() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=1.0), 1, 9)
    submit(grid, "1x1@alpha+1x1@beta")
    grid.pass_time(60.0)
    grid["alpha"].hold("alpha-1")
    kill(grid)
    grid["beta"].end()
    grid["alpha"].release_jobs("alpha-1")
    grid.pass_time(holding.EARLY_EVERY_S + 1.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1)]


def test_a_site_that_does_not_know_what_it_may_run_still_is_given_time_to_end_it() -> None:
    grid = Grid({"claim_wait_s": CLAIM_WAIT_S, "migration": "off"}, alpha=1, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Control) else "deliver"
    submit(grid, "1x1@alpha+1x1@beta")
    (part,) = (one for one in grid["alpha"].group("alpha-1").subgroups.values() if one.site == "beta")
    # alpha could not begin its own; beta has an older journal than it had.
    for run in list(grid["alpha"].gone):
        grid["alpha"]._ends(run, Outcome.UNBEGUN)
    grid.settle()
    receive(grid["alpha"], "beta", ms.Lost(subgroup=part.subgroup, epoch=part.epoch, db_uuid="db-beta"))
    grid.pass_time(leases.MARGIN_S - 1.0)
    assert placed(grid) == 1
    grid.pass_time(3.0)
    assert placed(grid) == 2


def test_a_gang_that_its_user_holds_says_no_more_whom_it_waited_for() -> None:
    grid = Grid({"claim_wait_s": 200.0, "migration": "off"}, alpha=1, beta=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=60.0), 1, 40)
    grid.pass_time(1.0)
    name = submit(grid, "1x1@alpha+1x1@beta")
    grid.pass_time(3.0)
    notes, name = grid["alpha"].engine.core.waiting_notes, GroupId(name)
    assert "wait for" in notes[name]
    grid["alpha"].handle(ev.HoldJobs(request=9, principal=ALICE, group=name, indices=None))
    assert name not in notes
