"""`snakemake --executor diana` when something happens to it, to its node or to its jobs. A minute on two cores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, Site, until
from tests.real.page import environment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

WAITS = """
rule all:
    input: expand("{k}.txt", k=range(3))
rule wait:
    output: "{k}.txt"
    shell: "touch began.{wildcards.k}; while [ ! -e gate ]; do sleep 0.1; done; touch {output}"
"""


class Run:
    """Snakemake in a folder, as a user has started it."""

    def __init__(self, grid: Grid, folder: Path, snakefile: str, *words: str, data: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "Snakefile").write_text(snakefile)
        self.folder = folder
        self.output = folder / "output"
        node = data or grid.sites["alpha"].data
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "snakemake",
                    "--executor",
                    "diana",
                    "--diana-data",
                    str(node),
                    "--jobs",
                    "50",
                    *words,
                ],
                cwd=folder,
                env=environment(grid),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Where a shell started the tests in the background, they ignore Ctrl-C, and all they start.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def began(self, jobs: int) -> None:
        until(lambda: len(list(self.folder.glob("began.*"))) >= jobs, lambda: f"{jobs} began\n{self.said()}", 60)

    def said(self) -> str:
        return self.output.read_text()

    def told(self, text: str) -> None:
        until(lambda: text in self.said(), lambda: f"said {text!r}\n{self.said()}", 60)

    def ended(self, code: int) -> str:
        """Its output; nobody has to read a traceback."""
        found = self.process.wait(90)
        said = self.said()
        print(said)
        assert found == code, said
        assert "Traceback" not in said and '  File "' not in said, said
        return said


def alone(grid: Grid, slots: int = 3) -> Site:
    site = grid.add("alpha", slots)
    grid.start()
    return site


def only(client: Client) -> str:
    (status,) = client.status()
    return status.group


def test_ctrl_c_cancels_what_was_submitted(grid: Grid, tmp_path: Path) -> None:
    site = alone(grid)
    run = Run(grid, tmp_path / "run", WAITS)
    run.began(3)
    run.process.send_signal(signal.SIGINT)
    assert "diana: alpha-1 cancelled" in run.ended(1)
    with site.client() as client:
        assert client.wait("alpha-1", timeout_s=20).cancelled == 3
    until(lambda: not site.jobs_alive(), "no process of the jobs is left", 20)


def test_a_node_that_comes_back_is_waited_for(grid: Grid, tmp_path: Path) -> None:
    site = alone(grid)
    run = Run(grid, tmp_path / "run", WAITS)
    run.began(3)
    site.kill()
    run.told("jobs go on there, looking again")
    (run.folder / "gate").touch()
    site.start()
    said = run.ended(0)
    assert said.count("looking again") == 1 and "diana: the node answers again" in said
    assert all((run.folder / f"{k}.txt").exists() for k in range(3))


def test_a_node_that_stays_away_ends_the_workflow_in_one_line(grid: Grid, tmp_path: Path) -> None:
    said = Run(grid, tmp_path / "none", WAITS, data=tmp_path / "nothing").ended(1)
    assert f"Error: diana: no site in {tmp_path}/nothing; " in said and said.rstrip().endswith("with --diana-data")
    site = alone(grid)
    run = Run(grid, tmp_path / "run", WAITS, "--diana-patience", "2")
    run.began(3)
    site.kill()
    said = run.ended(1)
    assert f"diana: no node answers at {site.data}; start one with: diana node --data {site.data}; " in said
    assert "; what was submitted goes on there: alpha-1\n" in said
    (run.folder / "gate").touch()
    site.start()
    with site.client() as client:
        assert client.wait("alpha-1", timeout_s=30).done == 3


def test_jobs_that_are_cancelled_or_of_unknown_outcome_fail_in_the_workflow(grid: Grid, tmp_path: Path) -> None:
    site = alone(grid, slots=6)
    hold = WAITS.replace("    shell", '    resources: diana_on_crash="hold"\n    shell')
    lost = Run(grid, tmp_path / "lost", hold, "--keep-going")
    lost.began(3)
    with site.client() as client:
        group = only(client)
        client.cancel(f"{group}.1")
        lost.told(f"diana job {group}.1 at alpha was cancelled")
        # Nobody is left who could say how the other two ended.
        site.kill_spawner()
        for pid in site.jobs_alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        said = lost.ended(1)
        assert said.count("was cancelled") == 1 and said.count("ended in a way nobody knows and is given up") == 2
        (status,) = client.status([group])
        assert (status.state, status.cancelled, status.held) == ("held", 1, 2)


def test_what_failed_is_tried_again_as_a_group_of_its_own(grid: Grid, tmp_path: Path) -> None:
    site = alone(grid)
    once = """
rule all:
    input: "a.txt", "b.txt"
rule once:
    output: "{k}.txt"
    group: "pair"
    shell: "test -e tried.{wildcards.k} || {{ touch tried.{wildcards.k}; exit 4; }}; touch {output}"
"""
    run = Run(grid, tmp_path / "run", once, "--retries", "1")
    said = run.ended(0)
    with site.client() as client:
        first, *later = sorted(client.status(), key=lambda status: status.group)
    assert (first.jobs, first.failed) == (2, 2) and sum(status.done for status in later) == 2, said
    assert "diana: diana job alpha-1.0 at alpha ended with exit code 1; its log: " in said


def test_ctrl_c_while_the_node_is_asked_leaves_nothing_behind(grid: Grid, tmp_path: Path) -> None:
    """Whether the node took the group is not known then; it is asked once more, under the same key."""
    site = alone(grid)
    late = """
localrules: first
rule all:
    input: "b.txt"
rule first:
    output: "a.txt"
    shell: "touch began.a; while [ ! -e gate ]; do sleep 0.1; done; touch {output}"
rule then:
    input: "a.txt"
    output: "b.txt"
    shell: "sleep 60; touch {output}"
"""
    run = Run(grid, tmp_path / "run", late)
    run.began(1)
    assert site.process is not None
    site.process.send_signal(signal.SIGSTOP)
    (run.folder / "gate").touch()
    run.told("rule then:")
    time.sleep(1.0)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    site.process.send_signal(signal.SIGCONT)
    assert "diana: alpha-1 cancelled" in run.ended(1)
    with site.client() as client:
        assert client.wait(only(client), timeout_s=20).cancelled == 1


def test_a_node_elsewhere_is_called_with_a_credential(grid: Grid, tmp_path: Path) -> None:
    site = alone(grid)
    credential = tmp_path / "ann"
    made = grid.run(site, "init", "--user", "ann", "--data", str(site.data), "--out", str(credential))
    assert made.returncode == 0, made.stderr
    (tmp_path / "gate").touch()
    run = Run(grid, tmp_path, WAITS, "--diana-address", site.address, "--diana-credential", str(credential))
    run.ended(0)
    with site.client() as client:
        (status,) = client.status()
    assert (status.owner, status.done) == ("ann@alpha-vo", 3)
