"""SPEC D13: the DIANA paper's figures 7 to 11 as scenarios, and SPEC D12's CMS case, held to what the paper says."""

from __future__ import annotations

import os
from collections import Counter
from math import log
from pathlib import Path
from statistics import correlation, mean
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.bench_paper_figures import batches, sized
from diana.engine.messages.messages import Message
from diana.model.ids import GroupId, SiteId
from diana.sim.experiments.failure import failure
from diana.sim.report.flows import MigrationReport
from diana.sim.report.report import Report
from diana.sim.scenario.scenario import load
from diana.sim.sites.driver import Boot
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World

FULL = os.environ.get("DIANA_FULL") == "1"
"""The whole hour of the CMS case, batches repeated, and the growth beyond a site's table: minutes each."""
SCENARIOS = Path(__file__).parents[3] / "scenarios"
FIGURES_7_8 = load(SCENARIOS / "diana-figure-7-8.toml")
FIGURES_9_10 = load(SCENARIOS / "diana-figure-9-10.toml")
FIGURE_11 = load(SCENARIOS / "diana-figure-11.toml")
CMS = load(SCENARIOS / "cms.toml")


def ran(scenario: Scenario, seed: int) -> Report:
    report = simulate(scenario, seed)
    assert report.good(), failure(scenario, report)
    return report


# --- figures 7 and 8: queue time and execution time against the number of jobs ---------------------------


def queue_times(sizes: tuple[int, ...], repeat: int, seed: int) -> tuple[dict[int, float], dict[int, float]]:
    """Jobs of a batch -> mean queue time, mean execution time, both over its repetitions."""
    groups = ran(batches(FIGURES_7_8, sizes, repeat), seed).groups
    rows = {n: [g for g in groups.values() if g.jobs == n] for n in sizes}
    assert all(len(row) == repeat for row in rows.values())
    queue_s = {n: mean(g.wait_mean_s for g in row) for n, row in rows.items()}
    return queue_s, {n: mean(g.run_mean_s for g in row) for n, row in rows.items()}


def as_the_paper_says(queue_s: dict[int, float], execution_s: dict[int, float]) -> None:
    """The queue grows with the number of jobs, about in proportion; nothing makes jobs wait much longer than one FCFS
    queue before all 24 nodes would; and where a job runs does not become worse."""
    sizes = sorted(queue_s)
    assert [queue_s[n] for n in sizes] == sorted(queue_s.values())
    power = sum(site.slots * site.speed for site in FIGURES_7_8.sites)
    for n in sizes:
        one_queue_s = max(0.0, 60.0 * (n / power - 1.0) / 2.0)
        assert queue_s[n] < 1.25 * one_queue_s + 15.0, f"{n} jobs"
        assert execution_s[n] < 1.05 * 60.0 * 24 / power, f"{n} jobs"


@pytest.mark.wide
def test_queue_time_grows_with_the_number_of_jobs_as_in_figure_7() -> None:
    as_the_paper_says(*queue_times((25, 100), 1, 1))


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_figures_7_and_8_up_to_hundreds_of_jobs() -> None:
    sizes, repeat = ((25, 50, 100, 400, 1000), 2) if FULL else ((25, 100, 400), 1)
    as_the_paper_says(*queue_times(sizes, repeat, 1))


# --- figures 9 and 10: export and import over time -------------------------------------------------------


def per_window(found: MigrationReport, kinds: tuple[str, ...], window_s: float) -> list[int]:
    """Jobs of site1 of these kinds together."""
    columns, step = [getattr(found.sites["site1"], kind) for kind in kinds], round(window_s / found.bucket_s)
    return [sum(sum(column[at : at + step]) for column in columns) for at in range(0, len(columns[0]), step)]


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_a_site_exports_what_exceeds_it_and_executes_at_its_peak_all_the_while(seed: int) -> None:
    found = ran(FIGURES_9_10, seed).migration
    assert found is not None and found.most_exports == 1
    # Figure 9, the first hour in its waves of 450 s: "Even the fluctuation in the submission rate is reflected by the
    # corresponding export and execution rates"; a site with less than it can do imports.
    waves = slice(0, 8)
    submitted, left = (
        per_window(found, ("submitted",), 450.0)[waves],
        per_window(found, ("sent", "exported"), 450.0)[waves],
    )
    assert max(submitted) > 4 * min(submitted)
    assert correlation(submitted, left) > 0.9
    assert sum(per_window(found, ("imported",), 450.0)[waves]) > 0
    # Figure 10, the second hour: "the site keeps on processing the jobs at a constant rate and the rest of the jobs
    # are exported", and at the same time others' jobs come. Most leave when they come: work that moves later must gain
    # behind all that waits elsewhere.
    flood, capacity = slice(6, 11), 4 * 600.0 / 60.0
    started, left = per_window(found, ("started",), 600.0)[flood], per_window(found, ("sent", "exported"), 600.0)[flood]
    assert all(0.8 * capacity < jobs < 1.1 * capacity for jobs in started), started
    assert all(jobs > 4 * capacity for jobs in left), left
    assert found.exported_jobs > 0
    # Placed there when it came: a group every ten minutes, that goes elsewhere where it is through sooner.
    assert sum(jobs > 0 for jobs in per_window(found, ("received",), 600.0)[flood]) >= 3


# --- figure 11: scaling in sites and jobs ----------------------------------------------------------------


