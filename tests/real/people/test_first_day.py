"""Ordinary actions and mistakes of somebody who has diana since today, at two real sites: what is typed, what comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

SCRIPT = """#!/bin/sh
#SBATCH --job-name=fit
#SBATCH --partition=long
#SBATCH --array=1-3
#SBATCH --output=out-%a.txt
echo task $SLURM_ARRAY_TASK_ID
[ $SLURM_ARRAY_TASK_ID != 2 ] || { echo bad >&2; exit 7; }
"""
PASSED_OVER = "diana: run.sh: passed over, as it means nothing here: #SBATCH --partition (line 3)\n"


def typed(site: Site, folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diana.cli", *words]
    environment = {**site.environment(), "DIANA_DATA": str(site.data)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment)
    assert done.returncode == code and "Traceback" not in done.stderr, done
    return done


def test_a_first_day_at_two_sites(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()

    def at_alpha(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return typed(alpha, tmp_path, *words, code=code)

    # A script as it was written for a cluster; its failed task loses nothing that it wrote.
    (tmp_path / "run.sh").write_text(SCRIPT)
    assert at_alpha("plan", "run.sh").stderr == PASSED_OVER
    assert at_alpha("plan", "--json", "run.sh").stdout.endswith('(line 3)"]}\n')
    assert PASSED_OVER in at_alpha("submit", "--wait", "run.sh", code=1).stderr
    assert at_alpha("logs", "--failed", "alpha-1").stderr == (
        "diana: alpha-1.1: kept no log: it left out-2.txt; diana fetch alpha-1 brings it\n"
        "diana: alpha-1.1: failed at alpha, exit code 7\n"
    )
    assert at_alpha("logs", "alpha-1").stderr == (
        "diana: alpha-1.0: kept no log: it left out-1.txt; diana fetch alpha-1 brings it; likewise 2 more jobs\n"
    )
    assert at_alpha("logs", "alpha-1.0").stderr == (
        "diana: alpha-1.0: kept no log: it left out-1.txt; diana fetch alpha-1 brings it\n"
    )
    at_alpha("fetch", "alpha-1")
    files = {path.name: path.read_text() for path in (tmp_path / "alpha-1").iterdir()}
    assert files == {f"out-{n}.txt": f"task {n}\n" + "bad\n" * (n == 2) for n in (1, 2, 3)}

    # A program of one's own, named once and twice, and misspelt.
    (tmp_path / "fit").write_text('#!/bin/sh\ncat "$1"\n')
    (tmp_path / "fit").chmod(0o755)
    (tmp_path / "my file ü.txt").write_text("hello\n")
    at_alpha("submit", "--wait", "--input", "fit", "my file ü.txt", "--", "./fit", "my file ü.txt")
    assert at_alpha("logs", "alpha-2").stdout == "==> alpha-2.0 <==\nhello\n"
    assert at_alpha("submit", "--", "./fti", code=2).stderr == (
        "diana: command ./fti: no such file here; mend its name, or name it with --input\n"
    )
    lacking = at_alpha("submit", "--input", "nothing.csv", "--", "true", code=2).stderr
    assert lacking.count("nothing.csv") == 1, lacking

    # Nothing written, nothing left, nobody's group.
    at_alpha("submit", "--wait", "--", "true")
    assert at_alpha("logs", "alpha-3").stderr == "diana: alpha-3: no job wrote anything to its log\n"
    assert at_alpha("logs", "alpha-3.0").stderr == "diana: alpha-3.0: wrote nothing to its log\n"
    for words in (("fetch", "alpha-3"), ("fetch", "--follow", "alpha-3")):
        assert at_alpha(*words, code=2).stderr.startswith("diana: group alpha-3: no outputs; a job file names")
    assert not (tmp_path / "alpha-3").exists()
    asked = typed(beta, tmp_path, "status", "alpha-3", code=2).stderr
    assert asked.startswith("diana: no group alpha-3 of yours at beta; ask alpha, where it was submitted"), asked
    asked = typed(beta, tmp_path, "cancel", "alpha-3", code=2).stderr
    assert (
        asked
        == "diana: no group alpha-3 of yours at beta; ask alpha, where it was submitted; diana status lists yours\n"
    )

    # Watched on a terminal of 24 lines, with more groups and notes than it has lines.
    for number in range(4, 30):
        at_alpha("submit", "--parsable", "--name", f"run-{number}", "--cwd", "/nonexistent", "--", "true")
    at_alpha("wait", "alpha-29", code=1)
    environment = {**alpha.environment(), "DIANA_DATA": str(alpha.data)}
    with Terminal([sys.executable, "-m", "diana.cli", "status", "--watch", "1"], environment=environment) as terminal:
        terminal.until("more notes; diana status --limit 0 shows all")
        first = terminal.text().split("more notes; diana status --limit 0 shows all")[0]
    lines = [line for line in first.splitlines() if line.strip()]
    assert lines[0].startswith("GROUP") and len(lines) <= 23, lines
    assert all(len(line) <= 80 for line in lines), lines


def test_retries_of_a_gang_and_of_what_was_cancelled(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    begun = tmp_path / "begun"
    # The first time one component fails, and the other would last an hour.
    (tmp_path / "part").write_text(
        f"#!/bin/sh\necho $DIANA_GANG_RANK >> {begun}\n[ $(grep -c $DIANA_GANG_RANK {begun}) = 2 ] && exit 0\n"
        "[ $DIANA_GANG_RANK = 0 ] && sleep 3600\nexit 1\n"
    )
    (tmp_path / "part").chmod(0o755)
    words: tuple[str, ...] = ("submit", "--wait", "--components", "2x1", "--retries", "1", "--", "./part")
    done = typed(alpha, tmp_path, *words)
    assert "alpha-1: done, 2 of 2 jobs done" in done.stdout
    assert sorted(begun.read_text().split()) == ["0", "0", "1", "1"]

    words = ("submit", "--retries", "5", "--", "sh", "-c", "[ {x} = 2 ] && exit 1; sleep 3600", ":::", "1", "2")
    typed(alpha, tmp_path, *words)

    def failed() -> bool:
        return "failed" in typed(alpha, tmp_path, "results", "alpha-2").stdout

    until(failed, "one job failed", 30, 0.3)
    typed(alpha, tmp_path, "cancel", "alpha-2")
    typed(alpha, tmp_path, "wait", "--timeout", "30", "alpha-2", code=1)
    shown = typed(alpha, tmp_path, "results", "alpha-2").stdout
    assert "cancelled" in shown and "failed" in shown, shown
