"""Checkpoints with real nodes (SPEC G6): a job is stopped and goes on elsewhere from its last whole one, once."""

from __future__ import annotations

import hashlib
import random
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from diana import errors
from tests.e2e.grid import Grid, Site, timely, until
from tests.e2e.test_hold_retry import diana
from tests.real.grid.test_maintenance import iso

pytestmark = pytest.mark.e2e

PROGRAM = """
import hashlib, os, signal, sys, time
steps, log, pause_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
step, chain = 0, ""
if os.environ.get("DIANA_CHECKPOINT"):
    step, chain = open("ckpt/state").read().split()
    step = int(step)
while step < steps:
    chain = hashlib.sha256(f"{chain}{step}".encode()).hexdigest()
    with open(log, "a") as out:
        print(step, chain[:16], os.environ["DIANA_SITE"], os.environ["DIANA_ATTEMPT"], file=out, flush=True)
    step += 1
    time.sleep(pause_s)
    if asked:
        os.makedirs("ckpt", exist_ok=True)
        with open("ckpt/state", "w") as out:
            out.write(f"{step} {chain}")
        if os.path.exists(log + ".half"):
            os.unlink("ckpt/whole")
        else:
            open("ckpt/whole", "w").close()
        sys.exit(85)
open("answer", "w").write(chain)
"""


class Step(NamedTuple):
    number: int
    chain: str
    site: str
    attempt: int


def steps_in(log: Path) -> list[Step]:
    rows = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
    return [Step(int(n), chain, site, int(attempt)) for n, chain, site, attempt in rows]


def serial(steps: int) -> list[str]:
    out, chain = [], ""
    for step in range(steps):
        chain = hashlib.sha256(f"{chain}{step}".encode()).hexdigest()
        out.append(chain)
    return out


def chain_job(folder: Path, steps: int, pause_s: float = 0.1, **group: object) -> dict[str, object]:
    program = folder / "chain.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(steps), str(folder / "log"), str(pause_s)]
    return {
        "group": {"command": command, "bind": "early", **group},
        "resources": {"work": 20},
        "outputs": {"collect": ["answer"]},
        "checkpoint": {"paths": ["ckpt/state", "ckpt/whole"]},
    }


def pair(grid: Grid) -> tuple[Site, Site]:
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 1)
    grid.join()
    grid.start()
    with alpha.client() as client:
        until(lambda: {s.site for s in client.sites() if s.state == "alive"} >= {"beta"}, "they are linked", 20)
    return alpha, beta


def test_a_running_job_is_moved_and_goes_on_from_its_checkpoint(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 60)).group
        until(lambda: len(steps_in(tmp_path / "log")) > 5, "it runs", 20)
        first = steps_in(tmp_path / "log")[0].site
        other = "beta" if first == "alpha" else "alpha"
        assert diana(alpha, "move", group, "--to", other) == f"{group}: moving 1 job to {other}\n"
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        (row,) = client.results(group)
        assert (row.outcome, row.attempt) == ("done", 2)
    ran = steps_in(tmp_path / "log")
    assert [step.number for step in ran] == list(range(60)), "no step is lost and none is done twice"
    assert [step.chain for step in ran] == [chain[:16] for chain in serial(60)]
    assert {step.site for step in ran if step.attempt == 1} == {first}
    assert {step.site for step in ran if step.attempt == 2} == {other}


def test_a_job_asked_to_save_goes_on_where_it_is_best(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 40)).group
        until(lambda: len(steps_in(tmp_path / "log")) > 5, "it runs", 20)
        assert diana(alpha, "checkpoint", f"{group}.0") == f"{group}.0: asked 1 job to save and stop\n"
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        with pytest.raises(errors.UsageError, match="has nothing to save: 1 done"):
            client.checkpoint(group)
        plain = client.submit({"group": {"command": ["sleep", "60"]}}).group
        with pytest.raises(errors.UsageError, match=r"cannot save its jobs' state: its job file has no \[checkpoint\]"):
            client.checkpoint(plain)
        client.cancel(plain)
    ran = steps_in(tmp_path / "log")
    assert [(step.number, step.chain) for step in ran] == list(enumerate(chain[:16] for chain in serial(40)))
    assert {step.attempt for step in ran} == {1, 2}


