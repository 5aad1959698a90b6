"""The mark that all descendants of a job bear (`spawner/behind/marks.py`): who finds it, and who has none to give."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from diana.adapters.lrm.runas import run_as
from diana.adapters.lrm.spawner.behind.marks import LOCKS, Marks, mark_of, number_of
from diana.adapters.lrm.spawner.behind.sweep import sweep

MARKER = b"DIANA_RUN=1-2:alpha-1/0:1:0:1"


@pytest.fixture
def marked() -> Iterator[subprocess.Popen[bytes]]:
    """A process without environment that bears the mark, and no other sign of its run."""
    marks = Marks()
    if not marks.given:
        pytest.skip("this kernel, or a limit, leaves no room for marks")
    marks.put_on(number_of(MARKER))
    try:
        process = subprocess.Popen(["/bin/sleep", "600"], env={}, start_new_session=True)
    finally:
        marks.take_off()
    yield process
    process.kill()
    process.wait()


def test_the_root_program_knows_a_run_by_the_mark_alone(marked: subprocess.Popen[bytes]) -> None:
    others = [(0, 0, "DIANA_RUN=1-2:alpha-1/0:1:1:1"), (0, 0, MARKER.decode())]
    assert run_as.run_of(marked.pid, *run_as.known_by(others)) == 1
    assert run_as.run_of(marked.pid, *run_as.known_by(others[:1])) == -1


def test_a_sweep_ends_what_bears_the_mark_and_nothing_else(marked: subprocess.Popen[bytes]) -> None:
    assert mark_of(marked.pid) == number_of(MARKER) and not mark_of(os.getpid())
    beside = subprocess.Popen(["/bin/sleep", "600"])
    try:
        assert not sweep({number_of(b"another")}) and marked.poll() is None
        assert sweep({number_of(MARKER)})
        assert marked.wait(60) == -9
        assert beside.poll() is None
    finally:
        beside.kill()
        beside.wait()


@pytest.mark.parametrize(("soft", "hard"), [(number_of(MARKER), resource.RLIM_INFINITY), (1000, 1000)])
def test_a_spawner_within_a_job_or_under_a_lower_limit_gives_no_marks(soft: int, hard: int) -> None:
    code = "from diana.adapters.lrm.spawner.behind.marks import Marks; print(Marks().given)"
    asked = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(LOCKS, (soft, hard)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == "False\n"
