"""The twin that looks ahead: each way to place a group is rolled forward by the same engine in the simulator's driver,
with run times that are drawn, from what its origin knows and nothing else. It is a world of its own: the live one is
not touched, and no clock is read; what bounds it is counted in events."""

from __future__ import annotations

from math import fsum, inf
from typing import Any, NamedTuple

from diana.model.ids import SiteId
from diana.policy.allocation.ahead import AheadSite, Alternative, Lookout, Outlook, Rolls
from diana.sim.kernel import chance
from diana.sim.sites.driver import Boot
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.world import World

BEGIN_S = 5.0
"""Simulated seconds until the group comes: by then the sites know each other."""
LOOK_S = 2.0
"""Simulated seconds between two looks whether the group is over."""
MOST_EVENTS = 200_000
"""Events of all rolls of one look together, which is what it may cost."""
LIMIT = 50.0
"""A roll is given up after so many times the longest wait and run at one site."""
GROUP = "group"
DATA = "data"
REFERENCE_S = 100.0
"""Declared seconds of a job at speed 1.0 in a roll; the speeds of its sites make of it what was learned."""
_QUIET: dict[str, Any] = {
    # The guard's first wave is for programs nobody knows; here every program is new.
    "guard_jobs": 0,
    # In a roll no site is lost and offers rest on quotes; word of oneself every second would be most of its cost.
    "summary_every_s": 15.0,
    "suspect_after_s": 120.0,
    "ping_every_s": 60.0,
}


class OneRoll(NamedTuple):
    turnaround_s: float
    events: int


def look(lookout: Lookout, rolls: int, seed: int, most_events: int = MOST_EVENTS) -> Outlook:
    """Roll every way `rolls` times, all ways under the same seeds; once `most_events` are used up no more is begun, and
    what was made of a round in part is left out."""
    events, found = 0, [list[float]() for _ in lookout.alternatives]
    luck = chance.text_seed(seed, lookout.luck)
    for number in range(rolls):
        row: list[float] = []
        for way in lookout.alternatives:
            one = roll(lookout, way, luck + number, most_events - events)
            events += one.events
            row.append(one.turnaround_s)
            if events >= most_events:
                return _outlook(lookout, found, events, complete=False)
        for some, turnaround_s in zip(found, row, strict=True):
            some.append(turnaround_s)
    return _outlook(lookout, found, events, complete=True)


def _outlook(lookout: Lookout, found: list[list[float]], events: int, *, complete: bool) -> Outlook:
    rows = tuple(Rolls(way.name, tuple(some)) for way, some in zip(lookout.alternatives, found, strict=True))
    return Outlook(rows, events, complete)


def roll(lookout: Lookout, way: Alternative, seed: int, most_events: int) -> OneRoll:
    """Roll one way forward until the group is over; infinite: it was not, within the bounds."""
    world = World(scenario_of(lookout, way), seed, Boot())
    world.begin()
    limit_s = BEGIN_S + LIMIT * max(one.lane_s + one.job_s * lookout.jobs for one in lookout.sites)
    home = world.sites[lookout.home]
    while world.clock.now_s < limit_s and world.trace.handled_events < most_events:
        world.clock.run_until(world.clock.now_s + LOOK_S)
        # A forced plan is one group for each of its sites.
        names = [one.group for one in world.users.submissions.values() if one.entry == GROUP]
        if any(name is None for name in names) or not names:
            continue
        facts = [some for name in names if name is not None for _, some in home.store.facts(name)]
        ends = [end_s for some in facts for end_s in some.ended_s]
        if len(ends) >= lookout.jobs:
            return OneRoll(fsum(ends) / len(ends) - BEGIN_S, world.trace.handled_events)
    return OneRoll(inf, world.trace.handled_events)


