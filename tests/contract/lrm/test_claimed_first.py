"""A spawner acts upon an order once its claim is durable: a job begins, or stands at the barrier, no earlier."""

from __future__ import annotations

import select
from contextlib import closing
from pathlib import Path

import pytest

from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog
from diana.adapters.lrm.spawner.identity import boot_s, machine
from diana.adapters.lrm.spawner.jobs import JobState
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.place import Place
from diana.adapters.lrm.spawner.runner import JobRunner
from diana.adapters.lrm.spawner.table import ClaimTable
from diana.model.layout import DataDir
from tests.contract.lrm.test_lrm_warm import order


@pytest.mark.parametrize(("holds_s", "then"), [(600.0, JobState.HELD), (0.0, JobState.ENDED)])
def test_nothing_comes_of_an_order_before_its_claim_is_durable(tmp_path: Path, holds_s: float, then: JobState) -> None:
    data = DataDir(tmp_path)
    for folder in (data.spawner, data.logs_root):
        folder.mkdir(parents=True)
    others, epoll, table = OtherAccounts(), select.epoll(), ClaimTable(1, 0, machine())
    launcher = Launcher(data, others)
    runner = JobRunner(data, table, launcher, epoll, 1, others, Place(data.spawner))
    with closing(ClaimLog(data.spawner / "claims", table.records())) as log, closing(epoll):
        table.use(log)
        # A command that cannot be started ends at once, where it is not held.
        words = ["true"] if holds_s else ["/no/such/program"]
        asked = order(argv=words, own_directory=False, environment=[], barrier_s=holds_s and boot_s() + holds_s)
        table.claim(asked, launcher.base(asked))
        (job,) = table.queue
        runner.fill()
        assert job.state is JobState.QUEUED and not runner.newly_held
        table.make_durable()
        runner.fill()
        assert job.state is then and runner.newly_held == ([job] if holds_s else [])
