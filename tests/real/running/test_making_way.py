"""Jobs that make way for a gang over a real node (SPEC D4, K5): they are ended, the gang runs, they run again and end
once, also where the node is killed at that moment."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, until
from tests.e2e.test_hold_retry import diana
from tests.real.running.test_checkpoints import chain_job, serial, steps_in

pytestmark = pytest.mark.e2e

LONG = """
mkdir {folder}/lives.{n} || echo "{n} doubled" >>{folder}/log
trap 'rmdir {folder}/lives.{n}; exit 9' TERM
echo "{n} begins $DIANA_ATTEMPT" >>{folder}/log
while [ ! -e {folder}/enough ]; do sleep 0.1; done
echo "{n} ends" >>{folder}/log
rmdir {folder}/lives.{n}
"""


def lines(folder: Path, what: str) -> Counter[int]:
    """How often each job wrote such a line."""
    log = folder / "log"
    rows = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
    return Counter(int(row[0]) for row in rows if row[1] == what)


def long_job(folder: Path) -> dict[str, object]:
    script = LONG.replace("{folder}", str(folder))
    return {"group": {"command": ["sh", "-c", script], "preemptible": True}, "sweep": {"n": "0-2"}}


def gang_job(folder: Path) -> dict[str, object]:
    return {
        "group": {"command": ["sh", "-c", f"echo $DIANA_GANG_RANK >>{folder}/gang; sleep 1"]},
        "components": [{"site": "alpha", "count": 2, "cpus": 1}],
    }


def alone(grid: Grid, slots: int) -> Site:
    alpha = grid.add("alpha", slots)
    grid.start()
    return alpha


@pytest.mark.parametrize("killed", [False, True], ids=["quiet", "killed"])
def test_a_gang_gets_processors_of_long_jobs_which_run_again_and_end_once(
    grid: Grid, tmp_path: Path, chance: random.Random, killed: bool
) -> None:
    alpha = alone(grid, 3)
    with alpha.client() as client:
        long = client.submit(long_job(tmp_path)).group
        until(lambda: len(lines(tmp_path, "begins")) == 3, lambda: f"all run\n{grid.story()}", 60)
        gang = client.submit(gang_job(tmp_path)).group
    if killed:
        time.sleep(chance.uniform(0.0, 0.5))
        alpha.kill()
        alpha.start()
    with alpha.client() as client:
        status = client.wait(gang, timeout_s=120)
        assert (status.state, status.done) == ("done", 2), f"{status}\n{grid.story()}"
        assert not lines(tmp_path, "ends"), "the gang did not wait for them"
        told = client.explain(long).ways
        assert told and all(f"made way for gang 0 of {gang}" in line for line in told), told
        assert f"made way for gang 0 of {gang}" in diana(alpha, "explain", long)
        # A claim that a crash made forgotten is made anew, over processors that are free by then.
        assert killed or any("made way" in line for line in client.explain(gang).ways)
        until(lambda: lines(tmp_path, "begins").total() >= 5, lambda: f"they run again\n{grid.story()}", 60)
        (tmp_path / "enough").touch()
        status = client.wait(long, timeout_s=60)
        assert (status.state, status.done, status.failed) == ("done", 3, 0), f"{status}\n{grid.story()}"
        rows = list(client.results(long))
        for row in rows:
            assert bool(client.explain(f"{long}.{row.index}").ways) == (row.attempt > 1), "each job has its own story"
        attempts = sorted(row.attempt for row in rows)
    assert sorted((tmp_path / "gang").read_text().split()) == ["0", "1"]
    assert lines(tmp_path, "ends") == {0: 1, 1: 1, 2: 1} and not lines(tmp_path, "doubled")
    assert attempts[-2:] >= [2, 2] and (killed or attempts == [1, 2, 2])


def test_a_job_with_a_checkpoint_goes_on_from_it_after_it_made_way(grid: Grid, tmp_path: Path) -> None:
    alpha = alone(grid, 2)
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 50, preemptible=True)).group
        until(lambda: len(steps_in(tmp_path / "log")) > 5, lambda: f"it runs\n{grid.story()}", 60)
        gang = client.submit(gang_job(tmp_path)).group
        assert client.wait(gang, timeout_s=120).state == "done"
        status = client.wait(group, timeout_s=120)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran = steps_in(tmp_path / "log")
    assert [step.number for step in ran] == list(range(50)), "no step is lost and none is done twice"
    assert [step.chain for step in ran] == [chain[:16] for chain in serial(50)]
    assert {step.attempt for step in ran} == {1, 2}
