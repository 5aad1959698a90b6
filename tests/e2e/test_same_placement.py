"""One engine, two drivers: what real nodes decide, the simulator decides from the same inputs.

The inputs are those the nodes themselves used: `explain` carries the links as they were measured. So nothing here
hangs on how fast this machine happens to be.
"""

from __future__ import annotations

import pytest

from diana.client import Client
from diana.sim.report.report import Report
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.runner import simulate
from diana.wire.client.decisions import Decision, SiteCost
from tests.e2e.grid import Grid, outcomes, until

pytestmark = pytest.mark.e2e

SLOTS = {"alpha": 2, "beta": 4, "gamma": 3}
HOLDERS = {"left": "beta", "right": "gamma"}
JOBS = 24
FILE_BYTES = 1 << 20
WORK_S = 0.2
UNSAID_S = 0.01
"""The round trip between the holder and the third site counts in its stage-in; no decision shows it, so it is asked
later, when it may have been measured anew."""
TERMS = ("wait_s", "stage_in_s", "run_s", "stage_out_s", "network_s", "total_s", "rtt_s", "bytes_per_s")


def measured(client: Client) -> bool:
    return all(site.home or (site.rtt_s > 0 and site.bytes_per_s > 0) for site in client.sites())


def with_datasets(grid: Grid) -> None:
    for name, slots in SLOTS.items():
        grid.add(name, slots)
    grid.join()
    for dataset in HOLDERS:
        (grid.root / dataset).mkdir()
        for k in range(JOBS):
            with (grid.root / dataset / f"f{k}").open("wb") as file:
                file.truncate(FILE_BYTES)
    grid.start()
    for dataset, holder in HOLDERS.items():
        with grid.sites[holder].client() as client:
            client.add_dataset(dataset, [grid.root / dataset])
    for site in grid.sites.values():
        with site.client() as client:
            until(lambda client=client: measured(client), f"{site.name} has measured its links")  # type: ignore[misc]


def really(client: Client, dataset: str) -> tuple[Decision, dict[str, int]]:
    """The decision of a grid of nodes, and how many jobs then ran at each site."""
    job = {
        # A program of its own: the simulator knows no earlier group that did well, and the guard goes by that.
        "group": {"command": ["sh", "-c", f": {dataset}; wc -c < input"]},
        "sweep": {"n": f"0-{JOBS - 1}"},
        "inputs": [{"url": f"dataset:{dataset}/f{{n}}", "path": "input"}],
        "resources": {"work": WORK_S},
    }
    group = client.submit(job).group
    assert client.wait(group, timeout_s=60).state == "done"
    assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
    ran: dict[str, int] = {}
    for result in client.results(group):
        ran[result.site] = ran.get(result.site, 0) + 1
    (decision,) = client.explain(group).decisions
    return decision, ran


def rtt_s(grid: Grid, site: str, holder: str) -> float:
    with grid.sites[site].client() as client:
        (link,) = (x for x in client.links().links if {x.source, x.target} == {site, holder} and not x.told)
    return link.rtt_s


def simulated(dataset: str, by: Decision, third_rtt_s: float) -> Report:
    """The same sites, data and work, over the links that this decision was made by."""
    holder = HOLDERS[dataset]
    rows = {row.site: row for row in by.candidates}
    third = third_of(dataset)
    links = (
        LinkSpec(("alpha", holder), rows[holder].rtt_s / 2, rows["alpha"].bytes_per_s),
        LinkSpec((third, holder), third_rtt_s / 2, rows[third].bytes_per_s),
        LinkSpec(("alpha", third), rows[third].rtt_s / 2, 1e6),
    )
    work = WorkSpec(dataset, "alpha", JOBS, work_s=WORK_S, inputs=(dataset,), file_per_job=True, submit_s=5.0)
    scenario = Scenario(
        version=1,
        sites=tuple(SiteSpec(name, slots) for name, slots in SLOTS.items()),
        links=links,
        datasets=(DatasetSpec(dataset, holder, JOBS, FILE_BYTES),),
        workload=(work,),
    )
    return simulate(scenario, seed=1)


def third_of(dataset: str) -> str:
    """Neither the origin nor the holder."""
    (third,) = set(SLOTS) - {"alpha", HOLDERS[dataset]}
    return third


def terms(row: SiteCost) -> list[float]:
    return [getattr(row, name) for name in TERMS]


def test_the_simulator_places_a_group_as_the_nodes_did(grid: Grid) -> None:
    with_datasets(grid)
    with grid.sites["alpha"].client() as client:
        real = {dataset: really(client, dataset) for dataset in HOLDERS}
    for dataset, (decision, ran) in real.items():
        third = third_of(dataset)
        report = simulated(dataset, decision, rtt_s(grid, third, HOLDERS[dataset]))
        assert report.good(), report.violations
        (twin,) = report.decisions[dataset]
        assert twin.plan == decision.plan, (twin.reason, decision.reason)
        assert twin.split_s == pytest.approx(decision.split_s, abs=UNSAID_S)
        assert twin.whole_s == pytest.approx(decision.whole_s, abs=UNSAID_S)
        assert [(p.site, p.jobs, p.bytes_in) for p in twin.parts] == [
            (p.site, p.jobs, p.bytes_in) for p in decision.parts
        ]
        assert [row.site for row in twin.candidates] == [row.site for row in decision.candidates]
        for ours, theirs in zip(decision.candidates, twin.candidates, strict=True):
            assert terms(ours) == pytest.approx([getattr(theirs, name) for name in TERMS], abs=UNSAID_S), ours.site
            assert (ours.slots, ours.bytes_in, ours.work_ahead_s) == (
                theirs.slots,
                theirs.bytes_in,
                theirs.work_ahead_s,
            )
        assert report.groups[dataset].sites == ran
        assert len(ran) > 1, "the group was worth splitting"