def test_a_job_has_stopped_at_a_checkpoint_when_the_maintenance_of_its_site_begins(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    with alpha.client() as client:
        job = chain_job(tmp_path, 50)
        saved = {"paths": ["ckpt/state", "ckpt/whole"], "wait": "2s"}
        group = client.submit({**job, "resources": {"work": 600}, "checkpoint": saved}).group
        until(lambda: len(steps_in(tmp_path / "log")) > 2, "it runs", 30)
        from_s, to_s = time.time() + 9.0, time.time() + 9.5
        assert "alpha takes no work from" in diana(alpha, "site", "drain", "--from", iso(from_s), "--to", iso(to_s))
        until(lambda: not client.status([group])[0].running, lambda: f"{client.status([group])}\n{grid.story()}", 60)
        # Asked before the maintenance begins, so that it has stopped by then.
        timely(time.time() - from_s + 9.0, 9.0, "its stop")
        stopped = len(steps_in(tmp_path / "log"))
        until(lambda: time.time() > from_s, "it begins", 30)
        assert len(steps_in(tmp_path / "log")) == stopped
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran = steps_in(tmp_path / "log")
    assert [step.number for step in ran] == list(range(50)), "no step is lost and none is done twice"
    assert {step.attempt for step in ran} == {1, 2}


def test_a_drain_saves_what_runs_and_a_half_checkpoint_is_none(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = pair(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 50)).group
        until(lambda: len(steps_in(log)) > 3, "it runs", 20)
        client.move(group, "alpha" if steps_in(log)[0].site == "beta" else "beta")
        until(lambda: steps_in(log)[-1].attempt == 2, "it goes on elsewhere", 20)
        whole = next(step.number for step in steps_in(log) if step.attempt == 2)
        at = beta if steps_in(log)[-1].site == "beta" else alpha
        # This time only one of its two files is there: that is no checkpoint, and it begins at the one before.
        (tmp_path / "log.half").touch()
        until(lambda: len([step for step in steps_in(log) if step.attempt == 2]) > 5, "it does more", 20)
        diana(at, "site", "drain", "--reason", "new kernel")
        until(lambda: steps_in(log)[-1].attempt == 3, lambda: f"{client.status([group])}\n{grid.story()}", 30)
        (tmp_path / "log.half").unlink()
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    third = [step for step in steps_in(log) if step.attempt == 3]
    assert third[0].number == whole and third[0].site != at.name
    expected = serial(50)
    assert all(step.chain == expected[step.number][:16] for step in steps_in(log))
    assert third[-1].number == 49


def test_a_job_that_does_not_heed_the_signal_runs_on(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    job = chain_job(tmp_path, 3)
    # Its leader is a shell that would die of the signal.
    job["group"] = {"command": ["sh", "-c", "sleep 3; echo done > answer"]}
    with alpha.client() as client:
        group = client.submit(job).group
        until(lambda: client.status([group])[0].running == 1, "it runs", 20)
        client.checkpoint(group)
        status = client.wait(group, timeout_s=20)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        assert [row.attempt for row in client.results(group)] == [1]


def test_a_job_that_saves_now_and_then_loses_to_a_lost_site_the_last_span_alone(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 0)
    for name in ("beta", "gamma"):
        grid.add(name, 1)
    grid.join()
    grid.settings(lease_s=4.0)
    grid.start()
    log = tmp_path / "log"
    with alpha.client() as client:
        job = chain_job(tmp_path, 120, on_site_lost="rerun")
        job["checkpoint"] = {"paths": ["ckpt/state", "ckpt/whole"], "every": "3s"}
        group = client.submit(job).group
        until(lambda: steps_in(log) and steps_in(log)[-1].attempt == 2, grid.story, 40)
        # It goes on for a while, and then its site is lost.
        until(lambda: len([step for step in steps_in(log) if step.attempt == 2]) > 5, grid.story, 20)
        last = steps_in(log)[-1]
        grid.sites[last.site].kill()
        until(
            lambda: client.status([group])[0].final,
            lambda: f"{steps_in(log)[-3:]}\n{client.status([group])}\n{diana(alpha, 'explain', group)}",
            110,
        )
        (status,) = client.status([group])
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran, expected = steps_in(log), serial(120)
    assert all(step.chain == expected[step.number][:16] for step in ran)
    assert {step.number for step in ran} == set(range(120))
    again = next(step for step in ran if step.attempt > last.attempt)
    assert 0 < again.number <= last.number + 60, "it begins where it saved last"
    by_attempt = {step.attempt: step.number for step in reversed(ran)}
    assert sorted(by_attempt.values()) == [by_attempt[attempt] for attempt in sorted(by_attempt)], "and never before"


def test_kills_at_each_step_of_stop_write_register_and_restart_lose_and_double_nothing(
    grid: Grid, tmp_path: Path, chance: random.Random
) -> None:
    alpha, beta = pair(grid)
    log = tmp_path / "log"
    with alpha.client() as client:
        group = client.submit(chain_job(tmp_path, 150, 0.05)).group
        until(lambda: len(steps_in(log)) > 3, "it runs", 20)
    for turn in range(4):
        to = "alpha" if steps_in(log)[-1].site == "beta" else "beta"
        with alpha.client() as client:
            try:
                client.move(group, to)
            except errors.DianaError as error:
                assert "nothing to move" in str(error) or "does not answer" in str(error), error
        time.sleep(chance.uniform(0.0, 0.6))
        victim = (alpha, beta)[turn % 2]
        victim.kill()
        victim.start()
        time.sleep(chance.uniform(0.0, 0.5))
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    ran, expected = steps_in(log), serial(150)
    assert all(step.chain == expected[step.number][:16] for step in ran)
    assert [step.number for step in ran] == list(range(150)), "each step is done once, whatever was killed"
    assert len({step.attempt for step in ran}) >= 2


# --- contracts -------------------------------------------------------------------------------------------------------

SLOW = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from diana import report
steps, log = int(sys.argv[2]), sys.argv[3]
import signal
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
step = int(open("state").read()) if os.environ.get("DIANA_CHECKPOINT") else 0
while step < steps:
    loaded = os.path.exists(f"{log}.load.{os.environ['DIANA_SITE']}")
    time.sleep(2.0 if loaded else 0.2)
    step += 1
    with open(log, "a") as out:
        print(step, "-", os.environ["DIANA_SITE"], os.environ["DIANA_ATTEMPT"], file=out, flush=True)
    # Nonsense, and words of the past, are ordinary input.
    for told in ((step, 0), (-1, steps), (float("nan"), steps), (max(0, step - 3), steps), (step, steps)):
        report(*told)
    if asked:
        with open("state", "w") as out:
            out.write(str(step))
        sys.exit(85)
open("answer", "w").write(str(step))
"""


def slow_job(folder: Path, steps: int) -> dict[str, object]:
    program = folder / "slow.py"
    program.write_text(SLOW)
    root = str(Path(__file__).resolve().parents[3])
    return {
        "group": {"command": [sys.executable, str(program), root, str(steps), str(folder / "log")], "bind": "early"},
        "resources": {"work": 0.2 * steps},
        "outputs": {"collect": ["answer"]},
        "checkpoint": {"paths": ["state"]},
        "contract": {"window": 3},
    }


def test_a_job_under_load_breaks_its_contract_and_goes_where_it_ends_sooner(grid: Grid, tmp_path: Path) -> None:
    log = tmp_path / "log"
    alpha, _ = pair(grid)
    with alpha.client() as client:
        group = client.submit(slow_job(tmp_path, 40)).group
        until(lambda: len(steps_in(log)) > 8, "it runs", 20)
        first = steps_in(log)[0].site
        (tmp_path / f"log.load.{first}").touch()

        def slow() -> bool:
            rows = client.explain(group).contracts
            return bool(rows) and rows[0].state == "slow" and rows[0].total == 40

        until(slow, lambda: f"{client.explain(group).contracts}\n{grid.story()}", 25)
        assert "breaks its contract" in client.status([group])[0].note
        said = diana(alpha, "explain", group)
        assert f"{group}.0 at {first}: " in said and "of the foretold time for a step" in said, said
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        assert "from a checkpoint: " in diana(alpha, "explain", group)
    ran = steps_in(log)
    assert [step.number for step in ran] == list(range(1, 41)), "no iteration is lost or done twice"
    assert [step.site for step in ran if step.attempt == 2] and {s.site for s in ran if s.attempt == 2} != {first}


def test_near_its_end_it_stays_and_its_contract_is_relaxed(grid: Grid, tmp_path: Path) -> None:
    log = tmp_path / "log"
    alpha, _ = pair(grid)
    with alpha.client() as client:
        group = client.submit(slow_job(tmp_path, 30)).group
        until(lambda: len(steps_in(log)) > 23, "nine tenths are done", 30)
        (tmp_path / f"log.load.{steps_in(log)[0].site}").touch()

        def relaxed() -> str:
            rows = client.explain(group).contracts
            return rows[0].relaxed if rows else ""

        until(lambda: bool(relaxed()), lambda: f"{client.explain(group).contracts}\n{grid.story()}", 20)
        status = client.wait(group, timeout_s=40)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
    assert {step.attempt for step in steps_in(log)} == {1}
