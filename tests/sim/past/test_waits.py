"""Waits that the engine does not account for: seen in a history, drawn in its replay, told by the check."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.past.merging import load
from diana.sim.past.recording import KnownSite
from diana.sim.past.replay import as_it_was, replayed
from diana.sim.past.twin import compared, twin
from diana.sim.past.waits import PARTS, observed
from diana.sim.scenario import scenario as sc
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.scenario_spec import Scenario
from tests.sim.past.histories import Ran, told

ONE = (KnownSite("alpha", 1, 1.0),)


def _queue(folder: Path, gap_s: float, jobs: int = 20, run_s: float = 4.0) -> Scenario:
    """Jobs of one second's distance before one slot, which stays empty for `gap_s` after each."""
    groups = [Ran(0.1 * k, [run_s], wait_s=k * (run_s + gap_s) - 0.1 * k + gap_s) for k in range(jobs)]
    told(folder, groups, sites=ONE)
    return load(folder)


def test_slots_that_stayed_empty_though_jobs_waited_do_so_in_the_replay(tmp_path: Path) -> None:
    scenario = observed(_queue(tmp_path, 0.5))
    (site,) = scenario.sites
    assert len(site.gaps_s) == PARTS and set(site.gaps_s) == {0.5}
    ((run,),) = replayed([scenario], range(1))
    ends = sorted(row.submit_s + row.end_s for row in run.groups.values())
    assert [b - a for a, b in pairwise(ends)] == pytest.approx([4.5] * 19, abs=0.05)


def test_the_replay_of_a_group_is_its_median_over_the_seeds(tmp_path: Path) -> None:
    told(tmp_path, [Ran(100.0 * k, [10.0]) for k in range(3)], sites=ONE)
    truly = as_it_was(load(tmp_path))
    runs = [
        replace(truly, groups={name: replace(row, end_s=end_s) for name, row in truly.groups.items()})
        for end_s in (2.0, 10.5, 90.0)
    ]
    found = compared(load(tmp_path), runs)
    assert found.median_turnaround_error == pytest.approx(0.05) and len(found.worst) == 3
    assert compared(load(tmp_path), runs[:1]).median_turnaround_error == pytest.approx(0.8)


def test_jobs_that_waited_though_slots_were_free_do_so_in_the_replay(tmp_path: Path) -> None:
    told(tmp_path, [Ran(100.0 * k, [4.0], wait_s=30.0) for k in range(12)], sites=ONE)
    scenario = observed(load(tmp_path))
    (site,) = scenario.sites
    assert set(site.waits_s) == {30.0} and not site.gaps_s
    ((run,),) = replayed([scenario], range(1))
    assert {round(row.first_s) for row in run.groups.values()} == {30}
    ((none,),) = replayed([load(tmp_path)], range(1))
    assert {round(row.first_s) for row in none.groups.values()} == {0}


def test_a_gap_in_which_the_site_was_drained_or_nothing_waited_is_none(tmp_path: Path) -> None:
    scenario = _queue(tmp_path, 0.5)
    drained = replace(scenario, events=(EventSpec(0.0, "drain", ("alpha",), for_s=1000.0),))
    assert observed(drained).sites[0].gaps_s == ()
    resized = replace(scenario, events=(EventSpec(50.0, "slots", ("alpha",), slots=2),))
    assert observed(resized).sites[0].gaps_s == ()
    told(tmp_path / "idle", [Ran(10.0 * k, [4.0]) for k in range(20)], sites=ONE)
    assert observed(load(tmp_path / "idle")).sites[0].gaps_s == ()


def test_what_few_jobs_show_counts_for_nothing(tmp_path: Path) -> None:
    assert observed(_queue(tmp_path, 0.5, jobs=5)).sites[0].gaps_s == ()


def test_a_site_that_says_its_waits_keeps_them(tmp_path: Path) -> None:
    scenario = _queue(tmp_path, 0.5)
    said = replace(scenario, sites=(replace(scenario.sites[0], gaps_s=(3.0,)),))
    assert observed(said).sites[0].gaps_s == (3.0,)


def test_the_check_counts_with_them_and_says_how_long_they_are(tmp_path: Path) -> None:
    found = twin(_queue(tmp_path, 1.0), range(1))
    assert found.holds and abs(found.makespan_error) < 0.02
    assert found.waits == ["alpha: slots stay empty for 1.0 s after a job (mean)"]


@pytest.mark.parametrize("key", ["gaps_s", "waits_s"])
def test_waits_that_are_none_are_refused_in_one_line(key: str) -> None:
    sites = f'sites = [{{ name = "alpha", {key} = [-1.0] }}]'
    text = f'version = 1\n{sites}\nworkload = [{{ name = "w", site = "alpha", jobs = 1 }}]\n'
    with pytest.raises(UsageError, match=key) as refused:
        sc.parse(text)
    assert "\n" not in str(refused.value)
