"""The central broker of the EGEE kind: worked by hand what it knows, what it costs, and what it does not count."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.sim.central import central
from diana.sim.central.jobs import jobs_of
from diana.sim.report.outcome import JobTimes
from diana.sim.scenario.scenario import parse
from diana.sim.specs.compare_spec import BrokerSpec
from diana.sim.specs.scenario_spec import Scenario
from tests.sim.central.test_central import DATA, rows, scenario

FREE = BrokerSpec(job_s=0.0, refresh_s=10.0)


def sent(case: Scenario, broker: BrokerSpec, seed: int = 1) -> JobTimes:
    return central.scheduled(jobs_of(case, seed), "egee", case.limit_s, broker)[0]


def test_jobs_pass_one_by_one_through_the_broker_and_each_costs_it() -> None:
    works = ('site = "a"; jobs = 3; work_s = 10.0', 'site = "b"; jobs = 1; work_s = 10.0')
    found = sent(scenario("a:4", *works, more='[[sites]]\nname = "b"\nslots = 0'), BrokerSpec(job_s=2.0))
    assert rows(found) == [("a", 2.0, 12.0), ("a", 4.0, 14.0), ("a", 6.0, 16.0), ("a", 8.0, 18.0)]


def test_what_it_sent_itself_it_hears_of_at_the_next_publication() -> None:
    """Four jobs come at 1, when a has work until 10: the longer ago the sites published, the less of that is seen."""
    works = ('site = "a"; jobs = 2; work_s = 5.0; sites = ["a"]', 'site = "a"; jobs = 4; work_s = 11.0; submit_s = 1.0',
             'site = "b"; jobs = 1; work_s = 1.0; submit_s = 11.0')  # fmt: skip
    case = scenario("a:1 b:2", *works)
    # Published at 0, before anything was sent: both sites look alike, and the broker draws.
    drawn = [sent(case, FREE).sites[place] for place in sent(case, FREE).site.tolist()]
    assert set(drawn[2:6]) == {"a", "b"}
    # Published at 1: all four see b idle and go there, though it has but two processors; the last comes when b is full.
    found = sent(case, BrokerSpec(job_s=0.0, refresh_s=1.0))
    assert [found.sites[place] for place in found.site.tolist()] == ["a", "a", "b", "b", "b", "b", "a"]
    assert found.start_s.tolist() == [0.0, 5.0, 1.0, 1.0, 12.0, 12.0, 11.0]


def test_speed_does_not_count_and_ties_are_drawn_evenly() -> None:
    work = 'site = "a"; jobs = 400; work_s = 1.0; sites = ["a", "b"]'
    found = sent(scenario("a:500 b:500x3.0", work), FREE)
    assert 160 <= (found.site == 0).sum() <= 240
    assert sent(scenario("a:500 b:500x3.0", work), FREE).site.tolist() == found.site.tolist()


def test_a_wide_job_is_matched_by_when_enough_processors_get_free() -> None:
    works = ('site = "a"; jobs = 1; work_s = 20.0; sites = ["a"]', 'site = "b"; jobs = 2; work_s = 8.0; sites = ["b"]',
             'site = "a"; jobs = 1; work_s = 1.0; processors = 2; submit_s = 2.0')  # fmt: skip
    # At 2 a has one processor idle and two from 20 on, b none and two from 8 on.
    found = sent(scenario("a:2 b:2", *works), BrokerSpec(job_s=0.0, refresh_s=1.0))
    assert rows(found)[-1] == ("b", 8.0, 9.0)


def test_data_are_fetched_when_the_turn_has_come_and_the_processor_waits_for_them() -> None:
    works = ('site = "a"; jobs = 1; work_s = 5.0; sites = ["a"]',
             'site = "a"; jobs = 1; work_s = 5.0; inputs = ["d"]; sites = ["a"]',
             'site = "a"; jobs = 1; work_s = 5.0; sites = ["a"]')  # fmt: skip
    found = sent(scenario("a:1 b:1", *works, more=DATA), FREE)
    # A round trip of 1 s and 9 s of bytes from 5 on.
    assert rows(found) == [("a", 0.0, 5.0), ("a", 15.0, 20.0), ("a", 20.0, 25.0)]
    assert found.bytes_moved == 9e6


GOOD = """version = 1
sites = [{ name = "a", slots = 2 }]
workload = [{ name = "w", site = "a", jobs = 2 }]
policies = [{ name = "diana" }, { name = "p", CENTRAL }]
"""


@pytest.mark.parametrize(
    ("central_of", "says"),
    [
        ('central = "min-min", broker = { job_s = 1.0 }', "policies p: broker: only central = 'egee' has one"),
        ('central = "egee", broker = { refresh_s = 0.0 }', "policies p: broker: job_s = 0.25, refresh_s = 0: want"),
        ('central = "egee", settings = { split = false }', "policies p: central = 'egee' has no settings"),
    ],
)
def test_a_wrong_broker_is_refused_in_one_line(central_of: str, says: str) -> None:
    assert parse(GOOD.replace("CENTRAL", 'central = "egee", broker = { job_s = 1 }')).policies[1].broker.job_s == 1.0
    with pytest.raises(UsageError, match=says):
        parse(GOOD.replace("CENTRAL", central_of))
