"""SPEC U6: what a site counts for those who watch it is what a full recount gives, and a question costs the same with
ten groups and with thousands."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.site.context import Context
from diana.engine.views import gauges
from diana.engine.views.gauges import MOST_SITES, Gauges
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.model.views.figures import NodeFigures
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, spec
from tests.engine.gossiping import Node, entry
from tests.engine.handover.test_gangs import submit
from tests.engine.handover.test_lives import ACTIONS, Life


def ask(site: Site, who: Principal = OPERATOR) -> object:
    site.handle(ev.Ask(request=78, principal=who, what="figures"))
    return next(e.body for e in reversed(site.trace) if isinstance(e, fx.Reply) and e.request == 78)


def figures(site: Site) -> NodeFigures:
    while not isinstance(found := ask(site), NodeFigures):
        assert isinstance(found, Ok) and found.count > 0
    return found


def check(core: Context, found: NodeFigures) -> None:
    every = core.state.groups.values()
    opened = [group for group in every if not group.state]
    assert found.groups["final"] == len(every) - len(opened)
    assert sum(found.groups.values()) == len(every)
    jobs = found.group_jobs
    assert jobs["done"] == sum(len(group.done) for group in opened)
    assert jobs["failed"] == sum(len(group.failed) for group in opened)
    assert jobs["unplaced"] + jobs["held"] == sum(len(group.unplaced) for group in opened)
    assert sum(jobs.values()) == sum(group.jobs for group in opened)
    placed: Counter[str] = Counter()
    for group in opened:
        for part in group.subgroups.values():
            if part.indices.bounds[:1] != (group.jobs,):
                placed[part.site] += part.open_jobs()
    assert found.placed_here == placed[core.site]
    assert {row.site: row.placed_jobs for row in found.sites} == {site: placed[site] for site in core.view.peers}
    assert sum(found.peers.values()) == len(core.view.peers)
    assert sum(found.levels.values()) == found.jobs["queued"] == sum(e.jobs for e in core.queues.entries.values())
    waiting = sum(len(c.pending if c.runnable else c.indices) for c in core.state.custodies.values())
    assert found.jobs["queued"] + found.jobs["kept"] == waiting


@pytest.mark.wide
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_figures_are_the_recount_at_every_step_of_every_life(data: st.DataObject) -> None:
    life = Life(data)
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=15)):
        life.act(action)
        for site in life.grid.sites.values():
            check(site.engine.core, figures(site))
    life.heal()
    for site in life.grid.sites.values():
        found = figures(site)
        check(site.engine.core, found)
        assert not any(found.group_jobs.values())


def test_what_ended_and_how_is_counted_where_it_ran_and_where_it_was_submitted() -> None:
    grid = Grid(alpha=0, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(4, work_s=5.0), 4)
    grid.settle()
    beta.end(3)
    beta.end(1, Outcome.FAILED)
    grid.finish()
    home, away = figures(alpha).counters, figures(beta).counters
    assert (home["groups_submitted"], home["groups_failed"]) == (1, 1)
    assert (home["jobs_done"], home["jobs_failed"]) == (3, 1)
    assert (away["jobs_started"], away["jobs_ended"]) == (4, 4)
    assert "jobs_done" not in away and "jobs_started" not in home


def test_a_site_nobody_asks_keeps_no_books_for_it() -> None:
    alpha = Grid(alpha=1)["alpha"]
    alpha.submit(spec(10), 10)
    assert alpha.engine.core.watcher is None


def test_sites_beyond_the_cap_are_summed_up_and_those_one_works_with_stay() -> None:
    node = Node()
    node.up("zeta")
    node.told("zeta", *(entry(f"s{n:04}", slots=3, free_slots=1) for n in range(MOST_SITES + 49)))
    node.told("zeta", entry("other", slots=1000))
    core = node.engine.core
    found = next(f for _ in range(10) if isinstance(f := gauges.figures(core), NodeFigures))
    named = [row.site for row in found.sites]
    assert len(named) == MOST_SITES and named[0] == "zeta" and "other" not in named
    assert found.others is not None and found.others.site == "other"
    assert found.others.slots == 3 * 50 + 1000
    assert sum(found.peers.values()) == MOST_SITES + 51


def test_a_question_looks_at_some_groups_and_sites_only_and_says_how_many_are_left() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    alpha = grid["alpha"]
    for number in range(5):
        alpha.submit(spec(2, work_s=9.0), 2, number)
    core = alpha.engine.core
    core.watcher = Gauges(core.state)
    # With its parts each group is enough for one question; then there are two sites.
    assert [core.watcher.look(core, most=2) for _ in range(5)] == [6, 5, 4, 3, 2]
    found = core.watcher.look(core, most=2)
    assert isinstance(found, NodeFigures)
    check(core, found)


def test_a_group_in_many_parts_is_looked_at_alone() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2, delta=2)
    for number in range(3):
        grid["alpha"].submit(spec(8, work_s=900.0), 8, number)
        grid.settle()
    core = grid["alpha"].engine.core
    assert max(len(group.subgroups) for group in core.state.groups.values()) > 1
    parts = sum(len(group.subgroups) for group in core.state.groups.values())
    seen = Gauges(core.state)
    asked = 1
    while not isinstance(found := seen.look(core, most=3), NodeFigures):
        asked += 1
    check(core, found)
    assert asked >= (3 + parts + len(core.view.peers)) / 6


def test_what_is_not_of_this_site_or_forgotten_leaves_nothing_behind() -> None:
    grid = Grid(alpha=0, beta=4)
    alpha, beta = grid["alpha"], grid["beta"]
    figures(beta)
    for number in range(5):
        alpha.submit(spec(4, work_s=5.0), 4, number)
    grid.settle()
    watched = beta.engine.core.watcher
    assert beta.engine.core.state.custodies and watched is not None
    assert not watched._touched  # type: ignore[attr-defined]


def test_books_that_nobody_reads_any_more_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "MOST_UNASKED", 20)
    alpha = Grid(alpha=2)["alpha"]
    for number in range(40):
        alpha.submit(spec(2, work_s=5.0), 2, number)
        check(alpha.engine.core, figures(alpha))
    assert alpha.engine.core.watcher is not None, "somebody asks"
    for number in range(40, 80):
        alpha.submit(spec(2, work_s=5.0), 2, number)
    assert alpha.engine.core.watcher is None
    check(alpha.engine.core, figures(alpha))


@pytest.mark.wide
def test_asking_again_costs_by_what_changed() -> None:
    few, many = _again_s(20), _again_s(1500)
    assert many < 8 * few + 0.002


def _again_s(groups: int) -> float:
    alpha = Grid(alpha=2)["alpha"]
    for number in range(groups):
        alpha.submit(spec(10, work_s=5.0), 10, number)
    figures(alpha)
    times = []
    for _ in range(15):
        began = time.thread_time()
        figures(alpha)
        times.append(time.thread_time() - began)
    return sorted(times)[7]


def test_nobody_without_a_name_is_told() -> None:
    alpha = Grid(alpha=1)["alpha"]
    assert isinstance(ask(alpha, Principal(Role.NOBODY, "")), fx.Refusal)
    assert isinstance(ask(alpha, Principal.peer(SiteId("beta"))), fx.Refusal)


def test_gangs_are_counted_as_they_wait_hold_run_and_are_given_up() -> None:
    grid = Grid({"claim_wait_s": 100.0, "binding": "early", "migration": "off"}, alpha=0, beta=1, gamma=2)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=40.0), 1, 5)
    submit(grid, "1x1@beta+1x2@gamma", jobs=2)
    grid.pass_time(39.0)

    def told(site: str) -> NodeFigures:
        return figures(grid[site])

    assert told("alpha").gangs == {"waiting": 2, "running": 0}
    assert told("gamma").gang_processors == {"held": 2, "running": 0}
    grid["beta"].end()
    grid.settle()
    assert told("alpha").gangs == {"waiting": 1, "running": 1}
    assert told("gamma").gang_processors == {"held": 0, "running": 2}
    counters = told("alpha").counters
    assert (counters["gangs_started"], counters["gang_wait_s"]) == (1, 39) and "gangs_given_up" not in counters
    grid.finish()
    assert told("alpha").gangs == {"waiting": 0, "running": 0} and told("alpha").counters["gangs_started"] == 2
