"""Running totals are what a full recount gives, and cost the same with ten groups and with thousands (SPEC D10;
PERFORMANCE P4)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import capacity
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.handover.test_lives import ACTIONS, Life


def check_totals(core: Context) -> None:
    custodies = core.state.custodies
    users = {c.owner for c in custodies.values()} | {g.owner for g in core.state.groups.values()}
    waiting = {key: len(c.pending if c.runnable else c.indices) for key, c in custodies.items()}
    for user in users:
        assert capacity.queued_of(core, user) == sum(n for key, n in waiting.items() if custodies[key].owner == user)
        assert capacity.unplaced_of(core, user) == sum(
            len(g.unplaced) for g in core.state.groups.values() if g.owner == user
        )
        running = sum(len(c.running) for c in custodies.values() if c.owner == user)
        assert capacity.running_of(core).get(user, 0) == running
    given_runs = {(run.key, run.processors) for run in core.totals.runs.all()}
    assert given_runs == {
        (key, c.spec.resources.processors)
        for key, c in custodies.items()
        if set(c.running) - (core.run_book.ended[key].indices if key in core.run_book.ended else set())
    }
    on = naive_on_slots(core)
    assert capacity.on_slots(core) == on
    assert capacity.running_jobs(core) == sum(on.values())
    check_gangs(core)
    started = sum(len(c.running) for c in custodies.values())
    assert capacity.queued_jobs(core) == sum(waiting.values()) + started - sum(on.values())
    ahead = sum(
        len(c.startable() if c.runnable else c.indices - c.held)
        * core.run_book.expected_s(c)
        * c.spec.resources.processors
        for c in custodies.values()
    )
    # A learned run time counts once it moved by a twentieth.
    assert core.totals.ahead_s() == pytest.approx(ahead, rel=0.06, abs=0.01)
    check_classes(core)
    check_parties(core)


def check_gangs(core: Context) -> None:
    of_gangs = [custody for _, custody in sorted(core.state.custodies.items()) if custody.spec.is_gang]
    assert core.totals.gangs() == of_gangs
    assert core.totals.gang_processors() == sum(len(c.running) * c.spec.resources.processors for c in of_gangs)


def check_parties(core: Context) -> None:
    """Check that the index of work by other site holds what a look at everything finds."""
    groups = [core.state.groups[name] for name in sorted(core.state.groups)]
    unplaced = {group.group for group in groups if group.unplaced}
    assert set(core.totals.unplaced()) == unplaced
    for site in (None, "alpha", "beta", "gamma"):
        theirs = [
            (group.group, subgroup.subgroup)
            for group in groups
            for subgroup in group.subgroups.values()
            if subgroup.site != core.site and site in (None, subgroup.site) and subgroup.open_jobs()
        ]
        found = [(group.group, part.subgroup) for group, part in core.parties.handed_to(SiteId(site) if site else None)]
        assert found == theirs
        if site and site != core.site:
            for group in groups:
                some = [part for part in group.subgroups.values() if part.site == site]
                assert core.parties.open_at(group.group, SiteId(site)) == sum(part.open_jobs() for part in some)
        held = [k for k, c in core.state.custodies.items() if c.origin != core.site and site in (None, c.origin)]
        assert core.parties.taken_from(SiteId(site) if site else None) == sorted(held)


def naive_on_slots(core: Context) -> dict[tuple[str, int], int]:
    """As many of the first that were given as fit, and those whose end is told and not durable."""
    out = {key: len(ended.indices) for key, ended in core.run_book.ended.items() if ended.indices}
    free = core.state.settings.slots
    for run in core.totals.runs.all():
        if run.processors > free:
            break
        free -= run.processors
        out[run.key] = out.get(run.key, 0) + 1
    return out


def check_classes(core: Context) -> None:
    """Check that the queues' totals add up, too."""
    entries = core.queues.entries.values()
    everything = core.queues.classes.ahead(core.queues.classes.sizes.base, -2.0)
    assert everything[0] == sum(entry.jobs for entry in entries)
    work_s = sum(entry.jobs * entry.processors * entry.run_s for entry in entries)
    assert everything[1] == pytest.approx(work_s, rel=1e-9, abs=1e-9)


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_totals_are_the_recount_at_every_step_of_every_life(data: st.DataObject) -> None:
    life = Life(data)
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=20)):
        life.act(action)
        for site in life.grid.sites.values():
            check_totals(site.engine.core)
    life.heal()
    for site in life.grid.sites.values():
        check_totals(site.engine.core)
        assert capacity.queued_jobs(site.engine.core) == 0
        assert capacity.work_ahead_s(site.engine.core) == 0.0


def test_a_site_with_other_slots_counts_what_runs_anew() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(20), 20)
    core = alpha.engine.core
    for slots in (5, 1, 0, 3):
        core.totals.runs.configure(slots)
        assert capacity.running_jobs(core) == min(slots, len(alpha.running))


@pytest.mark.wide
def test_a_submission_costs_the_same_with_many_groups_waiting() -> None:
    """Coarse on purpose: the growth itself is measured by `benchmarks/bench_growth.py`."""
    few, many = _submit_s(20), _submit_s(1500)
    assert many < 8 * few + 0.002


def _submit_s(groups: int) -> float:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    who = [Principal(Role.USER, f"u{k}@vo") for k in range(10)]
    for n in range(groups):
        alpha.submit(spec(10, work_s=5.0), 10, n, who=who[n % 10])
    times = []
    for n in range(30):
        began = time.thread_time()
        alpha.submit(spec(10, work_s=5.0), 10, groups + n, who=who[n % 10])
        times.append(time.thread_time() - began)
    return sorted(times)[15]
