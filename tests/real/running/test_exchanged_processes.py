"""A gang with a spare on real nodes (SPEC G6): a component becomes slow, the spare takes its place at the end of a
step, and the answer is that of a serial run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from diana.client.client import Client
from diana.model.ids import GroupId
from diana.model.job.gang import ROSTER_NAME
from tests.e2e.grid import Grid, Site, until
from tests.real.grads_programs import run, steps_of
from tests.real.running.test_grads_programs import job_file

pytestmark = pytest.mark.e2e

WORDS = ["60", "150", "--pause", "0.05"]
SLOW = 1
"""Rank of the slow component."""


def folders(grid: Grid) -> list[Path]:
    """Directories of the components that run."""
    return [file.parent for site in grid.sites.values() for file in (site.data / "jobs").rglob("fish.py")]


def submit(grid: Grid, client: Client, folder: Path) -> str:
    """A gang of three and a spare, none of it at the site of submission, of which one is slow from the beginning."""
    (folder / f"slow.{SLOW}").touch()
    job = job_file("fish_spares")
    command = [sys.executable, "-m", "fish", *WORDS, "--slow", str(folder / "slow")]
    job["group"] |= {"command": command, "sites": ["beta", "gamma"]}
    group = client.submit(job).group
    until(lambda: client.status([group])[0].running == 4, lambda: f"{client.status([group])}\n{grid.story()}", 60)
    return group


def three(grid: Grid) -> Site:
    for name, slots in (("alpha", 1), ("beta", 2), ("gamma", 2)):
        grid.add(name, slots)
    grid.join()
    grid.start()
    return grid.sites["alpha"]


def ended_well(grid: Grid, alpha: Site, client: Client, group: str, folder: Path) -> None:
    status = client.wait(group, timeout_s=120)
    assert (status.state, status.done) == ("done", 4), f"{status}\n{grid.story()}"
    alone = run(folder / "alone", ["fish.py", *WORDS[:2]])
    said = {file.name: file.read_text() for file in alpha.paths.gathered(GroupId(group)).rglob("steps-*.txt")}
    assert steps_of(said["steps-0.txt"]) == alone.lines, "no step is lost or done twice, each as in a serial run"
    took = [[line for line in said[f"steps-{rank}.txt"].splitlines() if "roster" in line][:1] for rank in range(4)]
    assert took == [["roster 1 place 0"], ["roster 1 place -1"], ["roster 1 place 2"], ["roster 1 place 1"]]
    assert {row.attempt for row in client.results(group)} == {1}


def test_a_slow_component_is_exchanged_for_the_spare_and_the_answer_is_the_serial_one(
    grid: Grid, tmp_path: Path
) -> None:
    alpha = three(grid)
    with alpha.client() as client:
        group = submit(grid, client, tmp_path)
        until(lambda: "exchanged for a spare" in client.status([group])[0].note, lambda: grid.story(), 90)
        (line, *_) = client.explain(group).exchanges
        assert line.startswith(f"gang 0: rank {SLOW} at ") and "the spare rank 3 at " in line, line
        ended_well(grid, alpha, client, group, tmp_path)


def test_an_origin_killed_after_its_decision_and_before_its_word_is_heard_ends_the_gang_as_well(
    grid: Grid, tmp_path: Path
) -> None:
    alpha = three(grid)
    with alpha.client() as client:
        group = submit(grid, client, tmp_path)
        here = folders(grid)
        assert len(here) == 4
        for folder in here:
            # In its way, so that no component hears the word.
            (folder / ROSTER_NAME).mkdir()
        until(lambda: "exchanged for a spare" in client.status([group])[0].note, lambda: grid.story(), 90)
        (line, *_) = client.explain(group).exchanges
    alpha.kill()
    for folder in here:
        (folder / ROSTER_NAME).rmdir()
    alpha.start()
    with alpha.client() as client:
        ended_well(grid, alpha, client, group, tmp_path)
        assert client.explain(group).exchanges[0] == line, "it is the same exchange"
