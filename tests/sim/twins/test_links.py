"""SPEC D10, links, simulated: measurements come from the network's real values, noise and loss from the seed."""

from __future__ import annotations

import pytest

from diana.engine.messages.messages import LinkEstimate
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.views.link import LinkMap
from diana.sim.scenario.scenario import parse
from diana.sim.sites.driver import Boot
from diana.sim.world.world import World

GRID = """
version = 1
sites = [{ name = "alpha", slots = 1 }, { name = "beta", slots = 1 }, { name = "gamma", slots = 1 }]
"""


def world(links: str = "", seed: int = 1, until_s: float = 600.0) -> World:
    made = World(parse(GRID + links), seed, Boot())
    for site in made.sites.values():
        site.start()
    made.clock.run_until(until_s)
    return made


def seen(made: World, by: str = "alpha") -> dict[str, LinkEstimate]:
    engine = made.sites[SiteId(by)].engine
    assert engine is not None
    return {one.site: one for one in engine.core.view.links()}


def test_a_quiet_link_is_measured_as_it_is() -> None:
    made = world('[[links]]\nbetween = ["alpha", "beta"]\nlatency_s = 0.03\nbytes_per_s = 5e6\n')
    beta, gamma = seen(made)["beta"], seen(made)["gamma"]
    assert (beta.rtt_s, beta.bytes_per_s, beta.loss, beta.samples) == (0.06, 5e6, 0.0, 1)
    assert (gamma.rtt_s, gamma.bytes_per_s) == (0.02, 125e6)


@pytest.mark.wide
def test_noise_shows_as_jitter_and_as_the_error_of_forecasts() -> None:
    made = world("[default_link]\nnoise = 0.3\n", until_s=3000.0)
    for one in seen(made).values():
        assert one.samples > 30
        assert one.jitter_s > 0
        assert 0.02 < one.error < 0.4
        assert one.bytes_per_s == pytest.approx(125e6, rel=0.3)
        assert one.rtt_s == pytest.approx(0.02, rel=0.3)


@pytest.mark.wide
def test_loss_is_seen_in_pings_and_work_still_arrives() -> None:
    made = world("[default_link]\nloss = 0.2\n", until_s=3000.0)
    for one in seen(made).values():
        assert one.loss == pytest.approx(0.2, abs=0.08)
        assert one.rtt_s == 0.02
    assert all(site.transport.refused == 0 for site in made.sites.values())
    assert made.network.arrived == pytest.approx(made.network.sent, rel=0.01)


@pytest.mark.wide
def test_the_same_seed_measures_the_same_and_another_does_not() -> None:
    noisy = "[default_link]\nnoise = 0.3\nloss = 0.05\n"
    assert seen(world(noisy, 7)) == seen(world(noisy, 7))
    assert seen(world(noisy, 7)) != seen(world(noisy, 8))


def test_what_is_kept_comes_back_after_a_crash() -> None:
    made = world("[default_link]\nnoise = 0.3\n")
    site = made.sites[SiteId("alpha")]
    before = seen(made)
    site.crash(durable=True)
    site.start()
    after = seen(made)
    assert after.keys() == before.keys()
    assert all(after[name].error > 0 and after[name].samples > 5 for name in after)


def test_every_site_learns_the_whole_map() -> None:
    made = world()
    found = made.sites[SiteId("alpha")].ask("links")
    assert isinstance(found, LinkMap)
    pairs = {(row.source, row.target) for row in found.links}
    names = ("alpha", "beta", "gamma")
    assert pairs == {(a, b) for a in names for b in names if a != b}


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ("[default_link]\nloss = 0.95\n", "default_link: loss = 0.95"),
        ('[[links]]\nbetween = ["alpha", "beta"]\nnoise = 1.0\n', "links alpha-beta: .*noise = 1.0"),
    ],
)
def test_shares_out_of_range_are_refused_with_the_key(link: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        parse(GRID + link)
