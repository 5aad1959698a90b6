"""Outputs that this site collected while another of its machines led are waited for as long as that machine may come
back, and no longer (SPEC D8, J5)."""

from __future__ import annotations

import pytest

from diana.engine.data import outputs
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, spec

AWAY = "output out: on machine main, which is away"


def view(site: Site) -> GroupView:
    seen = site.ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def collected(on_crash: str = "hold") -> Site:
    """Four jobs ended at home; `old`, which led then, has their outputs."""
    alpha = Grid(alpha=4)["alpha"]
    alpha.outputs, alpha.gather_at_once = ("out",), False
    alpha.submit(spec(4, collect=("out",), on_crash=on_crash), 4)
    alpha.handle(ev.LrmReady(worker="old", session=1, slots=0, known=()))
    alpha.handle(ev.LrmLost("old"))
    alpha.end()
    away(alpha, IndexSet.span(1, 3))
    return alpha


def away(alpha: Site, jobs: IndexSet) -> None:
    ticket = alpha.gathers.pop().ticket
    alpha.handle(ev.StageDone(ticket=ticket, bytes_moved=0, error=AWAY, away="old", lacking=jobs))


def removed(alpha: Site) -> None:
    alpha.handle(ev.MachineRemoved(request=60, principal=OPERATOR, machine="old"))


def test_outputs_on_a_machine_that_is_away_are_never_given_up_and_shown() -> None:
    alpha = collected()
    for _ in range(2 * outputs.GIVE_UP_AFTER):
        alpha.grid.pass_time(100.0)
        away(alpha, IndexSet.span(1, 3))
    assert (view(alpha).final, view(alpha).gathering, view(alpha).note) == (False, 1, AWAY)


def test_a_machine_that_is_back_is_asked_at_once() -> None:
    alpha = collected()
    before = len(alpha.trace)
    alpha.handle(ev.LrmReady(worker="old", session=2, slots=0, known=()))
    (order,) = [e for e in alpha.trace[before:] if isinstance(e, fx.Gather)]
    alpha.handle(ev.StageDone(ticket=order.ticket, bytes_moved=8))
    assert (view(alpha).state, view(alpha).note) == ("done", "")


@pytest.mark.parametrize("restarted", [False, True])
def test_jobs_that_may_run_again_do_when_the_machine_with_their_outputs_is_removed(restarted: bool) -> None:
    alpha = collected("rerun")
    alpha.gathers.clear()
    removed(alpha)
    if restarted:
        alpha.restart()
        alpha.gathers = [e for e in alpha.trace if isinstance(e, fx.Gather)][-1:]
    alpha.grid.settle()
    assert alpha.records(r.JobsRetried)[-1].indices == IndexSet.span(1, 3)
    assert (view(alpha).done, view(alpha).final) == (2, False)
    assert sum(share.done for share in view(alpha).shares) == 2
    order = alpha.gathers[0]
    assert order.skip == IndexSet.span(1, 3)
    alpha.gather_at_once = True
    alpha.handle(ev.StageDone(ticket=order.ticket, bytes_moved=0))
    for _ in range(3):
        alpha.grid.pass_time(5.0)
        alpha.end()
    assert (view(alpha).state, view(alpha).done) == ("done", 4)


def test_jobs_that_may_not_run_again_are_shown_with_the_reason() -> None:
    alpha = collected()
    removed(alpha)
    assert view(alpha).state == "failed" and "2 jobs were on machine old, which was removed" in view(alpha).note
    assert not alpha.records(r.JobsRetried)


def test_a_machine_removed_while_its_outputs_are_asked_for_is_not_waited_for() -> None:
    alpha = collected("rerun")
    alpha.grid.pass_time(100.0)
    assert alpha.gathers
    removed(alpha)
    alpha.grid.settle()
    assert len(alpha.records(r.JobsRetried)) <= 1
    if not alpha.records(r.JobsRetried):
        away(alpha, IndexSet.span(1, 3))
    assert alpha.records(r.JobsRetried)[-1].indices == IndexSet.span(1, 3)
