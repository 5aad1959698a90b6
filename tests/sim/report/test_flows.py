"""The report `migration`: what came, started, left and came from elsewhere, per site and time (SPEC D7)."""

from __future__ import annotations

import io
import json
from pathlib import Path

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.sim.kernel.clock import Clock
from diana.sim.main import run
from diana.sim.report.flows import FINEST_S, MOST_BUCKETS, Flows, quantile
from diana.sim.scenario.scenario import parse
from diana.sim.twins.lrm import Watcher
from diana.sim.world.runner import simulate

ALPHA, BETA = SiteId("alpha"), SiteId("beta")
GROUP, PART = GroupId("alpha-1"), SubgroupId("alpha-1/2")
SMALL = """
version = 1
report = ["migration"]
settings = { binding = "early" }
sites = [{ name = "alpha", slots = 1 }, { name = "beta", slots = 4 }]
users = [{ name = "alice@vo" }, { name = "bob@vo" }]
[[workload]]
name = "own"
site = "beta"
user = "bob@vo"
sites = ["beta"]
jobs = 1
processors = 4
work_s = 2000.0
true_work_s = 60.0
[[workload]]
name = "mass"
site = "alpha"
jobs = 12
work_s = 30.0
submit_s = 10.0
[expect]
done = 13
"""


def watched() -> tuple[Clock, Flows]:
    clock = Clock()
    return clock, Flows(clock, (ALPHA, BETA), Watcher())


def moved(indices: IndexSet, gain_s: float) -> r.JobsMoved:
    return r.JobsMoved(group=GROUP, indices=indices, to=BETA, why="", exported=True, room=1, gain_s=gain_s)


def test_a_small_run_tells_where_its_jobs_went() -> None:
    report = simulate(parse(SMALL), 0)
    assert report.good(), report.violations
    found = report.migration
    assert found is not None
    alpha, beta = found.sites["alpha"], found.sites["beta"]
    assert sum(alpha.submitted) == sum(alpha.arrived) == 12 and sum(beta.submitted) == 1
    assert sum(alpha.exported) == sum(beta.imported) == found.exported_jobs > 0
    assert sum(alpha.started) == 12 - found.exported_jobs and sum(beta.started) == 1 + found.exported_jobs
    assert max(alpha.waiting) >= 8 and alpha.waiting[-1] == beta.waiting[-1] == 0
    assert found.started_in_time == found.exported_jobs and found.most_exports == 1 and found.worst_start <= 1
    assert found.turnaround["all"].jobs == 13 and found.turnaround["alice@vo"].jobs == 12
    group = report.groups["mass"]
    assert group.turnaround_mean_s <= group.turnaround_p95_s <= group.makespan_s
    assert abs(found.turnaround["alice@vo"].mean_s - group.turnaround_mean_s) < 0.1


def test_people_get_a_table_and_programs_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    out = io.StringIO()
    assert run(path, out=out, workers=1) == 0
    text = out.getvalue()
    assert text.startswith("migration: ") and "\n    exported " in text and "\n  alice@vo " in text
    out = io.StringIO()
    assert run(path, as_json=True, out=out, workers=1) == 0
    printed = json.loads(out.getvalue())["migration"]
    columns = printed["sites"]["alpha"].values()
    assert {len(column) for column in columns} == {len(printed["sites"]["beta"]["waiting"])}


def test_a_start_is_held_against_the_gain_that_justified_the_move() -> None:
    clock, flows = watched()
    flows.committed(ALPHA, moved(IndexSet.span(0, 3), gain_s=20.0))
    flows.committed(BETA, taken(PART, IndexSet.span(0, 3)))
    for index, at_s, site in ((0, 19.0, BETA), (1, 21.0, BETA), (2, 22.0, ALPHA)):
        clock.run_until(at_s)
        flows.executed(site, Run(PART, 2, index, 1), "hold")
    found = flows.report()
    assert (found.started_in_time, found.started_late, found.started_elsewhere) == (1, 1, 1)
    assert found.worst_start == 21.0 / 20.0


def taken(subgroup: SubgroupId, indices: IndexSet) -> r.CustodyTaken:
    return r.CustodyTaken(
        subgroup=subgroup,
        epoch=2,
        origin=ALPHA,
        owner="alice@vo",
        spec=b"",
        indices=indices,
        submitted_s=0.0,
        files=(),
        sources=(),
        readers=(),
        max_parallel=0,
        exported=True,
    )


def test_two_exports_of_a_job_are_counted() -> None:
    _, flows = watched()
    flows.committed(ALPHA, moved(IndexSet.span(0, 3), gain_s=20.0))
    flows.committed(ALPHA, moved(IndexSet.span(2, 4), gain_s=20.0))
    assert flows.report().most_exports == 2


def test_a_long_run_has_wider_buckets_and_loses_nothing() -> None:
    clock, flows = watched()
    flows.committed(BETA, taken(PART, IndexSet.span(0, 3)))
    for at_s in (5.0, FINEST_S * MOST_BUCKETS * 2.5):
        clock.run_until(at_s)
        flows.executed(BETA, Run(PART, 2, int(at_s > 5), 1), "hold")
    flows.ended(BETA, "", Run(PART, 2, 0, 1), 1, Outcome.DONE)
    found = flows.report()
    beta = found.sites["beta"]
    assert len(beta.started) <= MOST_BUCKETS + 1 and sum(beta.started) == 2 and sum(beta.imported) == 3
    assert beta.waiting[0] == 2 and beta.waiting[-1] == 1


def test_a_quantile_is_one_of_the_values() -> None:
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 2.0, 3.0, 3.0]
    assert quantile([], 0.5) == 0.0
