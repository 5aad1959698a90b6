"""Quotas under late binding (SPEC D4): two users of two origins, one with a million waiting jobs and one with always
about ten, share what three sites give by quota, though most of what waits is bound to no site."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diana.engine.journal.events import SubmitGroup
from diana.model.ids import GroupId, SiteId
from diana.model.views.views import GroupView
from diana.sim.scenario.scenario import parse
from diana.sim.sites.site import SimulatedSite
from tests.sim.worlds import begun

MANY, FEW = "many@vo", "few@vo"
TEXT = """version = 1
settings = { quotas = { "many@vo" = %s, "few@vo" = %s } }
users = [{ name = "many@vo" }, { name = "few@vo" }]
sites = [{ name = "a", slots = 6 }, { name = "b", slots = 6 }, { name = "c", slots = 6 }]
default_link = { latency_s = 0.02 }

[[workload]]
name = "many"
user = "many@vo"
site = "a"
jobs = 1_000_000
work_s = %s
spread = 0.5
submit_s = 5.0

[[workload]]
name = "few"
user = "few@vo"
site = "b"
jobs = 10
work_s = %s
spread = 0.5
submit_s = 5.0
"""
WAITING = 10
STEP_S = 0.5
SETTLED_S = 60.0
"""Until both have had work at every site. They come at 5 s: until the sites know each other, all is bound at once."""


class Origin:
    """A user's groups at the site where it submits, and how far they are."""

    def __init__(self, site: SimulatedSite) -> None:
        self.site = site
        self.over: set[GroupId] = set()
        self.done = 0

    def open(self) -> Iterator[GroupView]:
        assert self.site.engine is not None
        for name in list(self.site.engine.core.state.groups):
            if name in self.over:
                continue
            view = self.site.ask("group", name)
            assert isinstance(view, GroupView)
            if view.done < view.jobs:
                yield view
            else:
                self.over.add(name)
                self.done += view.jobs

    def look(self) -> tuple[int, int]:
        """(jobs that began, jobs that wait)"""
        views = list(self.open())
        running, done = sum(view.running for view in views), sum(view.done for view in views)
        return self.done + done + running, sum(view.jobs for view in views) - done - running


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("quotas", "work_s", "until_s"),
    [
        ((2.0, 1.0), 8.0, 360.0),
        ((2.0, 1.0), 30.0, 1800.0),
        ((1.0, 2.0), 8.0, 1200.0),
    ],
)
def test_ten_waiting_jobs_and_a_million_of_another_origin_are_served_by_quota(
    quotas: tuple[float, float], work_s: float, until_s: float
) -> None:
    world = begun(parse(TEXT % (*quotas, work_s, work_s)), 8.0)
    sites = {name: world.sites[SiteId(name)] for name in "ab"}
    assert all(isinstance(site, SimulatedSite) for site in sites.values())
    many, few = Origin(sites["a"]), Origin(sites["b"])  # type: ignore[arg-type]
    pattern = world.users.submissions["few"]
    now, least, before = 8.0, WAITING, (0, 0)
    while now < until_s:
        now += STEP_S
        world.clock.run_until(now)
        began, waiting = few.look()
        if waiting < WAITING:
            more = SubmitGroup(
                request=10**6 + int(now / STEP_S),
                principal=pattern.principal,
                key=f"few-{now}",
                spec=pattern.spec,
                jobs=WAITING - waiting,
                refs=pattern.refs,
                wall_s=now,
            )
            few.site.handle(more)
        if now == SETTLED_S:
            before = (many.look()[0], began)
        if now > SETTLED_S:
            least = min(least, waiting)
    after = (many.look()[0], few.look()[0])
    served = (after[0] - before[0], after[1] - before[1])
    ratio, wanted = served[0] / served[1], quotas[0] / quotas[1]
    print(f"quotas {quotas}, jobs of {work_s:g} s: {served} jobs began, {ratio:.3f} : 1; {least} waited at least")
    assert least >= WAITING // 3, "both have waiting work all the time"
    assert 0.95 * wanted <= ratio <= 1.05 * wanted
    assert sum(view.unplaced for view in many.open()) > 900_000, "the million waits at its origin"
