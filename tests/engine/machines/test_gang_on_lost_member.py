"""A component at the barrier of a member machine that goes away: its gang is not let go without it (SPEC K5, D8)."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.machines.machine import EXPECTED_BACK_S
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from tests.engine.bench import Grid
from tests.engine.handover.test_gangs import gang
from tests.engine.machines.test_workers import Machines, site_of


def reach(machines: Machines, *names: str) -> None:
    """Let these machines tell what stands at their barriers."""
    for name in names:
        for run in [run for run, over in machines.held[name].items() if not over]:
            where = {"subgroup": run.subgroup, "epoch": run.epoch, "host": name, "port": 7}
            machines.handle(ev.AtBarrier(worker=name, runs=(run,), **where))


def test_a_gang_whose_member_goes_away_at_the_barrier_is_tried_again_and_let_go_whole() -> None:
    site, machines = site_of(0, m1=1, m2=1, m3=1)
    machines.lose("m3")
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    (first,) = machines.held["m2"]
    reach(machines, "m2")
    machines.lose("m2")
    reach(machines, "m1")
    assert not site.records(r.GangGo)
    machines.ready("m3")
    for _ in range(20):
        machines.pass_time(1.0)
        for name in ("m1", "m3"):
            over = [run for run, ended in machines.held[name].items() if ended]
            if over:
                machines.tell(over, Outcome.CANCELLED)
        reach(machines, "m1", "m3")
    (go,) = site.records(r.GangGo)
    assert isinstance(go, r.GangGo)
    gone = [effect.worker for effect in site.trace if isinstance(effect, fx.Go)]
    assert set(gone) == {"m1", "m3"}
    machines.ready("m2")
    reach(machines, "m2")
    assert machines.held["m2"] == {first: True}, "what it held still is ended"


def test_what_a_member_holds_is_ended_also_while_the_rest_of_its_claim_still_ends() -> None:
    site, machines = site_of(0, m1=1, m2=1)
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    reach(machines, "m2")
    machines.lose("m2")
    machines.ready("m2")
    reach(machines, "m2")
    assert list(machines.held["m1"].values()) == list(machines.held["m2"].values()) == [True]


@pytest.mark.parametrize("older", [False, True])
def test_after_a_start_anew_a_claim_on_a_member_that_does_not_come_back_ends_unless_it_may_have_been_let_go(
    older: bool,
) -> None:
    site, machines = site_of(0, m1=1, m2=1)
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    site.restart(restored=older, newest=not older)
    machines.up.clear()
    machines.pass_time(EXPECTED_BACK_S + 1.0)
    assert bool(site.records(r.RunsReturned)) is not older


def test_a_batch_system_that_does_not_answer_for_a_while_keeps_its_claims() -> None:
    site, machines = site_of(0, m1=1, m2=1)
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    reach(machines, "m2")
    machines.handle(ev.LrmLost("m2", "squeue does not answer"))
    reach(machines, "m1")
    assert site.records(r.GangGo)


def test_a_member_that_is_back_before_the_others_have_ended_leaves_the_barrier_too() -> None:
    site, machines = site_of(0, m1=1, m2=1)
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    reach(machines, "m1")
    machines.lose("m2")
    assert site.engine.state.custodies, "m1 has not told its end yet"
    machines.ready("m2")
    reach(machines, "m2")
    assert [*machines.held["m1"].values(), *machines.held["m2"].values()] == [True, True]


def test_a_try_of_which_a_site_that_crashed_knows_no_more_leaves_the_barrier_when_its_member_is_back() -> None:
    site, machines = site_of(0, m1=1, m2=1, m3=1)
    machines.lose("m3")
    site.submit(gang("2x1@alpha"), 2)
    machines.obey()
    (first,) = machines.held["m1"]
    reach(machines, "m1")
    machines.lose("m2")
    # The order to end it is lost with the node, and the claim is asked for again.
    machines.held["m1"] = {first: False}
    site.boot()
    site.lrm_ready()
    machines.seen = len(site.trace)
    machines.ready("m1")
    machines.ready("m3")
    reach(machines, "m1", "m3")
    machines.pass_time(1.0)
    assert site.records(r.GangGo)
    machines.ready("m2")
    reach(machines, "m2")
    assert list(machines.held["m2"].values()) == [True]
    assert machines.open("m1") == machines.open("m3") == 1, "what was let go runs on"


@pytest.mark.parametrize("restored", [True, False])
def test_what_an_older_journal_takes_for_a_claim_is_not_given_up_because_its_member_is_away(restored: bool) -> None:
    grid = Grid({"guard_jobs": 0}, alpha=1, beta=0)
    beta = grid["beta"]
    machines = Machines(beta, m1=1)
    machines.ready("m1")
    grid["alpha"].submit(gang("1x1@alpha+1x1@beta"), 2)
    machines.obey()
    copy = list(beta.stored)
    reach(machines, "m1")
    grid.settle()
    (run,) = machines.held["m1"]
    assert beta.records(r.CustodyRunnable)
    beta.stored, beta.db_uuid = copy, "db-beta-2" if restored else beta.db_uuid
    beta.restart(restored=restored, newest=False)
    grid.settle()
    machines.seen = len(beta.trace)
    machines.ready("m1")
    since = len(beta.trace)
    machines.lose("m1")
    told = [one.message for one in beta.trace[since:] if isinstance(one, fx.Send)]
    assert not [one for one in told if isinstance(one, ms.Aborted)]
    machines.ready("m1")
    machines.end("m1", 1)
    assert (run.subgroup, run.epoch) in beta.engine.state.custodies and beta.records(r.CustodyRunnable)
