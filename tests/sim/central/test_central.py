"""Central policies with perfect information: worked examples, rules every schedule keeps, and how fast they are."""

from __future__ import annotations

import time
from itertools import permutations, product
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.central import bounds, central
from diana.sim.central.jobs import Items, Kind, Machines, jobs_of
from diana.sim.central.mapping import JobMapper, Mapped
from diana.sim.report.outcome import JobTimes
from diana.sim.scenario.scenario import parse
from diana.sim.specs.machine_spec import MachineSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

POLICIES: tuple[central.Policy, ...] = get_args(central.Policy)


def scenario(sites: str, *work: str, more: str = "") -> Scenario:
    """`sites`: "a:2 b:1x2.0" is two slots at a, one of speed 2 at b. `work`: bodies of workload entries."""
    rows = ["version = 1", more]
    for one in sites.split():
        name, _, rest = one.partition(":")
        slots, _, speed = rest.partition("x")
        rows.append(f'[[sites]]\nname = "{name}"\nslots = {slots}\nspeed = {speed or "1.0"}')
    rows += [f'[[workload]]\nname = "w{k}"\n' + body.replace("; ", "\n") for k, body in enumerate(work)]
    return parse("\n".join(rows), "test")


def rows(outcome: JobTimes) -> list[tuple[str, float, float]]:
    """(site, start, end) by start, then end."""
    some = zip(outcome.site.tolist(), outcome.start_s.tolist(), outcome.end_s.tolist(), strict=True)
    return sorted(((outcome.sites[s], round(a, 6), round(b, 6)) for s, a, b in some), key=lambda r: (r[1], r[2], r[0]))


# --- the published example ------------------------------------------------------------------------------------

ETC = ((40, 48, 134, 50), (50, 82, 88, 89), (55, 68, 94, 93), (52, 60, 78, 108))
"""Expected times of four tasks on four machines where sufferage does better than min-min (Maheswaran et al., JPDC 59,
section 4)."""


def on_four_machines() -> JobMapper:
    machines = Machines(np.arange(4, dtype=np.int32), np.ones(4, np.int32), np.ones(4), tuple("abcd"))
    kinds = [Kind(1, np.array(row, np.float64)) for row in ETC]
    return JobMapper(machines, kinds, Items(machines.site), [0, 1, 2, 3], [1.0] * 4)


def machines_of(mapped: list[Mapped]) -> dict[int, int]:
    return {one.job: one.machine for one in mapped}


def test_min_min_maps_the_published_example_to_a_makespan_of_93() -> None:
    mapped = on_four_machines().min_min([0, 1, 2, 3], 0.0)
    assert machines_of(mapped) == {0: 0, 1: 2, 2: 3, 3: 1}
    assert max(one.end_s for one in mapped) == 93.0


def test_sufferage_maps_the_published_example_to_a_makespan_of_78() -> None:
    mapped = on_four_machines().sufferage([0, 1, 2, 3], 0.0)
    assert machines_of(mapped) == {0: 3, 1: 0, 2: 1, 3: 2}
    assert max(one.end_s for one in mapped) == 78.0


# --- worked by hand -------------------------------------------------------------------------------------------


def test_min_min_starts_the_shortest_first_and_maps_what_waits_anew_when_more_comes() -> None:
    works = ('site = "a"; jobs = 1; work_s = 10.0', 'site = "a"; jobs = 1; work_s = 8.0',
             'site = "a"; jobs = 1; work_s = 2.0; submit_s = 3.0')  # fmt: skip
    # The 8 s job runs, the 10 s job waits; the 2 s job passes it when it comes.
    assert rows(central.run(scenario("a:1", *works), 1, "min-min")) == [
        ("a", 0.0, 8.0), ("a", 8.0, 10.0), ("a", 10.0, 20.0)
    ]  # fmt: skip


def test_min_min_waits_for_a_fast_site_where_that_ends_earlier() -> None:
    one = 'site = "a"; jobs = 3; work_s = 12.0'
    assert rows(central.run(scenario("a:1 b:1x4.0", one), 1, "min-min")) == [
        ("b", 0.0, 3.0), ("b", 3.0, 6.0), ("b", 6.0, 9.0)
    ]  # fmt: skip


DATA = """default_link = { latency_s = 0.5, bytes_per_s = 1e6 }
[[datasets]]
name = "d"
site = "b"
file_bytes = 9_000_000"""


