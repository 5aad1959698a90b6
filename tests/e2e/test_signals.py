"""A job that a signal ended is told from one whose exit code looks like it, wherever somebody looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from diana.client import GridExecutor
from diana.errors import JobFailed
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

WAYS = [
    "kill -9 $$",
    "exit 137",
    f"exec {sys.executable} -c 'import os; os.kill(os.getpid(), 11)'",
    "sh -c 'kill -9 $$'; exit $?",
    "exit 0",
]


def test_a_job_that_a_signal_ended_is_told_from_one_that_exited_with_137(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()

    def said(*words: str, code: int = 0) -> tuple[str, str]:
        done = grid.run(alpha, *words, "--data", str(alpha.data))
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    script = "case $DIANA_INDEX in " + " ".join(f"{k}) {way};;" for k, way in enumerate(WAYS)) + " esac"
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["sh", "-c", script]}, "sweep": {"array": "0-4"}}).group
        client.wait(group, timeout_s=60)
        rows = sorted(client.results(group), key=lambda row: row.index)
    assert [(row.exit_code, row.signal) for row in rows] == [(137, 9), (137, 0), (139, 11), (137, 0), (0, 0)]
    assert [row.outcome for row in rows[:4]] == [rows[1].outcome] * 4
    lines = said("results", group)[0].splitlines()[1:]
    assert [line.split()[2] for line in lines] == ["SIGKILL", "137", "SIGSEGV", "137", "0"]
    told = [json.loads(line) for line in said("results", group, "--json")[0].splitlines()]
    assert [(row["exitCode"], row["signal"]) for row in told] == [(row.exit_code, row.signal) for row in rows]
    assert f"{group}.0 ended: failed at alpha, attempt 1, by SIGKILL\n" in said("explain", f"{group}.0")[0]
    assert f"{group}.1 ended: failed at alpha, attempt 1, exit code 137\n" in said("explain", f"{group}.1")[0]
    logs = said("logs", "--failed", group)[1]
    assert f"{group}.0: failed at alpha, by SIGKILL\n" in logs
    assert f"{group}.3: failed at alpha, exit code 137\n" in logs


def test_a_job_that_diana_ends_keeps_its_outcome_and_tells_the_signal_it_died_of(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 3)
    grid.start()
    deaf = f"trap '' TERM; : > {tmp_path}/deaf; while :; do sleep 0.1; done"
    with alpha.client() as client:
        slow = client.submit({"group": {"command": ["sleep", "600"]}, "resources": {"time": "1s"}}).group
        stopped = client.submit({"group": {"command": ["sleep", "600"]}}).group
        killed = client.submit({"group": {"command": ["sh", "-c", deaf], "grace": "1s"}}).group
        until(lambda: client.status([stopped])[0].running == 1, "it runs")
        until((tmp_path / "deaf").exists, "it heeds nothing")
        for group in (stopped, killed):
            client.cancel(group)
        ends = {}
        for group in (slow, stopped, killed):
            client.wait(group, timeout_s=60)
            (row,) = client.results(group)
            ends[group] = (row.outcome.lower(), row.exit_code, row.signal)
    assert ends == {slow: ("timed_out", 143, 15), stopped: ("cancelled", 143, 15), killed: ("cancelled", 137, 9)}


def test_a_call_whose_process_a_signal_ended_fails_by_its_name_and_one_that_exits_so_by_its_code(grid: Grid) -> None:
    alpha: Site = grid.add("alpha", 2)
    grid.start()

    def killed() -> None:
        import os

        os.kill(os.getpid(), 9)

    def exits() -> None:
        import os

        os._exit(137)

    with GridExecutor(alpha.data, python=sys.executable) as executor:
        with pytest.raises(JobFailed, match="SIGKILL ended it") as caught:
            executor.submit(killed).result(60)
        assert (caught.value.job_exit_code, caught.value.job_signal) == (137, 9)
        with pytest.raises(JobFailed, match="exit code 137") as caught:
            executor.submit(exits).result(60)
        assert (caught.value.job_exit_code, caught.value.job_signal) == (137, 0)
