"""The demo from outside, as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diana.demo.grid import processes_of
from tests.cli import json_shapes

pytestmark = pytest.mark.e2e


def demo(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "diana.cli", "demo", "--out", str(out), *options]


@pytest.mark.wide
def test_a_small_demo_does_every_job_once_and_matches_and_leaves_no_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        demo(out, "--sites", "2", "--jobs", "7", "--json"), capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((out / "result.json").read_text())
    json_shapes.check("demo", result)
    assert (result["jobs"], result["done"], result["histogram_matches"]) == (7, 7, True)
    assert sum(result["sites"].values()) == 7
    assert {"bytes_moved", "makespan_s", "wait_s", "run_s", "turnaround_s", "decision"} <= result.keys()
    assert (out / "histogram.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "job.toml").exists() and not (out / "sites").exists()
    assert processes_of(out) == []


@pytest.mark.wide
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_its_nodes(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    # A shell that runs the tests in the background has them ignore SIGINT, and so would all they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(demo(out, "--sites", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not (out / "sites" / "nodes.json").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"Traceback" not in said
    # Nobody but the demo itself ever had the folder among its arguments.
    assert processes_of(out) == []