def test_data_come_once_to_a_site_and_a_job_goes_where_it_ends_first() -> None:
    """At a the data are there after 1 s round trip and 9 s, at b the one slot is taken."""
    works = ('site = "a"; jobs = 1; work_s = 30.0; sites = ["b"]', 'site = "a"; jobs = 2; work_s = 5.0; inputs = ["d"]')
    outcome = central.run(scenario("a:2 b:1", *works, more=DATA), 1, "min-min")
    # The short ones go first: one at b, the other behind it at b, as that ends at 10.
    assert rows(outcome) == [("b", 0.0, 5.0), ("b", 5.0, 10.0), ("b", 10.0, 40.0)]
    assert outcome.bytes_moved == 0.0
    late = ('site = "a"; jobs = 2; work_s = 5.0; inputs = ["d"]; submit_s = 1.0', works[0])
    outcome = central.run(scenario("a:2 b:1", *late, more=DATA), 1, "min-min")
    assert rows(outcome) == [("b", 0.0, 30.0), ("a", 11.0, 16.0), ("a", 11.0, 16.0)]
    assert outcome.bytes_moved == 9e6


def test_first_start_is_one_queue_first_come_first_served_whatever_the_speed() -> None:
    works = ('site = "a"; jobs = 3; work_s = 10.0', 'site = "b"; jobs = 1; work_s = 1.0; submit_s = 1.0')
    assert rows(central.run(scenario("a:1 b:1x2.0", *works), 1, "first-start")) == [
        ("b", 0.0, 5.0), ("a", 0.0, 10.0), ("b", 5.0, 10.0), ("b", 10.0, 10.5)
    ]  # fmt: skip


def test_first_start_waits_for_the_head_of_the_queue_and_nobody_overtakes() -> None:
    works = ('site = "a"; jobs = 1; work_s = 10.0',
             'site = "a"; jobs = 1; work_s = 4.0; processors = 2; submit_s = 1.0',
             'site = "a"; jobs = 1; work_s = 1.0; submit_s = 2.0')  # fmt: skip
    assert rows(central.run(scenario("a:2", *works), 1, "first-start")) == [
        ("a", 0.0, 10.0), ("a", 10.0, 14.0), ("a", 14.0, 15.0)
    ]  # fmt: skip
    # At b the head never fits, so it is not in b's queue; the last one starts there at once.
    assert rows(central.run(scenario("a:2 b:1", *works), 1, "first-start")) == [
        ("a", 0.0, 10.0), ("b", 2.0, 3.0), ("a", 10.0, 14.0)
    ]  # fmt: skip


def test_first_start_frees_those_behind_a_wide_head_when_it_starts_elsewhere() -> None:
    works = ('site = "a"; jobs = 1; work_s = 20.0; sites = ["a"]', 'site = "a"; jobs = 2; work_s = 5.0; sites = ["b"]',
             'site = "a"; jobs = 1; work_s = 9.0; processors = 2; submit_s = 1.0',
             'site = "a"; jobs = 1; work_s = 1.0; submit_s = 2.0; sites = ["a"]')  # fmt: skip
    assert rows(central.run(scenario("a:2 b:2", *works), 1, "first-start")) == [
        ("b", 0.0, 5.0), ("b", 0.0, 5.0), ("a", 0.0, 20.0), ("a", 5.0, 6.0), ("b", 5.0, 14.0)
    ]  # fmt: skip


def test_its_data_are_sent_for_when_a_copy_was_chosen() -> None:
    work = 'site = "a"; jobs = 2; work_s = 5.0; inputs = ["d"]'
    outcome = central.run(scenario("a:1 b:1", work, more=DATA), 1, "first-start")
    assert rows(outcome) == [("b", 0.0, 5.0), ("a", 10.0, 15.0)]
    assert outcome.bytes_moved == 9e6


