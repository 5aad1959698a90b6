"""`GridExecutor` when things go wrong: nodes killed, outcomes nobody knows, others' orders, many groups."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import CancelledError, wait
from pathlib import Path

import pytest

from diana.client import GridExecutor
from diana.client.calls.driving import PLACES
from diana.errors import JobFailed, Unreachable
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, until

pytestmark = pytest.mark.e2e
PYTHON = sys.executable


def until_there(path: str, value: object) -> object:
    """Runs in jobs, says so beside the path, and waits for that."""
    open(f"{path}.{value}", "w").close()
    end_s = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < end_s
        time.sleep(0.02)
    return value


@pytest.fixture(autouse=True)
def whole_functions_and_no_files_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    import cloudpickle

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert not list((tmp_path / "tmp").glob("diana-calls-*"))


def test_a_node_that_is_killed_and_comes_back_costs_no_result_and_doubles_no_call(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    ran = str(tmp_path / "ran")

    def marks(index: int) -> int:
        with open(ran, "a") as file:
            file.write(f"{index}\n")
        time.sleep(0.1)
        return index

    with GridExecutor(alpha.data, python=PYTHON) as executor:
        results = executor.map(marks, range(40))
        got = [next(results)]
        alpha.kill()
        late = executor.submit(marks, 40)
        time.sleep(0.5)
        alpha.start()
        assert [*got, *results] == list(range(40)) and late.result(30) == 40
    assert Counter(map(int, Path(ran).read_text().split())) == Counter(range(41))


def test_a_node_that_stays_away_ends_the_futures_with_where_the_calls_are(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    go = str(tmp_path / "go")
    with GridExecutor(alpha.data, python=PYTHON, patience_s=1.0) as executor:
        future = executor.submit(until_there, go, 1)
        until(lambda: future.job, "it is sent", 10)
        alpha.kill()
        with pytest.raises(Unreachable, match=rf"its calls go on there as group {future.job.partition('.')[0]}"):
            future.result(30)
        with pytest.raises(Unreachable):
            executor.submit(until_there, go, 2).result(30)
    Path(go).touch()
    alpha.start()


def test_a_remote_user_calls_under_her_own_name(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    init_user(alpha.data, "ann", tmp_path / "ann")
    with GridExecutor(credential=tmp_path / "ann", python=PYTHON) as executor:
        assert sum(executor.map(lambda x: 2 * x, range(100), chunksize=20)) == 9900
        with pytest.raises(ZeroDivisionError):
            executor.submit(lambda: 1 / 0).result(30)
    with alpha.client() as client:
        assert {status.owner.partition("@")[0] for status in client.status()} == {"ann"}


def test_more_groups_than_streams_are_followed_by_turns(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", PLACES + 10)
    grid.start()
    go = str(tmp_path / "go")
    with GridExecutor(alpha.data, python=PYTHON) as executor:
        long = [executor.map(until_there, [go], [index]) for index in range(PLACES + 5)]
        with alpha.client() as client:
            until(lambda: len([s for s in client.status() if s.running]) == PLACES + 5, "all run", 60)
        assert executor.submit(pow, 2, 5).result(30) == 32, "although all places are taken by groups that say nothing"
        Path(go).touch()
        assert [list(results) for results in long] == [[index] for index in range(PLACES + 5)]


def test_what_nobody_knows_what_waits_for_a_failure_and_what_others_cancel(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 4)
    grid.start()
    go = str(tmp_path / "go")
    with GridExecutor(alpha.data, python=PYTHON) as executor, alpha.client() as client:
        fails = client.submit({"group": {"command": ["sh", "-c", "sleep 1; exit 1"]}}).group
        with GridExecutor(alpha.data, python=PYTHON, options={"after": fails}) as behind:
            with pytest.raises(JobFailed, match=f"pow as .*{fails}") as caught:
                behind.submit(pow, 2, 3).result(30)
            assert caught.value.outcome == "held"

        theirs = executor.submit(until_there, go, 1)
        until(Path(f"{go}.1").exists, "it runs", 20)
        assert client.cancel(theirs.job.partition(".")[0]) == 1
        with pytest.raises(CancelledError):
            theirs.result(30)
        assert not wait([theirs], timeout=0).not_done

        lost = executor.submit(until_there, go, 2)
        until(Path(f"{go}.2").exists, "it runs", 20)
        alpha.kill_spawner()
        Path(go).touch()
        with pytest.raises(JobFailed, match="diana retry --held") as caught:
            lost.result(60)
        assert caught.value.outcome == "unknown" and caught.value.job == lost.job


ENDS = """
import sys
from diana.client import GridExecutor

def marks(path):
    with open(path, "a") as file:
        file.write("ran ")

executor = GridExecutor(sys.argv[1], python=sys.executable)
for _ in range(3):
    executor.submit(marks, sys.argv[2])
"""


def test_a_program_that_ends_without_a_shutdown_has_its_calls_carried_out(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    ran = tmp_path / "ran"
    program = [sys.executable, "-c", ENDS, str(alpha.data), str(ran)]
    ended = subprocess.run(program, env=alpha.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr, ran.read_text()) == (0, "", "ran ran ran ")
