"""A site that meets the requirements of a group no more loses those of its jobs that wait there, and not those that run
(SPEC G1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from diana.engine.journal import records
from diana.engine.journal.state import Group
from diana.engine.migration import unmet
from diana.engine.placement import pull_back
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId
from diana.model.job.components import components_of
from diana.model.job.spec import GroupSpec
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec

GIB = 2**30
NAME = GroupId("alpha-1")
SETTLED_S = 3 * unmet.SETTLED_S


def grid(binding: str = "early", slots: int = 4, **memory_gib: int) -> Grid:
    made = Grid({"binding": binding, "migration": "off"}, **dict.fromkeys(memory_gib, slots))
    for name, gib in memory_gib.items():
        learn(made[name], memory_bytes=gib * GIB)
    return made


def learn(site: Site, **settings: object) -> None:
    """Start the site again with other settings."""
    site.settings = msgspec.structs.replace(site.settings, **settings)
    site.restart()
    site.grid.settle()


def wanted(jobs: int, requirements: Sequence[str] = ("site.memory_bytes >= 8e9",), **more: object) -> GroupSpec:
    return spec(jobs, requirements=tuple(requirements), work_s=1000.0, **more)


def jobs_at(made: Grid, name: GroupId = NAME) -> dict[str, int]:
    """Return how many open jobs each site has."""
    out: dict[str, int] = {}
    for part in made["alpha"].group(name).subgroups.values():
        if part.open_jobs():
            out[part.site] = out.get(part.site, 0) + part.open_jobs()
    return out


def reasons(made: Grid, name: GroupId = NAME) -> set[str]:
    return {decision.moved for decision in made["alpha"].group(name).decisions if decision.moved}


def moves(made: Grid) -> int:
    return len([one for one in made["alpha"].records(records.JobsMoved) if not one.to])  # type: ignore[attr-defined]


def bound_to_beta(made: Grid, asked: GroupSpec, jobs: int) -> None:
    """Let the group be bound to beta alone: the others do not meet its requirements yet."""
    made["alpha"].submit(asked, jobs)
    assert jobs_at(made) == {"beta": jobs}
    made.pass_time(20.0)


def test_jobs_that_wait_at_a_site_that_meets_their_requirements_no_more_go_elsewhere_and_those_that_run_stay() -> None:
    made = grid(alpha=1, beta=8, gamma=1)
    bound_to_beta(made, wanted(20), 20)
    learn(made["gamma"], memory_bytes=8 * GIB)
    made.pass_time(20.0)
    assert jobs_at(made) == {"beta": 20}, "it meets them still"
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {"beta": 4, "gamma": 16}
    why = "beta no longer meets site.memory_bytes >= 8e9: 4294967296 >= 8000000000 does not hold"
    assert reasons(made) == {why} and moves(made) == 1
    made.finish()
    assert made["alpha"].group(NAME).state == "done"


def test_a_site_with_new_settings_gives_its_own_waiting_jobs_away() -> None:
    made = grid(alpha=8, beta=1, gamma=1)
    made["alpha"].submit(wanted(20), 20)
    learn(made["gamma"], memory_bytes=8 * GIB)
    made.pass_time(20.0)
    assert jobs_at(made) == {"alpha": 20}
    learn(made["alpha"], memory_bytes=GIB)
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {"alpha": 4, "gamma": 16}
    assert reasons(made) == {"alpha no longer meets site.memory_bytes >= 8e9: 1073741824 >= 8000000000 does not hold"}


def test_a_change_while_the_origin_was_down_is_seen_when_it_comes_back() -> None:
    made = grid(alpha=1, beta=8, gamma=1)
    bound_to_beta(made, wanted(20), 20)
    learn(made["beta"], memory_bytes=4 * GIB)
    learn(made["gamma"], memory_bytes=8 * GIB)
    made["alpha"].restart()
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {"beta": 4, "gamma": 16}


def test_where_no_site_meets_them_the_jobs_wait_at_their_origin_and_go_to_the_first_that_does() -> None:
    made = grid(alpha=1, beta=8, gamma=1)
    bound_to_beta(made, wanted(20), 20)
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {"beta": 4} and len(made["alpha"].group(NAME).unplaced) == 16
    assert "beta: does not meet: site.memory_bytes >= 8e9" in made["alpha"].engine.core.waiting_notes[NAME]
    learn(made["gamma"], memory_bytes=8 * GIB)
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {"beta": 4, "gamma": 16}


def test_a_site_that_changes_to_and_fro_gets_its_jobs_back_and_loses_them_ever_less_often() -> None:
    made = grid(alpha=1, beta=8, gamma=1)
    bound_to_beta(made, wanted(20), 20)
    for _ in range(20):
        for gib in (4, 8):
            learn(made["beta"], memory_bytes=gib * GIB)
            made.pass_time(15.0)
    assert moves(made) == 2, "600 seconds, and 300 between two"
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(700.0)
    assert moves(made) == 3 and jobs_at(made) == {"beta": 4}, "that it was left for some time is looked at again"


def test_figures_of_a_site_that_has_just_started_call_nothing_back() -> None:
    made = grid(alpha=1, beta=8, gamma=8)
    made["alpha"].submit(wanted(20, not_sites=("gamma",)), 20)
    made.pass_time(20.0)
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(unmet.SETTLED_S / 2)
    learn(made["beta"], memory_bytes=8 * GIB)
    made.pass_time(SETTLED_S)
    assert not moves(made)


def test_values_that_change_from_minute_to_minute_call_nothing_back() -> None:
    made = grid(alpha=1, beta=8, gamma=8)
    texts = ("site.free_slots >= 2 && site.wait_s < 1.0 && site.memory_bytes >= 8e9",)
    made["alpha"].submit(wanted(20, texts, set_requirements=("sum(set.free_slots) >= 1",)), 20)
    at = jobs_at(made)
    made.pass_time(60.0)
    learn(made["beta"], memory_bytes=9 * GIB)
    made.pass_time(60.0)
    assert jobs_at(made) == at and not moves(made)


def test_a_machine_that_is_away_for_a_short_time_calls_nothing_back() -> None:
    made = grid(alpha=1, beta=8, gamma=8)
    made["alpha"].submit(wanted(20, ("site.slots >= 4 && site.memory_bytes >= 8e9",), not_sites=("gamma",)), 20)
    made.pass_time(20.0)
    learn(made["beta"], slots=2)
    made.pass_time(pull_back.NO_SLOTS_S / 2)
    assert not moves(made)
    learn(made["beta"], slots=4)
    made.pass_time(2 * pull_back.NO_SLOTS_S)
    assert not moves(made)
    learn(made["beta"], slots=2)
    made.pass_time(2 * pull_back.NO_SLOTS_S)
    assert moves(made) == 1


def test_a_set_of_sites_that_one_of_them_spoils_is_made_anew() -> None:
    made = grid(alpha=1, beta=2, gamma=3, delta=3)
    texts = ("sum(set.memory_bytes) >= 5e9", "size(set) == 2")
    made["alpha"].submit(wanted(40, (), set_requirements=texts, sites=("beta", "gamma", "delta")), 40)
    first = jobs_at(made)
    assert len(first) == 2 and sum(first.values()) == 40
    made.pass_time(20.0)
    (one, other) = sorted(first)
    learn(made[one], memory_bytes=GIB)
    made.pass_time(SETTLED_S)
    (why,) = {one.why for one in made["alpha"].records(records.JobsMoved)}  # type: ignore[attr-defined]
    assert why == f"{one} + {other} no longer meet together sum(set.memory_bytes) >= 5e9, as {one} has changed"
    assert jobs_at(made)[one] == 4, "what runs stays"
    assert "no set of sites meets: sum(set.memory_bytes) >= 5e9" in made["alpha"].engine.core.waiting_notes[NAME]


def test_a_set_that_its_ended_jobs_have_left_is_not_spoilt_by_another_change() -> None:
    made = grid(alpha=1, beta=4, gamma=4)
    asked = wanted(24, (), set_requirements=("sum(set.memory_bytes) >= 8e9",), not_sites=("alpha",))
    made["alpha"].submit(asked, 24)
    assert jobs_at(made) == {"beta": 12, "gamma": 12}
    made.pass_time(20.0)
    while "gamma" in jobs_at(made):
        made["gamma"].end()
        made.settle()
    learn(made["beta"], memory_bytes=5 * GIB)
    made.pass_time(SETTLED_S)
    assert not moves(made) and jobs_at(made) == {"beta": 12}


def test_jobs_are_moved_where_their_set_holds_by_the_values_of_the_sites_that_keep_some() -> None:
    made = grid(alpha=2, beta=2, gamma=2)
    asked = wanted(20, (), set_requirements=("sum(set.slots) >= 4", "size(set) <= 3"), not_sites=("alpha",))
    made["alpha"].submit(asked, 20)
    made.pass_time(20.0)
    assert jobs_at(made) == {"beta": 10, "gamma": 10}
    made["alpha"].move(NAME, "gamma")
    made.pass_time(20.0)
    assert jobs_at(made) == {"beta": 4, "gamma": 16}, "what its machines have stays, and beta is of the set"


def test_a_gang_that_waits_is_left_to_its_next_attempt() -> None:
    made = grid(alpha=1, beta=8, gamma=8)
    made["alpha"].submit(wanted(8), 8, key="before")
    asked = msgspec.structs.replace(wanted(1), components=components_of("2x2"))
    made["alpha"].submit(asked, 2, 2, key="gang")
    made.pass_time(10.0)
    gang = GroupId("alpha-2")
    at = jobs_at(made, gang)
    assert sum(at.values()) == 2 and len(made["beta"].running) == len(made["gamma"].running) == 4
    learn(made["beta"], memory_bytes=GIB)
    learn(made["gamma"], memory_bytes=GIB)
    made.pass_time(SETTLED_S)
    assert not moves(made)


@pytest.mark.parametrize("site", ["alpha", "beta"])
def test_where_all_run_there_is_nothing_to_call_back(site: str) -> None:
    made = grid(**{"alpha": 1, "beta": 1, site: 8})
    made["alpha"].submit(wanted(4), 4)
    made.pass_time(20.0)
    learn(made[site], memory_bytes=GIB)
    made.pass_time(SETTLED_S)
    assert jobs_at(made) == {site: 4} and not made["alpha"].engine.core.book(pull_back.PullBack).unfit


def test_groups_are_judged_when_a_site_has_changed_and_not_at_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = grid(alpha=1, beta=8, gamma=8)
    made["alpha"].submit(wanted(20), 20)
    made.pass_time(20.0)
    judged: list[SiteId] = []
    real = unmet._groups

    def told(core: Context, site: SiteId) -> Iterator[Group]:
        if core.site == "alpha":
            judged.append(site)
        return real(core, site)

    monkeypatch.setattr(unmet, "_groups", told)
    made.pass_time(60.0)
    assert not judged
    learn(made["beta"], memory_bytes=9 * GIB)
    made.pass_time(60.0)
    assert judged == ["beta"]


def test_of_many_groups_few_are_judged_at_one_turn_and_all_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmet, "MOST_GROUPS", 2)
    monkeypatch.setattr(unmet, "LEAST_GROUPS", 1)
    made = grid(alpha=1, beta=1, gamma=1)
    learn(made["beta"], memory_bytes=9 * GIB)
    for n in range(7):
        made["alpha"].submit(wanted(6), 6, key=f"group {n}")
    made.pass_time(20.0)
    judged: list[float] = []
    real = unmet._why

    def told(core: Context, group: Group, site: SiteId, seen: unmet.SeenSite) -> str:
        if core.site == "alpha":
            judged.append(core.now)
        return real(core, group, site, seen)

    monkeypatch.setattr(unmet, "_why", told)
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(3 * SETTLED_S)
    assert len(judged) == 7 and all(judged.count(when) <= 2 for when in judged)
    assert sum(sum(jobs_at(made, GroupId(f"alpha-{n}")).values()) for n in range(1, 8)) <= 4, "what its machines have"


def test_jobs_that_wait_for_their_turn_wait_only_where_they_may_and_the_next_price_says_why() -> None:
    made = grid("late", alpha=1, beta=8, gamma=8)
    made["alpha"].submit(wanted(40), 40)
    assert made["alpha"].group(NAME).unplaced
    learn(made["gamma"], memory_bytes=GIB)
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(90.0)
    note = made["alpha"].engine.core.waiting_notes[NAME]
    assert "beta: does not meet: site.memory_bytes >= 8e9 (takes it if site.memory_bytes >= 4294967296)" in note
    assert "gamma: does not meet: site.memory_bytes >= 8e9" in note
