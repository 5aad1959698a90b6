"""The scenarios of real logs: what they are made of, that each seed sees another window, that their work gets done."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from diana.sim.faults.swarm import drawn
from diana.sim.load import traced
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"


def loaded(name: str) -> Scenario:
    if not DATA.is_dir():
        pytest.fail(f"{DATA} is not there; scenarios/{name}.toml reads its logs (../shared lies beside the clone)")
    return sc.load(ROOT / "scenarios" / f"{name}.toml")


def cut(scenario: Scenario, jobs: int) -> Scenario:
    """With so many jobs of each log."""
    replace = msgspec.structs.replace
    workload = tuple(
        replace(work, trace=replace(work.trace, first=jobs)) if work.trace else work for work in scenario.workload
    )
    done = jobs * len(workload)
    return replace(scenario, workload=workload, expect=replace(scenario.expect, done=done))


def test_lcg_is_25_measured_sites_with_their_users_at_home() -> None:
    scenario = loaded("lcg")
    assert len(scenario.sites) == 25 and len(scenario.links) == 300
    slots = {site.name: site.slots for site in scenario.sites}
    assert (slots["lxgate13-cern-ch"], slots["cmslcgce-fnal-gov"], slots["rl-ac-uk"]) == (446, 295, 52)
    latency_s = {frozenset(link.between): link.latency_s for link in scenario.links}
    assert latency_s[frozenset(("lxgate13-cern-ch", "cmslcgce-fnal-gov"))] == pytest.approx(0.0523, abs=0.002)


@pytest.mark.wide
def test_ten_seeds_of_lcg_are_ten_windows_of_five_thousand_jobs() -> None:
    scenario = loaded("lcg")
    (work,) = scenario.workload
    assert work.trace is not None
    some = [traced.taken(work, work.trace, scenario, seed) for seed in range(10)]
    accounts = [one.account for one in some]
    assert len({one.from_s for one in accounts}) == 10
    for one, account in zip(some, accounts, strict=True):
        assert account.jobs == len(one.run_s) == 5_000 and account.load == 1.0
        assert account.jobs + sum(account.left_out.values()) == account.jobs_in_trace == 86_169
        assert account.left_out["zero_run"] == 2
        # Most jobs come in bursts of their users: a group is worth ten jobs and more.
        assert account.groups < 1_000 and (one.run_s > 0).all()


def test_datasets_of_lcg_are_called_synthetic() -> None:
    names = [dataset.name for dataset in drawn(loaded("lcg"), 0).datasets]
    assert len(names) > 20 and all(name.startswith("lcg-synthetic-") for name in names)


@pytest.mark.wide
def test_a_few_short_jobs_of_lcg_get_done() -> None:
    scenario = cut(loaded("lcg"), 20)
    (work,) = scenario.workload
    assert work.trace is not None
    windows = ((seed, traced.taken(work, work.trace, scenario, seed).run_s.max()) for seed in range(200))
    seed = next(seed for seed, longest_s in windows if longest_s < 900)
    report = simulate(scenario, seed)
    assert report.good(), report.unmet or report.violations
    assert report.traces["lcg"].jobs == report.groups["lcg"].done == 20


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_thousand_jobs_of_lcg_get_done_at_many_sites() -> None:
    report = simulate(cut(loaded("lcg"), 1000), 2)
    assert report.good(), report.unmet or report.violations
    assert len(report.groups["lcg"].sites) >= 8


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_wide_jobs_of_three_clusters_run_where_they_fit() -> None:
    report = simulate(cut(loaded("three-clusters"), 100), 0)
    assert report.good(), report.unmet or report.violations
    used = {site for group in report.groups.values() for site in group.sites}
    assert used == {"kth", "sdsc", "nasa"}


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_the_das_serves_koalas_jobs_beside_those_of_its_own_users() -> None:
    report = simulate(loaded("das"), 0)
    assert report.good(), report.unmet or report.violations
    for site in ("vu", "uva", "delft", "utrecht", "leiden"):
        assert set(report.groups[f"local-{site}"].sites) == {site}
        assert report.sites[site].busy_fraction > 0.25
