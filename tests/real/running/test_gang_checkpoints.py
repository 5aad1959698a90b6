"""Checkpoints of gangs over real nodes (SPEC G6): valid when the parts of all components are, and restarted on another
number of them."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from diana import errors
from tests.e2e.grid import Grid, Site, until
from tests.e2e.test_hold_retry import diana
from tests.real.running.test_bad_checkpoints import files_below

pytestmark = pytest.mark.e2e

PROGRAMS = Path(__file__).parents[3] / "examples" / "grads"
STEPS = 80


def serial(folder: Path, steps: int = STEPS) -> tuple[list[tuple[int, str]], str]:
    """(The chain of a run by one process, its answer.)"""
    folder.mkdir()
    command = [sys.executable, str(PROGRAMS / "jacobi.py"), "24", str(steps)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return [(int(line.split()[0]), line.split()[1]) for line in ran.stdout.splitlines()], (
        folder / "answer.txt"
    ).read_text()


def job(log: Path, steps: int = STEPS, pause_s: float = 0.1, **more: Any) -> dict[str, object]:
    """The parallel program, whose first process prints to `log`. While `log.half` is there, a part is not."""
    script = f"""
        [ "$DIANA_GANG_RANK" != 0 ] || echo "begin $DIANA_ATTEMPT -" >>{log}
        {sys.executable} jacobi_ranks.py 24 {steps} --pause {pause_s} >>{log}; c=$?
        [ ! -e {log}.half ] || rm -f plate.1.bin
        exit $c
    """
    return {
        "group": {"command": ["sh", "-c", script], "bind": "early"},
        "inputs": [str(PROGRAMS / "jacobi_ranks.py")],
        "checkpoint": {"paths": ["plate.{component}.bin"]},
        **more,
    }


def lines(log: Path) -> list[tuple[int, str, int]]:
    """(Iteration, chain, number of processes) of each line that the first process printed."""
    rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(step), chain, int(size)) for step, chain, size in rows if step != "begin"]


def first_steps(log: Path) -> list[int]:
    """The first iteration of each attempt that did one."""
    found, begins = [], False
    for line in log.read_text().splitlines():
        step = line.split()[0]
        if begins and step != "begin":
            found.append(int(step))
        begins = step == "begin"
    return found


def sites(grid: Grid, **slots: int) -> Site:
    for name, count in slots.items():
        grid.add(name, count)
    grid.join()
    grid.settings(claim_wait_s=10.0)
    grid.start()
    return next(iter(grid.sites.values()))


def test_a_gang_of_four_goes_on_as_three_with_the_same_answer_and_no_iteration_twice(
    grid: Grid, tmp_path: Path
) -> None:
    alpha = sites(grid, alpha=1, beta=1, gamma=1, delta=1, epsilon=2)
    log = tmp_path / "log"
    chain, _ = serial(tmp_path / "serial")
    diana(grid.sites["epsilon"], "site", "drain", "--reason", "not yet")
    with alpha.client() as client:
        until(lambda: any(row.site == "epsilon" and row.note for row in client.sites()), "epsilon drains", 30)
        more: dict[str, Any] = {"flexible": {"cpus": 4, "splits": [[2, 1, 1], [1, 1, 1, 1]]}}
        group = client.submit(job(log, **more)).group
        until(lambda: len(lines(log)) > 5, lambda: f"{client.status([group])}\n{grid.story()}", 60)
        assert {size for *_, size in lines(log)} == {4}
        diana(grid.sites["epsilon"], "site", "undrain")
        until(lambda: not any(row.note for row in client.sites()), "epsilon takes work", 30)
        diana(grid.sites["delta"], "site", "drain", "--reason", "new kernel")
        status = client.wait(group, timeout_s=100)
        assert (status.state, status.failed) == ("done", 0), f"{status}\n{grid.story()}"
    ran = lines(log)
    assert [(step, text) for step, text, _ in ran] == chain, "its iterations continue, and none is done twice"
    assert {size for *_, size in ran} == {4, 3}


def test_a_gang_that_is_asked_goes_on_and_a_half_checkpoint_of_it_is_none(grid: Grid, tmp_path: Path) -> None:
    alpha = sites(grid, alpha=1, beta=1)
    log = tmp_path / "log"
    chain, _ = serial(tmp_path / "serial")
    with alpha.client() as client:
        group = client.submit(job(log, components=[{"site": name, "cpus": 1} for name in ("alpha", "beta")])).group
        until(lambda: len(lines(log)) > 5, lambda: f"{client.status([group])}\n{grid.story()}", 60)
        assert diana(alpha, "checkpoint", group) == f"{group}: asked 2 jobs to save and stop\n"
        until(lambda: len(first_steps(log)) == 2, lambda: f"it begins again\n{grid.story()}", 60)
        # The second time the part of one component is missing.
        Path(f"{log}.half").touch()
        time.sleep(1.0)
        client.checkpoint(group)
        until(lambda: len(first_steps(log)) == 3, lambda: f"it begins once more\n{grid.story()}", 60)
        Path(f"{log}.half").unlink()
        status = client.wait(group, timeout_s=100)
        assert (status.state, status.done) == ("done", 2), f"{status}\n{grid.story()}"
    first, whole, again = first_steps(log)
    assert first == 1 < whole == again, "the half one is none: it begins at the one before"
    assert {(step, text) for step, text, _ in lines(log)} == set(chain), "every line is that of one process"


def test_kills_while_a_gang_stops_and_begins_again_lose_no_whole_checkpoint_and_double_nothing(
    grid: Grid, tmp_path: Path, chance: random.Random
) -> None:
    alpha = sites(grid, alpha=1, beta=1)
    log = tmp_path / "log"
    chain, _ = serial(tmp_path / "serial", 250)
    with alpha.client() as client:
        made = job(log, 250, 0.05, components=[{"site": name, "cpus": 1} for name in ("alpha", "beta")])
        group = client.submit(made).group
        until(lambda: len(lines(log)) > 5, lambda: f"{client.status([group])}\n{grid.story()}", 60)
    for turn in range(4):
        with alpha.client() as client:
            try:
                client.checkpoint(group)
            except errors.DianaError as error:
                assert "nothing to save" in str(error), error
        time.sleep(chance.uniform(0.0, 1.0))
        victim = grid.sites[("beta", "alpha")[turn % 2]]
        victim.kill()
        victim.start()
        time.sleep(chance.uniform(0.0, 1.0))
    with alpha.client() as client:
        status = client.wait(group, timeout_s=120)
        assert (status.state, status.done) == ("done", 2), f"{status}\n{grid.story()}"
        assert max(row.attempt for row in client.results(group)) >= 2
    ran = lines(log)
    assert [(step, text) for step, text, _ in ran] == chain, "each iteration is done once, whatever was killed"


def test_a_gang_goes_back_as_a_whole_to_the_checkpoint_before_one_that_was_changed(grid: Grid, tmp_path: Path) -> None:
    alpha = sites(grid, alpha=1, beta=1)
    log = tmp_path / "log"
    chain, _ = serial(tmp_path / "serial")
    with alpha.client() as client:
        group = client.submit(job(log, components=[{"site": name, "cpus": 1} for name in ("alpha", "beta")])).group

        def story() -> str:
            return f"{client.status([group])}\n{grid.story()}"

        known = files_below(alpha)

        def save() -> set[Path]:
            """Have it stop at a checkpoint, and wait; return the files of both components."""
            steps = len(lines(log))
            until(lambda: len(lines(log)) > steps + 5, story, 60)
            diana(alpha, "site", "drain", "--reason", "a new kernel")
            until(lambda: not client.status([group])[0].running, story, 60)
            until(lambda: len(files_below(alpha) - known) == 2, story, 60)
            fresh = files_below(alpha) - known
            known.update(fresh)
            return fresh

        save()
        diana(alpha, "site", "undrain")
        until(lambda: len(first_steps(log)) == 2, story, 60)
        for blob in save():
            content = bytearray(blob.read_bytes())
            content[-1] ^= 1
            blob.chmod(0o644)
            blob.write_bytes(bytes(content))
        diana(alpha, "site", "undrain")
        status = client.wait(group, timeout_s=150)
        assert (status.state, status.done) == ("done", 2), story()
        assert status.note.startswith(f"checkpoint {group}.0@2 is not used: "), status
        assert status.note.endswith(f"it goes on from {group}.0@1"), status
    first, whole, again = first_steps(log)
    assert first == 1 < whole == again
    assert {(step, text) for step, text, _ in lines(log)} == set(chain), "every line is that of one process"
