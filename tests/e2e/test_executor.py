"""`GridExecutor` over two real sites: what users of concurrent.futures expect of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import CancelledError, as_completed
from pathlib import Path

import pytest

from diana.client import GridExecutor
from diana.errors import DianaError, JobFailed, UsageError
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def two_sites(grid: Grid) -> Site:
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    return alpha


def test_calls_run_over_two_sites_and_come_back_each_in_its_way(grid: Grid, tmp_path: Path) -> None:
    """SPEC U4: submit, map and as_completed of `GridExecutor`, the jobs at two real sites."""
    alpha = two_sites(grid)

    def at_both(x: int, y: int) -> int:
        """Else the quicker site would take all."""
        (tmp_path / os.environ["DIANA_SITE"]).touch()
        until_s = time.monotonic() + 120
        while {path.name for path in tmp_path.iterdir()} != {"alpha", "beta"}:
            if time.monotonic() > until_s:
                raise TimeoutError(f"no call at the other site than {os.environ['DIANA_SITE']}")
            time.sleep(0.02)
        return x * y

    with (
        GridExecutor(alpha.data, python=sys.executable, options={"group.division": 2}) as executor,
        alpha.client() as client,
    ):
        assert list(executor.map(at_both, range(1000), range(1000), chunksize=50)) == [k * k for k in range(1000)]
        (group,) = client.status()
        assert (group.jobs, group.done) == (20, 20) and {share.site for share in group.shares} == {"alpha", "beta"}

        def fails(x: int) -> int:
            if x == 3:
                raise LookupError("three", x)
            return -x

        futures = {executor.submit(fails, x): x for x in range(5)}
        for future in as_completed(futures, timeout=60):
            x = futures[future]
            if x == 3:
                error = future.exception()
                assert isinstance(error, LookupError) and error.args == ("three", 3)
                assert "in fails" in str(error.__cause__)
            else:
                assert future.result() == -x
        assert len({future.job.partition(".")[0] for future in futures}) == 1, "one group"
        with pytest.raises(LookupError):
            list(executor.map(fails, range(10), chunksize=2))

        with pytest.raises(UsageError, match="argument of fails cannot be pickled"):
            executor.submit(fails, threading.Lock())  # type: ignore[arg-type]
        with pytest.raises(DianaError, match="returned a lock that cannot be pickled"):
            executor.submit(threading.Lock).result(60)

        def dies() -> None:
            print("the last words", flush=True)
            os._exit(3)

        with pytest.raises(JobFailed, match=r"dies as .* exit code 3: the last words") as caught:
            executor.submit(dies).result(60)
        assert (caught.value.outcome, caught.value.job_exit_code, caught.value.log) == (
            "failed",
            3,
            "the last words\n",
        )
        with pytest.raises(JobFailed, match=r"its process ended with exit code 0 before the call returned"):
            executor.submit(os._exit, 0).result(60)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(fails, 1)


def test_a_call_that_has_not_started_can_be_cancelled_and_one_that_has_runs_on(grid: Grid, tmp_path: Path) -> None:
    alpha = two_sites(grid)

    def marks(index: int) -> int:
        (tmp_path / str(index)).touch()
        until_s = time.monotonic() + 120
        while not (tmp_path / "go").exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        return index

    def started() -> set[int]:
        return {int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()}

    # Work that is known to be long is not given ahead of a free slot.
    options = {"work": "10m", "group.division": 2}
    executor = GridExecutor(alpha.data, python=sys.executable, options=options)
    futures = [executor.submit(marks, index) for index in range(10)]
    until(lambda: len(started()) == 4, "four start")
    before = started()
    waiting = [future for index, future in enumerate(futures) if index not in before]
    assert [futures[index].cancel() for index in before] == [False] * 4
    assert waiting[0].cancel() and waiting[-1].cancel()
    with pytest.raises(CancelledError):
        waiting[0].result(0)
    assert next(as_completed([waiting[-1], *(futures[index] for index in before)], timeout=60)) is waiting[-1]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting) and not any(futures[index].done() for index in before)
    (tmp_path / "go").touch()
    executor.shutdown()
    assert {futures[index].result(0) for index in before} == before == started()
