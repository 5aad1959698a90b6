"""The twin that looks ahead: bounded, the same for one seed, aside from the world it looks from."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from diana.model.ids import SiteId
from diana.policy.allocation.ahead import AheadSite, Alternative, Lookout, Outlook
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world import ahead
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World

A, B = SiteId("a"), SiteId("b")


def site(name: SiteId, **more: float) -> AheadSite:
    known = {"slots": 8, "busy": 8, "lane_s": 100.0, "job_s": 60.0, **more}
    return AheadSite(site=name, **known)  # type: ignore[arg-type]


LOOKOUT = Lookout(
    home=A,
    jobs=8,
    processors=1,
    sites=(site(A, lane_s=300.0), site(B, lane_s=10.0, rtt_s=0.02)),
    alternatives=(Alternative("whole at a", ((A, 8),)), Alternative("whole at b", ((B, 8),)), Alternative("waiting")),
    spread=0.5,
)

SCENARIO = sc.parse("""
version = 1
name = "two"
limit_s = 20000
sites = [{ name = "a", slots = 4 }, { name = "b", slots = 8, speed = 1.5 }]
[[workload]]
name = "w"
site = "a"
jobs = 12
work_s = 60.0
spread = 0.5
repeat = 4
every_s = 40.0
submit_s = 10.0
""")


def test_a_way_that_is_clearly_worse_comes_out_worse() -> None:
    found = ahead.look(LOOKOUT, rolls=3, seed=7)
    worse, better, waiting = found.rows
    assert min(worse.turnarounds_s) > 2 * max(better.turnarounds_s), found
    # The jobs of a queue that moves at b go there by themselves.
    assert waiting.mean_s < 0.6 * worse.mean_s, found
    assert found.chosen() == 1 and found.complete
    assert worse.spread_s > 0


def test_data_are_fetched_in_a_roll_as_well() -> None:
    far = replace(LOOKOUT, sites=(site(A, lane_s=10.0, bytes_in=8 * 10**9, bytes_per_s=1e7), site(B, lane_s=10.0)))
    at_a, at_b, _ = ahead.look(far, rolls=1, seed=7).rows
    assert at_a.mean_s > at_b.mean_s + 60.0


@pytest.mark.wide
def test_one_seed_is_one_answer_and_another_seed_another() -> None:
    first, again, other = (ahead.look(LOOKOUT, rolls=2, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert first.rows != other.rows


@pytest.mark.wide
def test_a_look_ends_with_its_events_and_leaves_out_what_it_did_not_finish() -> None:
    whole = ahead.look(LOOKOUT, rolls=2, seed=7)
    bound = whole.events * 3 // 4
    found = ahead.look(LOOKOUT, rolls=2, seed=7, most_events=bound)
    # A roll looks at its bound every two seconds, and so goes beyond it by what happens meanwhile.
    assert found.events < bound + 200 and not found.complete
    assert [len(row.turnarounds_s) for row in found.rows] == [1, 1, 1]
    assert found.rows[0].turnarounds_s == whole.rows[0].turnarounds_s[:1]
    nothing = ahead.look(LOOKOUT, rolls=2, seed=7, most_events=10)
    assert nothing.events < whole.events // 12, "less than half a roll"
    assert nothing.chosen() == 0 and "too low" in nothing.told()


def test_looking_leaves_the_live_world_as_it_was() -> None:
    plain = simulate(SCENARIO, 3)
    looker = ahead.Looker(rolls=1, seed=3)

    def looks_and_stays(lookout: Lookout) -> Outlook:
        rows = looker(lookout).rows
        return Outlook(rows[:1], events=0)

    boot = Boot()
    world = World(SCENARIO, 3, boot)
    before: list[str] = []
    boot.look_ahead = _watched(looks_and_stays, world, before)
    report = run(world)
    assert looker.looks == 4 and before
    assert report.good() and report.groups["w"].makespan_s == plain.groups["w"].makespan_s
    assert report.network == plain.network


def _watched(look, world: World, seen: list[str]):  # type: ignore[no-untyped-def]
    def watched(lookout: Lookout) -> Outlook:
        digest, now_s = world.trace.digest(), world.clock.now_s
        found: Outlook = look(lookout)
        assert (world.trace.digest(), world.clock.now_s) == (digest, now_s)
        seen.append(digest)
        return found

    return watched


@pytest.mark.wide
def test_a_scenario_that_looks_ahead_says_so_in_its_decisions_and_ends_the_same_under_one_seed() -> None:
    looking = replace(SCENARIO, look_ahead=1)
    first = simulate(looking, 3)
    world = World(SCENARIO, 3, ahead.booted(looking, 3))
    again = run(world)
    assert first.good() and first.digest == again.digest
    engine = world.sites[A].engine
    assert engine is not None
    reasons = [group.decisions[0].reason for group in engine.state.groups.values()]
    assert len(reasons) == 4 and all("looked ahead" in reason for reason in reasons), reasons
    assert simulate(SCENARIO, 3).digest != first.digest
