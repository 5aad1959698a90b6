"""Groups that wait for groups under every fault: none starts early, none is lost, doubled or stuck (SPEC J4)."""

from __future__ import annotations

import pytest

from diana.engine.journal import codec
from diana.engine.journal import records as r
from diana.errors import UsageError
from diana.model.ids import GroupId, SiteId
from diana.sim.checks.order import OrderCheck
from diana.sim.experiments.failure import failure
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World

STAGES = """version = 1
settings = {offer_wait_s = 4.0, resend_most_s = 2.0}
fsync_s = 0.002
report = ["faults"]
sites = [{name = "a", slots = 1}, {name = "b", slots = 2}, {name = "c", slots = 2}]
[[workload]]
name = "make"
site = "a"
jobs = 6
work_s = 0.5
submit_s = 2.0
output_bytes = 1000
produces = "made"
[[workload]]
name = "use"
site = "a"
jobs = 6
work_s = 0.5
inputs = ["made"]
file_per_job = true
output_bytes = 100
merge = true
produces = "used"
[[workload]]
name = "last"
site = "a"
jobs = 2
inputs = ["made", "used"]
after = ["use"]
"""
FAULTS = """[faults]
draw = true
until_s = 40.0
heal_s = 400.0
loss = 0.2
duplicate = 0.2
delay = 0.2
crash = 0.004
cut_every_s = 15.0
cut_s = 5.0
spawner_crash_every_s = 25.0
machine_crash_every_s = 40.0
stage_error = 0.1
"""


def states(report: Report) -> dict[str, str]:
    return {name: group.state for name, group in report.groups.items()}


def test_stages_run_one_after_the_other_and_data_pass_between_them() -> None:
    report = simulate(sc.parse(STAGES), 0)
    assert report.good(), failure(sc.parse(STAGES), report)
    assert states(report) == {"make": "done", "use": "done", "last": "done"}
    assert [g.group for g in report.groups.values()] == ["a-1", "a-2", "a-3"]


@pytest.mark.wide
@pytest.mark.parametrize("site", ["a", "b"])
def test_a_crash_at_every_single_boundary_loses_and_doubles_nothing_of_a_chain(site: str) -> None:
    scenario = sc.parse(STAGES.replace("jobs = 6", "jobs = 3"))
    calm = World(scenario, 0, Boot(), crash_at=(site, 0))
    assert run(calm).good()
    boundaries = calm.faults.passed[site]
    assert boundaries > 50
    for boundary in range(1, boundaries + 1):
        report = run(World(scenario, 0, Boot(), crash_at=(site, boundary)))
        assert report.good(), f"crash of {site} at boundary {boundary}: {failure(scenario, report)}"
        assert set(states(report).values()) == {"done"}, boundary


@pytest.mark.wide
@pytest.mark.parametrize("first", [0, 20])
def test_a_chain_comes_to_a_visible_end_under_all_faults(first: int) -> None:
    scenario = sc.parse(STAGES + FAULTS)
    for seed in range(first, first + 20):
        report = simulate(scenario, seed)
        assert report.good(), failure(scenario, report)
        for group in report.groups.values():
            assert group.jobs == group.done + group.failed + group.cancelled + group.held


def test_what_lies_behind_a_failed_group_is_held_and_goes_on_after_a_retry() -> None:
    failing = STAGES.replace("output_bytes = 1000", "output_bytes = 1000\nfail_fraction = 0.5")
    report = simulate(sc.parse(failing), 3)
    assert report.good(), failure(sc.parse(failing), report)
    assert states(report) == {"make": "failed", "use": "held", "last": "held"}
    retries = failing.replace("jobs = 6\nwork_s = 0.5\nsubmit_s", "jobs = 1\nretry_s = 60.0\nwork_s = 0.5\nsubmit_s")
    retries = retries.replace("jobs = 6", "jobs = 1")
    ended = {tuple(states(simulate(sc.parse(retries), seed)).values()) for seed in range(8)}
    assert ("done", "done", "done") in ended


def test_the_check_sees_a_group_placed_too_early_and_one_done_before_its_dataset_stands() -> None:
    order = OrderCheck()
    world = World(sc.parse(STAGES), 0, Boot())
    run(world)
    seen = 0
    for stored in world.sites[SiteId("a")].store.load().records:
        record = codec.decode(stored)
        if isinstance(record, r.GroupSubmitted):
            assert order.look(record) is None
            seen += 1
        if isinstance(record, r.GroupPlaced) and record.group == "a-2":
            assert order.look(record) == ("a-2", "placed before a-1 is done")
            seen += 1
    assert seen == 4
    closed = r.GroupClosed(group=GroupId("a-1"), state="done", at_s=1.0)
    assert order.look(closed) == ("a-1", "done before dataset made is registered")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ('after = ["z"]', "workload w: after: no entry 'z' in the workload; name one of it"),
        ('after = ["w"]', "workload: entries wait for each other in a circle: w -> w"),
        ('produces = "x"', "workload w: produces wants outputs; set output_bytes to 1 or more"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(entry: str, line: str) -> None:
    text = (
        f'version = 1\nsites = [{{name = "a", slots = 1}}]\n[[workload]]\nname = "w"\nsite = "a"\njobs = 1\n{entry}\n'
    )
    with pytest.raises(UsageError, match=line):
        sc.parse(text)
