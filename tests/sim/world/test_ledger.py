"""The VO's ledger spreads: a ban is everywhere within seconds, however many sites there are (PROMISES 5.2)."""

from __future__ import annotations

import pytest

from diana.engine.journal.events import SayStatement
from diana.engine.membership import trust_ledger
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.sim.scenario.scenario import parse
from diana.sim.sites.driver import Boot
from diana.sim.world.world import World

OPERATOR = Principal(Role.OPERATOR, "operator@vo")


def world(sites: int, loss: float = 0.0, seed: int = 3) -> World:
    names = ",".join(f'{{ name = "s{number}", slots = 1 }}' for number in range(sites))
    made = World(parse(f"version = 1\nsites = [{names}]\n[default_link]\nloss = {loss}\n"), seed, Boot())
    for site in made.sites.values():
        site.start()
    made.clock.run_until(20.0)
    return made


def ban(made: World, who: str, at: str = "s0") -> None:
    event = SayStatement(request=1, principal=OPERATOR, kind="revoke", about=who, wall_s=1.75e9)
    made.sites[SiteId(at)].handle(event)


def knowing(made: World) -> int:
    engines = [site.engine for site in made.sites.values() if site.engine]
    return sum(bool(trust_ledger.revoked(engine.core)) for engine in engines)


@pytest.mark.parametrize("sites", [5, pytest.param(40, marks=pytest.mark.wide)])
def test_all_hear_of_a_ban_within_seconds(sites: int) -> None:
    made = world(sites)
    ban(made, "user:eve@vo")
    made.clock.run_until(25.0)
    assert knowing(made) == sites


def test_all_hear_of_a_ban_over_links_that_lose() -> None:
    made = world(12, loss=0.2)
    ban(made, "user:eve@vo")
    made.clock.run_until(50.0)
    assert knowing(made) == 12


def test_a_banned_site_is_alone_within_seconds_and_back_when_it_is_lifted() -> None:
    made = world(6)
    ban(made, "site:s5")
    made.clock.run_until(30.0)
    others = [made.sites[SiteId(f"s{number}")].engine for number in range(5)]
    assert all(engine and not engine.core.view.peers[SiteId("s5")].up for engine in others)
    lift = SayStatement(request=2, principal=OPERATOR, kind="lift", about="site:s5", wall_s=1.75e9)
    made.sites[SiteId("s1")].handle(lift)
    made.clock.run_until(70.0)
    assert any(engine and engine.core.view.peers[SiteId("s5")].up for engine in others)


def test_who_was_away_hears_of_it_when_it_is_back() -> None:
    made = world(4)
    for other in ("s0", "s1", "s2"):
        made.network.cut(SiteId("s3"), SiteId(other))
    ban(made, "user:eve@vo")
    made.clock.run_until(40.0)
    assert knowing(made) == 3
    made.network.mend_all()
    made.clock.run_until(75.0)
    assert knowing(made) == 4
