"""SPEC U2: what `diana peers` is told by the engine; a site out of reach is an age, no error (PROMISES section 3)."""

from __future__ import annotations

from typing import Any

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.model.views.peers import Peers, PeerStanding
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR


def ask(site: Site, who: Principal = OPERATOR, what: str = "peers") -> Any:
    site.handle(ev.Ask(request=77, principal=who, what=what))
    return next(e.body for e in reversed(site.trace) if isinstance(e, fx.Reply) and e.request == 77)


def row(found: Peers, site: str) -> PeerStanding:
    return next(one for one in found.peers if one.site == site)


def test_each_site_has_its_state_and_the_ages_of_what_was_heard() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    found = ask(grid["alpha"])
    assert [one.site for one in found.peers] == ["beta", "gamma"]
    beta = row(found, "beta")
    assert beta.state == "alive" and beta.held_here and beta.summary_age_s >= 0.0
    grid.part("beta")
    grid.pass_time(40.0)
    found = ask(grid["alpha"])
    assert row(found, "beta").state in ("suspect", "unreachable", "lost")
    assert row(found, "beta").age_s >= 35.0 and row(found, "beta").summary_age_s >= 35.0
    assert row(found, "gamma").state == "alive" and row(found, "gamma").age_s < 35.0


def test_a_site_nobody_ever_said_anything_of_has_no_summary() -> None:
    site = Grid(alpha=1, beta=1)["alpha"]
    peer = site.engine.core.view.peers[SiteId("beta")]
    peer.summary = None
    assert row(ask(site), "beta").summary_age_s < 0


def test_machines_are_told_with_what_they_hold_and_since_when_they_are_away() -> None:
    grid = Grid(alpha=2)
    site = grid["alpha"]
    site.handle(ev.LrmReady(worker="m2", session=1, slots=4, known=()))
    site.handle(ev.LrmLost("m2"))
    grid.pass_time(9.0)
    m2, own = ask(site).machines
    assert (own.machine, own.own, own.here, own.slots) == ("main", True, True, 2)
    assert (m2.machine, m2.own, m2.here, m2.slots) == ("m2", False, False, 4)
    assert own.away_s < 0 and m2.away_s >= 9.0
    sites = ask(site, what="sites").sites
    assert [(one.shown.site, one.shown.machines) for one in sites] == [("alpha", 2)]
    site.handle(ev.MachineRemoved(request=5, principal=OPERATOR, machine="m2"))
    assert [one.machine for one in ask(site).machines] == ["main"]
    assert ask(site, what="sites").sites[0].shown.machines == 1


def test_others_are_told_how_many_machines_a_site_has() -> None:
    grid = Grid(alpha=1, beta=1)
    grid["beta"].handle(ev.LrmReady(worker="m2", session=1, slots=4, known=()))
    grid.pass_time(5.0)
    seen = {one.shown.site: one.shown.machines for one in ask(grid["alpha"], what="sites").sites}
    assert seen == {"alpha": 1, "beta": 2}


def test_nobody_without_a_name_is_told() -> None:
    assert isinstance(ask(Grid(alpha=1)["alpha"], Principal(Role.NOBODY, "")), fx.Refusal)
