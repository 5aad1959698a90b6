"""Simulated sites place gangs as real ones do: by turnaround, within quotas, by a plug-in (SPEC K2, K9)."""

from __future__ import annotations

import pytest

from diana import gang_plug_ins
from diana.policy.gang.installed import checked
from diana.policy.gang.policies import POLICIES
from diana.policy.gang.worst_fit import worst_fit
from diana.sim.report.gang_figures import GangFigures
from diana.sim.scenario.scenario import parse
from diana.sim.world.runner import simulate

FAST_AND_FULL = """version = 1
report = ["gang_figures"]
sites = [{name = "a", slots = 0}, {name = "fast", slots = 4, speed = 4.0}, {name = "slow", slots = 4}]
[[workload]]
name = "other"
site = "fast"
sites = ["fast"]
jobs = 4
work_s = 160.0
[[workload]]
name = "gang"
site = "a"
jobs = 1
components = "2x2"
work_s = 200.0
submit_s = 10.0
gang_placement = "POLICY"
"""
TWO_GANGS = """version = 1
report = ["gang_figures"]
settings = { gang_quota = QUOTA, gang_placement = "DEFAULT" }
sites = [{name = "a", slots = 0}, {name = "b", slots = 4}]
[[workload]]
name = "gang"
site = "a"
jobs = 1
components = "2x1"
work_s = 20.0
repeat = 2
every_s = 0.5
submit_s = 5.0
"""


def ran(text: str) -> GangFigures:
    report = simulate(parse(text), 0)
    assert not report.violations and report.gang_figures is not None, report.violations
    assert report.gang_figures.done == report.gang_figures.gangs
    return report.gang_figures


def test_a_gang_placed_by_turnaround_ends_as_foretold_and_sooner_than_where_it_would_begin_at_once() -> None:
    turnaround, soonest = (ran(FAST_AND_FULL.replace("POLICY", name)) for name in ("turnaround", "cluster-min"))
    assert soonest.wait_s < 1 and soonest.response_s == pytest.approx(200, abs=2)
    assert turnaround.wait_s == pytest.approx(30, abs=2) and turnaround.response_s == pytest.approx(80, abs=2)


def test_a_quota_keeps_a_gang_waiting_while_others_hold_it() -> None:
    whole, half = (ran(TWO_GANGS.replace("QUOTA", quota).replace("DEFAULT", "cluster-min")) for quota in ("1.0", "0.5"))
    assert whole.wait_s < 1 and half.wait_s == pytest.approx(10, abs=2), "the second waits for the first, of 20 s"


def test_a_plug_in_places_the_gangs_of_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lab(request, rooms, transfer_time, history):  # type: ignore[no-untyped-def]
        asked.append(rooms.names())
        return worst_fit(request, rooms, transfer_time)

    installed = {**POLICIES, "lab": checked("lab", lab)}
    monkeypatch.setattr(gang_plug_ins, "policies", lambda: installed)
    monkeypatch.setattr("diana.sim.sites.driver.policies", lambda: installed)
    assert ran(TWO_GANGS.replace("QUOTA", "1.0").replace("DEFAULT", "lab")).done == 2
    assert asked and asked[0] == ["b"]
