"""The programs of `examples/grads` as jobs (SPEC G8): moved while they run, and divided over three sites, they give the
answer of a serial run."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from diana.client.client import Client
from diana.model.ids import GroupId
from tests.e2e.grid import Grid, Site, until
from tests.real.grads_programs import PROGRAMS, RANKS, run, steps_of
from tests.real.running.test_checkpoints import pair

pytestmark = pytest.mark.e2e

WORDS = {
    "jacobi": ["24", "60"],
    "life": ["24", "60"],
    "fasta": ["3", "40"],
    "lu": ["240", "--block", "4"],
    "cactus": ["14", "60"],
    "fish": ["40", "60"],
}
PAUSE = {"fasta": "0.3"}
"""It has 20 steps, and the others 60."""
STATE = {"jacobi": "state.bin", "life": "board.txt"}
GANGS = ("fasta", "lu", "cactus", "fish")


def command_of(program: str) -> list[str]:
    # As a module, a program finds the one beside it in the job's directory, where inputs are links.
    return [sys.executable, "-m", program, *WORDS[program]]


def job_file(program: str, **changed: Any) -> dict[str, Any]:
    """Return the program's job file, its inputs named in full and its interpreter this one."""
    job = tomllib.loads((PROGRAMS / f"{program}.toml").read_text(encoding="ascii"))
    job["inputs"] = [{"url": str(PROGRAMS / one["url"])} for one in job["inputs"]]
    job["group"]["command"][0] = sys.executable
    for key, value in changed.items():
        if value is None:
            job.pop(key, None)
        else:
            job[key] = value
    return job


def said_of(client: Client, group: str) -> str:
    log = b"".join(chunk.data for chunk in client.logs(f"{group}.0")).decode()
    return f"{client.status([group])}: {log}"


def answer_of(site: Site, client: Client, group: str) -> str:
    (found,) = site.paths.gathered(GroupId(group)).rglob("answer.txt")
    return found.read_text()


@pytest.mark.parametrize("program", WORDS)
def test_moved_while_it_runs_a_program_gives_the_answer_of_a_serial_run(
    program: str, grid: Grid, tmp_path: Path
) -> None:
    alpha, _ = pair(grid)
    alone = run(tmp_path / "alone", [f"{program}.py", *WORDS[program]])
    assert alone.codes == [0]
    total = len(alone.lines)
    job = {
        "group": {"command": [*command_of(program), "--pause", PAUSE.get(program, "0.1")], "bind": "early"},
        "resources": {"work": 6},
        "inputs": [str(PROGRAMS / f"{program}.py"), *([str(PROGRAMS / RANKS)] if program in GANGS else [])],
        "outputs": {"collect": ["answer.txt"]},
        "checkpoint": {"paths": [STATE.get(program, "state.npz")]},
        "contract": {"move": False},
    }
    with alpha.client() as client:
        group = client.submit(job).group
        until(lambda: bool(client.explain(group).contracts), lambda: said_of(client, group), 30)
        (row,) = client.explain(group).contracts
        assert row.total == total and 0 < row.done < total
        other = "beta" if row.site == "alpha" else "alpha"
        client.move(group, other)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 1), f"{status}\n{grid.story()}"
        assert answer_of(alpha, client, group) == alone.answer
        (result,) = client.results(group)
        assert (result.attempt, result.site) == (2, other)
        said = steps_of(b"".join(chunk.data for chunk in client.logs(f"{group}.0")).decode())
        assert 0 < len(said) < total and said == alone.lines[-len(said) :], "its iterations go on where they stopped"


def test_divided_over_three_sites_each_program_gives_the_answer_of_a_serial_run(grid: Grid, tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        grid.add(name, 1)
    grid.join()
    grid.start()
    alpha = grid.sites["alpha"]
    with alpha.client() as client:
        until(lambda: len(client.sites()) == 3, "three sites know each other", 30)
        for program in GANGS:
            job = job_file(program)
            job["group"] |= {"command": command_of(program)}
            group = client.submit(job).group
            status = client.wait(group, timeout_s=90)
            assert (status.state, status.done) == ("done", 3), f"{status}\n{grid.story()}"
            assert {result.site for result in client.results(group)} == {"alpha", "beta", "gamma"}
            (first,) = alpha.paths.gathered(GroupId(group)).rglob("steps-0.txt")
            alone = run(tmp_path / program, [f"{program}.py", *WORDS[program]])
            assert steps_of(first.read_text()) == alone.lines, program