def test_the_bound_is_the_largest_of_work_longest_job_and_busiest_link() -> None:
    works = ('site = "a"; jobs = 30; work_s = 10.0', 'site = "a"; jobs = 1; work_s = 40.0; submit_s = 50.0')
    found = bounds.bound(scenario("a:2 b:1x2.0", *works), 1)
    assert found.work_s == pytest.approx(340 / 4)
    assert found.longest_s == pytest.approx(50 + 20)
    assert found.link_s == 0.0
    assert found.makespan_s == found.work_s
    assert found.turnaround_s == pytest.approx((30 * 5 + 20) / 31)
    bound_to_a = 'site = "a"; jobs = 2; work_s = 1.0; inputs = ["d"]; sites = ["a"]'
    assert bounds.bound(scenario("a:2 b:1", bound_to_a, more=DATA), 1).link_s == pytest.approx(9.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_no_central_policy_knows_is_refused_in_one_line(policy: central.Policy) -> None:
    with pytest.raises(UsageError, match="workload w0: max_parallel: central policies and bounds know no such"):
        central.run(scenario("a:1", 'site = "a"; jobs = 3; max_parallel = 1'), 1, policy)


def test_the_bound_is_reported_beside_what_came_of_the_same_work() -> None:
    case = scenario(
        "a:2 b:1x2.0", 'site = "a"; jobs = 9; work_s = 30.0; spread = 0.5', more='report = ["groups", "bound"]'
    )
    report = simulate(case, 3)
    assert report.bound == bounds.bound(case, 3)
    assert 0 < report.bound.makespan_s <= report.groups["w0"].makespan_s
    with pytest.raises(UsageError, match="workload w0: hold_s: central policies and bounds know no such thing"):
        scenario("a:1", 'site = "a"; jobs = 3; hold_s = 1.0; release_s = 2.0', more='report = ["bound"]')


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_that_would_have_failed_are_unfinished_at_the_limit_too(policy: central.Policy) -> None:
    jobs = jobs_of(scenario("a:1", 'site = "a"; jobs = 3; work_s = 10.0; fail_fraction = 1.0'), 1)
    assert central.scheduled(jobs, policy, 5.0)[1] == 3
    assert central.scheduled(jobs, policy, 31.0)[1] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_what_has_not_ended_at_the_limit_is_not_done(policy: central.Policy) -> None:
    work = 'site = "a"; jobs = 4; work_s = 10.0'
    assert len(central.run(scenario("a:1", work), 1, policy).end_s) == 4
    assert len(central.run(scenario("a:1", work, more="limit_s = 25.0"), 1, policy).end_s) == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_groups_that_are_drawn_are_scheduled_like_any_others(policy: central.Policy) -> None:
    drawn = 'site = "a"; jobs = 3; repeat = 20; generate = { arrivals = "poisson", load = 0.5, homes = "equal" }'
    outcome = central.run(scenario("a:2 b:1", drawn), 1, policy)
    assert len(outcome.site) == 60
    assert set(outcome.home.tolist()) == {0, 1}


def test_machines_of_a_site_run_jobs_of_their_own_and_share_its_data() -> None:
    works = ('site = "a"; jobs = 1; work_s = 4.0; processors = 2; inputs = ["d"]',
             'site = "a"; jobs = 3; work_s = 6.0; inputs = ["d"]; submit_s = 1.0; sites = ["a"]')  # fmt: skip
    case = scenario("a:1 b:1", *works, more=DATA)
    site = msgspec.structs.replace(case.sites[0], machines=(MachineSpec("m1", 2, 2.0),))
    case = msgspec.structs.replace(case, sites=(site, *case.sites[1:]))
    # The wide one fits the member alone; two of the others follow it there, as that ends first.
    for policy in ("min-min", "sufferage"):
        outcome = central.run(case, 1, policy)
        assert rows(outcome) == [("a", 10.0, 12.0), ("a", 10.0, 16.0), ("a", 12.0, 15.0), ("a", 12.0, 15.0)]
        assert outcome.bytes_moved == 9e6


# --- rules ----------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Scenario:
    names = "abc"[: draw(st.integers(1, 3))]
    sites = " ".join(f"{n}:{draw(st.integers(1, 3))}x{draw(st.sampled_from((0.5, 1.0, 3.0)))}" for n in names)
    works = []
    for _ in range(draw(st.integers(1, 8))):
        some = [
            f'site = "{draw(st.sampled_from(names))}"',
            f"jobs = {draw(st.integers(1, 4))}",
            f"work_s = {draw(st.floats(0.1, 20))}",
            f"spread = {draw(st.sampled_from((0.0, 0.5)))}",
            f"processors = {draw(st.integers(1, 3))}",
            f"submit_s = {draw(st.integers(0, 20))}.0",
        ]
        if draw(st.booleans()):
            some.append('inputs = ["d"]')
        if draw(st.booleans()):
            some.append(f'sites = ["{draw(st.sampled_from(names))}"]')
        works.append("; ".join(some))
    more = DATA.replace('site = "b"', f'site = "{draw(st.sampled_from(names))}"')
    return scenario(sites, *works, more=more)


def runnable(case: Scenario) -> int:
    slots = {site.name: site.slots for site in case.sites}
    return sum(work.jobs for work in case.workload if any(slots[s] >= work.processors for s in (work.sites or slots)))


@settings(deadline=None)
@given(cases(), st.sampled_from(POLICIES), st.integers(0, 3))
def test_every_job_runs_once_where_it_may_and_no_site_ever_runs_more_than_it_can(
    case: Scenario, policy: central.Policy, seed: int
) -> None:
    got = central.run(case, seed, policy)
    assert len(got.site) == runnable(case)
    speed = np.array([site.speed for site in case.sites])
    assert np.allclose(got.end_s - got.start_s, got.run_s / speed[got.site])
    assert (got.start_s >= got.submit_s - 1e-9).all()
    for place, site in enumerate(case.sites):
        here = got.site == place
        times = [(t, -p) for t, p in zip(got.end_s[here] - 1e-7, got.processors[here], strict=True)]
        times += [(t, int(p)) for t, p in zip(got.start_s[here], got.processors[here], strict=True)]
        busy = np.cumsum([p for _, p in sorted(times)])
        assert not len(busy) or busy.max() <= site.slots
    bound = bounds.bound(case, seed)
    if len(got.site):
        makespan_s = got.end_s.max() - got.submit_s.min()
        assert makespan_s >= bound.makespan_s - 1e-6
        assert (got.end_s - got.submit_s).mean() >= bound.turnaround_s - 1e-6
    again = central.run(case, seed, policy)
    assert all(np.array_equal(a, b) for a, b in zip(got[:8], again[:8], strict=True))


def best_makespan_s(slots: list[float], works: list[float]) -> float:
    """By trying every order on every processor."""
    best = np.inf
    for order in set(permutations(works)):
        for where in product(range(len(slots)), repeat=len(works)):
            ends = [0.0] * len(slots)
            for work, at in zip(order, where, strict=True):
                ends[at] += work / slots[at]
            best = min(best, max(ends))
    return best


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.sampled_from((1.0, 2.0)), min_size=1, max_size=3),
    st.sampled_from(POLICIES),
)
def test_nobody_beats_the_optimum_and_min_min_is_within_its_bound(
    works: list[int], speeds: list[float], policy: central.Policy
) -> None:
    sites = " ".join(f"{name}:1x{speed}" for name, speed in zip("abc", speeds, strict=False))
    case = scenario(sites, *(f'site = "a"; jobs = 1; work_s = {work}.0' for work in works))
    got = central.run(case, 1, policy)
    best = best_makespan_s(speeds, [float(work) for work in works])
    assert got.end_s.max() >= best - 1e-6
    assert bounds.bound(case, 1).makespan_s <= best + 1e-6
    if policy not in ("first-start", "egee") and len(set(speeds)) == 1:
        # List scheduling (R. L. Graham, 1969).
        assert got.end_s.max() <= (2 - 1 / len(speeds)) * best + 1e-6


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=30), st.integers(1, 4))
def test_on_one_site_first_start_is_fcfs_and_min_min_has_no_larger_mean_turnaround_when_all_come_at_once(
    jobs: list[tuple[int, int]], slots: int
) -> None:
    def mean_s(policy: central.Policy, **of: Any) -> float:
        works = [f'site = "a"; jobs = 1; work_s = {work}.0; submit_s = {at * of["spread"]}.0' for work, at in jobs]
        got = central.run(scenario(f"a:{slots}", *works), 1, policy)
        return float((got.end_s - got.submit_s).mean())

    assert mean_s("min-min", spread=0) <= mean_s("first-start", spread=0) + 1e-6
    free, waited = [0.0] * slots, []
    for at, work in sorted(((at, work) for work, at in jobs), key=lambda one: one[0]):
        free.sort()
        free[0] = max(free[0], at) + work
        waited.append(free[0] - at)
    assert mean_s("first-start", spread=1) == pytest.approx(float(np.mean(waited)))


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_hundred_thousand_serial_jobs_on_170_sites_take_seconds(policy: central.Policy) -> None:
    sites = " ".join(f"s{k}:{1 + 40 * k % 97}x{1 + k % 3}.0" for k in range(170))
    work = (
        'site = "s1"; jobs = 1; work_s = 3600.0; spread = 0.9; repeat = 100000; '
        'generate = { arrivals = "poisson", load = 0.95, homes = "slots" }'
    )
    took_s = []
    for jobs in (20_000, 100_000):
        case = scenario(sites, work.replace("100000", str(jobs)))
        begun = time.process_time()
        assert len(central.run(case, 1, policy).site) == jobs
        took_s.append(time.process_time() - begun)
    assert took_s[1] < min(60.0, 10 * took_s[0])