TALK = frozenset(("Summary", "Gossip", "Met"))
"""Messages that sites send because time passes: so many per stream that a site holds, and it holds sixteen or so. Up to
there every new site is one more stream for all the others, so the talk of a grid grows with the square of its sites."""
MET_S = 150.0
"""Seconds after which the sites of a grid that began at once have met."""
QUESTIONS = frozenset(("QuoteRequest", "Quote"))
"""Messages of a placement, to sixteen sites, and again where a group is priced anew: a cost of the group."""


class Cost(NamedTuple):
    """Messages and events from the first submission on, and the mean turnaround."""

    sites: int
    sent: Counter[str]
    """By kind."""
    events: int
    lasted_s: float
    turnaround_s: float

    def per_job(self, without: frozenset[str] = frozenset()) -> float:
        return sum(count for kind, count in self.sent.items() if kind not in without) / (100 * self.sites)

    def talk_per_site(self) -> float:
        """Messages a site and second that are there without any job."""
        return sum(self.sent[kind] for kind in TALK) / (self.sites * self.lasted_s)


def cost(sites: int) -> Cost:
    """Figure 11 with so many sites and as many groups of a hundred jobs, submitted to a grid whose sites have met: each
    message counted as it is sent."""
    scenario = sized(FIGURE_11, sites, 100)
    (sweep,) = scenario.workload
    scenario = replace(scenario, workload=[replace(sweep, submit_s=MET_S)])
    world, sent = World(scenario, 1, Boot()), Counter[str]()
    before = 0

    def count(sender: SiteId, to: SiteId, message: Message) -> None:
        if world.clock.now_s >= MET_S:
            sent.update((type(message).__name__,))

    def watch(world: World) -> None:
        nonlocal before
        if world.clock.now_s < MET_S:
            before = world.trace.handled_events

    world.network.watch = count
    report = run(world, watch)
    assert report.good(), report.unmet
    lasted_s = report.network.simulated_s - MET_S
    return Cost(sites, sent, world.trace.handled_events - before, lasted_s, report.groups["sweep"].turnaround_mean_s)


def as_n_log_n(small: Cost, large: Cost) -> float:
    """How much more a job may cost where the whole grows as n log n."""
    return log(large.sites) / log(small.sites)


@pytest.mark.wide
def test_the_messages_of_a_jobs_work_grow_slower_than_n_log_n_with_twice_the_sites() -> None:
    """SPEC D13: a doubling adds 15 % to what a job's hand-over, start and result cost (n log n would be 30 %)."""
    small, large = cost(10), cost(20)
    work = TALK | QUESTIONS
    assert large.per_job(work) < as_n_log_n(small, large) * small.per_job(work), (small.sent, large.sent)
    assert large.turnaround_s < 1.1 * small.turnaround_s


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_all_messages_and_events_grow_no_faster_than_n_log_n_once_sites_hold_all_their_streams() -> None:
    """SPEC D13: talk between sites, questions and work together, each doubled: a grid in which everybody knows
    everybody, and one that is larger than a site's table."""
    for sites in (20, 100) if FULL else (20,):
        small, large = cost(sites), cost(2 * sites)
        at_most = as_n_log_n(small, large)
        assert large.per_job() < at_most * small.per_job(), (small.sent, large.sent)
        assert large.events / large.sites < at_most * small.events / small.sites
        assert large.talk_per_site() < 2 * (16 + 3), large.sent
        assert large.turnaround_s < 1.1 * small.turnaround_s
    # As many as sites hold streams, and those of two rounds of calls to far ones.
    assert cost(100).talk_per_site() < 2 * (16 + 1)


# --- the CMS case ----------------------------------------------------------------------------------------


def a_quarter(scenario: Scenario) -> Scenario:
    """A quarter of what is submitted in the hour, to all that runs already."""
    workload = [replace(w, repeat=max(1, w.repeat // 4)) if w.submit_s >= 3600.0 else w for w in scenario.workload]
    done = sum(work.jobs * work.repeat for work in workload)
    return replace(scenario, workload=workload, expect=replace(scenario.expect, done=done))


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_the_cms_case_runs_ten_thousand_jobs_at_once_of_0_2_seconds_to_months() -> None:
    world = World(CMS if FULL else a_quarter(CMS), 1, Boot())
    report = run(world)
    assert report.good(), report.unmet
    starts, ends, turnarounds = [], [], []
    for submission in world.users.submissions.values():
        assert submission.group is not None
        for _, facts in world.sites[submission.site].store.facts(GroupId(submission.group)):
            starts.append(np.array(facts.started_s))
            ends.append(np.array(facts.ended_s))
            turnarounds.append(ends[-1] - submission.submit_s)
    start_s, end_s, turnaround_s = map(np.concatenate, (starts, ends, turnarounds))
    running = np.arange(1, len(start_s) + 1) - np.searchsorted(np.sort(end_s), np.sort(start_s), side="right")
    assert running.max() >= 10_000
    assert turnaround_s.min() < 1.0 and turnaround_s.max() > 30 * 86400.0
    users = {s.principal for s in world.users.submissions.values()}
    assert len(CMS.users) >= 1000 and len(users) > (100 if FULL else 50)
    assert max(len(work.inputs) for work in CMS.workload) == 50
    sizes = [one.files * one.file_bytes for one in CMS.datasets]
    assert min(sizes) >= 1e12 and max(sizes) <= 3e12
    in_the_hour = sum(w.repeat for w in CMS.workload if w.submit_s >= 3600.0)
    assert in_the_hour == round(10_000 / 24)
