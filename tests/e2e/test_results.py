"""`diana results` and the clients' results by outcome, against real nodes."""

from __future__ import annotations

import asyncio
import json

import pytest

from diana.client import AsyncClient
from diana.errors import UsageError
from tests.e2e.grid import Grid, until

pytestmark = pytest.mark.e2e

JOBS = 60
FAILED = [7, 21, 22, 59]


def test_how_jobs_ended_is_asked_by_outcome_and_from_any_job_on(grid: Grid) -> None:
    alpha, _ = grid.add("alpha", 4), grid.add("beta", 4)
    grid.join()
    grid.start()
    script = f"case $DIANA_INDEX in {'|'.join(map(str, FAILED))}) echo no >&2; exit 3;; esac"
    job = {"group": {"command": ["sh", "-c", script]}, "sweep": {"array": f"0-{JOBS - 1}"}, "resources": {"work": 5}}
    with alpha.client() as client:
        group = client.submit(job).group
        assert client.wait(group, timeout_s=60).failed == len(FAILED)
        rows = list(client.results(group, outcome="failed"))
        assert [(row.index, row.outcome, row.exit_code) for row in rows] == [(k, "failed", 3) for k in FAILED]
        assert {row.index: row for row in client.results(group, outcome="ended")} == {
            row.index: row for row in client.results(group)
        }
        assert [row.index for row in client.results(group, outcome="done", first=20, most=3)] == [20, 23, 24]
        assert len({row.site for row in client.results(group, outcome="ended")}) == 2

        # Those that were tried again count as they ended last; those that are cancelled before they ran are told too.
        client.retry(f"{group}.7")
        assert client.wait(group, timeout_s=60).failed == len(FAILED)
        (again,) = client.results(group, outcome="failed", most=1)
        assert (again.index, again.attempt) == (7, rows[0].attempt) or again.attempt > rows[0].attempt
        never = client.submit({"group": {"command": ["true"]}, "sweep": {"array": "0-4"}}).group
        client.hold(never)
        client.cancel(never)
        client.wait(never, timeout_s=60)
        ended = list(client.results(never, outcome="ended"))
        assert [row.index for row in ended] == list(range(5))
        assert {row.outcome for row in ended if not row.site} <= {"cancelled"}
        with pytest.raises(UsageError, match="outcome 'lost': want done, failed, cancelled, held, or ended"):
            list(client.results(group, outcome="lost"))
        with pytest.raises(UsageError, match="are not followed"):
            list(client.results(group, outcome="failed", follow=True))

    async def by_the_other_client() -> list[int]:
        async with AsyncClient(alpha.data) as node:
            return [row.index async for row in node.results(group, outcome="failed")]

    assert asyncio.run(by_the_other_client()) == FAILED

    def said(*words: str) -> str:
        done = grid.run(alpha, "results", group, "--data", str(alpha.data), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = said("--outcome", "failed").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[f"{group}.{k}", "failed", "3"] for k in FAILED]
    assert said("--limit", "2").splitlines()[-1] == (
        f"and more; diana results {group} --limit 2 --from 2 --data {alpha.data} goes on"
    )
    assert said("--outcome", "held") == f"{group}: no job has ended with an outcome nobody knows so far\n"
    told = [json.loads(line) for line in said("--outcome", "failed", "--json").splitlines()]
    assert [row["index"] for row in told] == FAILED


def test_a_job_that_was_given_to_a_machine_and_cancelled_before_it_began_has_its_site_and_no_times(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    with alpha.client() as client:
        job = {"group": {"command": ["sleep", "600"]}, "sweep": {"x": "0-2"}, "resources": {"work": 1}}
        group = client.submit(job).group
        until(lambda: client.status([group])[0].running == 1, "one runs")
        client.cancel(group)
        assert client.wait(group, timeout_s=60).cancelled == 3
        rows = list(client.results(group, outcome="cancelled"))
        assert [(row.site, row.attempt, row.began) for row in rows] == [("alpha", 1, k == 0) for k in range(3)]
    lines = grid.run(alpha, "results", group, "--data", str(alpha.data)).stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["SIGTERM", "-", "-"]
