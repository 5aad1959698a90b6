"""An origin whose database was put back hears what was placed anew, came back and ended elsewhere since the copy was
made."""

from __future__ import annotations

import pytest

from diana.engine.journal import events as ev
from diana.engine.journal import records
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holdings
from diana.model.facts import Outcome
from diana.model.views.views import Ok
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.handing import go_on, view
from tests.engine.recovery.test_stocktaking import origin_copied, put_origin_back

LEASE_S = 20.0


def test_what_ended_elsewhere_since_it_came_back_is_not_tried_again_by_a_report() -> None:
    """The report names it as coming back still: that it is here was not acknowledged."""
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings | ms.ResultAck) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(30, work_s=100.0, sites=("beta", "gamma")), 30, request=2)
    (name,) = [name for name in alpha.engine.core.state.groups if name != "alpha-1"]
    group = alpha.group(name)
    assert len(group.subgroups) == 2
    assert alpha.move(name, "gamma") is not None
    grid.pass_time(5.0)
    for _ in range(8):
        grid["gamma"].end()
        grid.pass_time(3.0)
    done = len(group.done)
    assert done > 15
    grid.fate = None
    grid.pass_time(60.0)
    assert len(group.done) >= done and not alpha.records(records.JobsRetried)


@pytest.mark.parametrize(("first", "then"), [("beta", "gamma"), ("gamma", "beta")])
def test_what_was_placed_anew_since_the_copy_does_not_start_at_its_former_site(first: str, then: str) -> None:
    """Whichever of the two tells first what it holds."""
    grid = Grid({"lease_s": LEASE_S, "claim_ahead": 1, "migration": "off"}, alpha=0, beta=6, gamma=3, delta=3)
    alpha, beta, gamma, delta = (grid[name] for name in ("alpha", "beta", "gamma", "delta"))
    for other in (gamma, delta):
        other.handle(ev.RoomChecked(low="not yet"))
    grid.pass_time(2.0)
    alpha.submit(spec(6, work_s=500.0, not_sites=("alpha",), on_site_lost="rerun"), 6)
    grid.pass_time(1.0)
    copy = list(alpha.stored)
    for other in (gamma, delta):
        other.handle(ev.RoomChecked(low=""))
    grid.pass_time(2.0)
    grid.part("beta")
    grid.pass_time(LEASE_S)
    beta.end(outcome=Outcome.LEASE_OVER)
    grid.pass_time(1.1 * LEASE_S + 40.0)
    assert (len(gamma.started), len(delta.started)) == (3, 3)
    begun = len(beta.started)
    put_origin_back(grid, copy)
    for name in ("gamma", "delta"):
        grid.part(name)
    for name in (first, then):
        grid.heal(name)
        grid.heal("alpha")
        grid.pass_time(10.0)
    assert go_on(alpha, "delta") == Ok(1)
    assert alpha.release_jobs("alpha-1") == Ok(6)
    grid.pass_time(LEASE_S)
    assert not {run.index for run in beta.started[begun:]} & {run.index for run in gamma.started}
    gamma.end()
    grid.pass_time(10.0)
    assert view(grid).done == 3
