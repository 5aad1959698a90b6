"""Invitations with real nodes (SPEC D7): an idle site invites a flooded one, whose work then comes, each job once, and
`explain` says who invited whom."""

from __future__ import annotations

from collections import Counter

import pytest

from diana.engine.journal import records as r
from tests.e2e.grid import Grid, Starts, until
from tests.e2e.test_hold_retry import diana
from tests.real.grid.test_migration import all_done_once
from tests.real.grid.test_move import alive
from tests.real.judging import History, keep_all

pytestmark = pytest.mark.e2e

JOBS = 160
RUN_S = 1.0


def test_an_idle_site_invites_a_flooded_one_and_gets_its_work_once(grid: Grid, starts: Starts) -> None:
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 2)
    gamma, delta = grid.add("gamma", 4), grid.add("delta", 4)
    grid.join()
    keep_all(alpha.paths.journal)
    grid.settings(invite_work_s=0.2, migration_threshold=1.0)
    for site in (alpha, beta):
        site.start()
    with alpha.client() as client:
        until(lambda: "beta" in alive(alpha), "beta is linked", 20)
        job = starts.job(JOBS, then=("sleep", str(RUN_S)), not_sites=["alpha"], bind="early")
        job["resources"] = {"work": RUN_S}
        group = client.submit(job).group
        until(lambda: starts.count() >= 4, "some jobs run", 30)
        gamma.start()
        until(lambda: " to gamma: " in diana(alpha, "explain", group), "work moves to gamma", 30, every_s=0.5)
        delta.start()
    where = all_done_once(grid, starts, alpha, group)
    said = diana(alpha, "explain", group)
    print(said)
    assert where["gamma"] >= JOBS // 8 and where["beta"] >= JOBS // 10, where
    assert " invited it: site " in said, said
    for site in grid.sites.values():
        site.terminate()
    moved = [
        line.record for line in History(alpha.paths.journal, "alpha").lines if isinstance(line.record, r.JobsMoved)
    ]
    times = Counter(index for one in moved if one.exported for index in one.indices)
    assert times and max(times.values()) == 1, times