def scenario_of(lookout: Lookout, way: Alternative) -> Scenario:
    """The snapshot as a scenario. What stands before the group at a site is one job for each busy slot, which is over
    when that slot would come free for it: so no order among strangers is guessed."""
    known = {one.site: one for one in lookout.sites}
    away = lookout.home not in known
    sites = [SiteSpec(one.site, slots=one.slots, speed=REFERENCE_S / one.job_s) for one in lookout.sites]
    if away:
        sites.insert(0, SiteSpec(lookout.home))
    holders = _holders(lookout.sites)
    work = WorkSpec(
        GROUP,
        lookout.home,
        lookout.jobs,
        user="asker@ahead",
        work_s=REFERENCE_S,
        spread=lookout.spread,
        processors=lookout.processors,
        output_bytes=lookout.output_bytes,
        inputs=(DATA,) if holders else (),
        file_per_job=bool(holders),
        sites=tuple(known) if away else (),
        forced={str(site): jobs for site, jobs in way.shares},
        submit_s=BEGIN_S,
    )
    moved = max(one.bytes_in for one in lookout.sites) - min(one.bytes_in for one in lookout.sites)
    data = DatasetSpec(DATA, holders[0], lookout.jobs, max(1, moved // lookout.jobs), holders[1:]) if holders else None
    return Scenario(
        version=1,
        name="ahead",
        sites=tuple(sites),
        links=_links(lookout, holders),
        datasets=(data,) if data is not None else (),
        users=(UserSpec("asker@ahead"), UserSpec("others@ahead")),
        settings={**lookout.settings, **_QUIET},
        workload=(*(_before(one) for one in lookout.sites if one.busy), work),
        report=(),
    )


def _before(one: AheadSite) -> WorkSpec:
    speed = REFERENCE_S / one.job_s
    # Jobs there end one after the other, not together: half a run earlier or later.
    mean_s = one.lane_s + BEGIN_S
    return WorkSpec(
        f"before at {one.site}",
        one.site,
        one.busy,
        user="others@ahead",
        work_s=mean_s * speed,
        spread=min(one.lane_s, one.job_s / 2) / mean_s,
        sites=(one.site,),
    )


def _holders(sites: tuple[AheadSite, ...]) -> tuple[SiteId, ...]:
    """Sites that have the data, where having them makes a difference."""
    least, most = min(one.bytes_in for one in sites), max(one.bytes_in for one in sites)
    return tuple(one.site for one in sites if one.bytes_in <= (least + most) / 2) if least < most else ()


def _links(lookout: Lookout, holders: tuple[SiteId, ...]) -> tuple[LinkSpec, ...]:
    """Links between all pairs: as far as both are from home, as fast as the site that fetches is told to be fed."""
    ends = {one.site: one for one in lookout.sites}
    names = [*ends] if lookout.home in ends else [lookout.home, *ends]
    rate = LinkSpec(("a", "b")).bytes_per_s
    out = []
    for k, a in enumerate(names):
        for b in names[k + 1 :]:
            rtt_s = sum(ends[s].rtt_s for s in (a, b) if s in ends)
            fed = [ends[s].bytes_per_s for s in (a, b) if s in ends and s not in holders and ends[s].bytes_per_s > 0]
            out.append(LinkSpec((a, b), latency_s=rtt_s / 2, bytes_per_s=min(fed, default=rate)))
    return tuple(out)


class Looker:
    """A driver's way to look ahead: by so many rolls, and with a count of what they cost."""

    def __init__(self, rolls: int, seed: int, most_events: int = MOST_EVENTS) -> None:
        self.rolls, self.seed, self.most_events = rolls, seed, most_events
        self.looks = self.events = self.changed = 0

    def __call__(self, lookout: Lookout) -> Outlook:
        found = look(lookout, self.rolls, self.seed, self.most_events)
        self.looks += 1
        self.events += found.events
        self.changed += found.chosen() > 0
        return found


def booted(scenario: Scenario, seed: int, boot: Boot | None = None) -> Boot:
    """The boot of a scenario's engines: they look ahead where it says so."""
    boot = boot or Boot()
    return boot.looking(Looker(scenario.look_ahead, seed)) if scenario.look_ahead else boot
