"""SPEC U10, D7 under late binding: jobs that wait for their turn are kept from a site that fails their group, on the
site's own word, and go to it only when nobody else is left."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.guard import guard
from diana.engine.guard.guard import Guard
from diana.engine.messages.binding import TurnCall
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.views.views import GroupView
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.handing import receive

NAME = GroupId("alpha-1")
WHY = "of the last 5 jobs 5 failed within 10.0 s"


def grid(**settings: object) -> Grid:
    return Grid({"binding": "late", "migration": "off", **settings}, alpha=20, beta=40, gamma=20)


def view(made: Grid) -> GroupView:
    seen = made["alpha"].ask("group", NAME)
    assert isinstance(seen, GroupView)
    return seen


def live(made: Grid, *bad: str, rounds: int = 90) -> int:
    """Jobs at the bad sites fail at once, at the others each takes a second. Return the seconds it took."""
    for second in range(rounds):
        for site in made.sites.values():
            if site.name in bad:
                while site.end(outcome=Outcome.FAILED):
                    made.settle()
            else:
                site.end()
        made.settle()
        if view(made).final:
            return second
        made.pass_time(1.0)
    raise AssertionError(f"not final: {made.story()}")


def several_machines(made: Grid, *sites: str) -> None:
    """Let the sites say that they have two machines: then their own word counts, and not what others see of them."""
    for site in made.sites.values():
        for name in sites:
            peer = site.engine.core.view.peers.get(SiteId(name))
            if peer is not None and peer.summary is not None:
                peer.summary = msgspec.structs.replace(peer.summary, machines=2)


def sites_left(made: Grid) -> set[str]:
    told = made["alpha"].engine.core.book(guard.Guard).shunned.get(NAME, {})
    return set(made.sites) - set(told)


def test_a_group_that_fails_everywhere_fails_to_its_end_though_nothing_of_it_waits_bound() -> None:
    made = grid()
    made["alpha"].submit(spec(200), 200)
    assert live(made, "alpha", "beta", "gamma") < 30
    assert view(made).failed == 200


def test_the_rest_runs_elsewhere_and_the_decision_says_why() -> None:
    made = grid()
    made["alpha"].submit(spec(500), 500)
    live(made, "beta")
    failed = sum(run.subgroup.startswith("alpha-1/") for run in made["beta"].started)
    assert 0 < view(made).failed == failed <= 10
    reasons = [decision.reason for decision in made["alpha"].ask("explain", NAME).decisions]  # type: ignore[attr-defined]
    assert any("beta fails them fast: of the last" in reason for reason in reasons), reasons
    tables = [decision.candidates for decision in made["alpha"].ask("explain", NAME).decisions]  # type: ignore[attr-defined]
    assert any(row.site == "beta" and "on probation" in row.rejected for table in tables for row in table)


def waiting() -> Grid:
    """Two hundred jobs, of which most wait; their origin leaves the judgement on beta to beta."""
    made = grid()
    made["alpha"].submit(spec(200, work_s=100.0), 200)
    assert made["alpha"].group(NAME).unplaced
    return made


def test_a_site_tells_that_it_stopped_a_group_of_which_nothing_waits_there() -> None:
    """Else the group would wait for a turn that does not come."""
    made = waiting()
    several_machines(made, "beta")
    told: list[TurnCall] = []

    def note(_: Grid, __: int, post: object) -> str:
        sender, _, message = post  # type: ignore[misc]
        if sender == SiteId("beta") and isinstance(message, TurnCall) and message.stopped:
            told.append(message)
        return "deliver"

    made.fate = note
    made["beta"].end(6, Outcome.FAILED)
    made.settle()
    assert "beta" in sites_left(made)
    made.pass_time(5.0)
    assert told and told[0].jobs == 0 and "failed within" in told[0].stopped
    assert "beta" not in sites_left(made)


@pytest.mark.parametrize("settings", [{}, {"guard_jobs": 0}], ids=["guarded", "without the guard"])
def test_the_word_moves_no_job_to_the_site_that_says_it(settings: dict[str, object]) -> None:
    made = grid(**settings)
    made["alpha"].submit(spec(200, work_s=100.0), 200)
    unplaced = made["alpha"].group(NAME).unplaced
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1 << 60, jobs=0, stopped=WHY))
    made.settle()
    assert made["alpha"].group(NAME).unplaced == unplaced


def test_a_site_that_was_told_of_no_reservation_bars_nobody() -> None:
    made = grid()
    made["alpha"].submit(spec(200, work_s=100.0, sites=("alpha", "gamma")), 200)
    receive(made["alpha"], "beta", TurnCall(group=NAME, call=1 << 60, jobs=0, stopped=WHY))
    made.settle()
    assert sites_left(made) == {"alpha", "beta", "gamma"}
    assert not made["alpha"].engine.core.book(Guard).shunned.get(NAME)
