"""`diana scenario run`: the simulator's scenario on real nodes, with its events; nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate
from diana.trial import ending
from tests.cli import json_shapes
from tests.e2e.grid import REPO, timely, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

GROUNDS = [
    "processes",
    pytest.param("netns", marks=pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces want root")),
]
ROUGH = """version = 1
name = "rough"
report = ["groups", "sites", "faults", "expect"]
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 4 }, { name = "c", slots = 4, speed = 2.0 }]
default_link = { latency_s = 0.002 }
[[workload]]
name = "w"
site = "a"
jobs = 40
work_s = 2.0
spread = 0.4
on_crash = "rerun"
[[events]]
at_s = 2.0
kind = "partition"
sites = ["b"]
for_s = 4.0
[[events]]
at_s = 3.0
kind = "kill"
sites = ["c"]
for_s = 3.0
[[events]]
at_s = 5.0
kind = "stop"
sites = ["a"]
for_s = 2.0
[[events]]
at_s = 8.0
kind = "restart"
sites = ["b"]
[expect]
done = 40
sites_used = 3
faults = 4
"""


def run(text: str, folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report, standard error."""
    file = folder / "s.toml"
    file.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(REPO), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "diana.cli", "scenario", "run", str(file), "--json", "--within", "90s", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170, check=False)
    report = json.loads(done.stdout) if done.stdout else {}
    json_shapes.check("scenario-run", report)
    return done.returncode, report, done.stderr


def left_behind(folder: Path) -> list[str]:
    """Processes with a path of this run in their environment, namespaces, folders."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and ending.is_alive(int(name)):
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if f"{ending.MARK}=".encode() in environ and str(folder).encode() in environ:
                found.append(name)
    if shutil.which("ip"):
        spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
        found += [line for line in spaces.splitlines() if line.startswith("dt")]
    return found + [str(path) for path in folder.glob("diana-run-*")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="dsr-") as name:
        yield Path(name)


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_rough_scenario_ends_well_and_leaves_nothing_behind(ground: str, folder: Path) -> None:
    simulated = simulate(sc.parse(ROUGH), 0)
    assert simulated.good()
    code, report, said = run(ROUGH, folder, "--on", ground)
    assert code == 0, f"{report}\n{said}"
    group = report["groups"]["w"]
    assert (group["done"], report["doubled"], report["stuck"], report["faults"]) == (40, 0, 0, 4)
    assert set(group["sites"]) == {"a", "b", "c"} and report["expect"] == {"met": True, "unmet": []}
    assert {name: site["boots"] for name, site in report["sites"].items()} == {"a": 1, "b": 2, "c": 2}
    assert set(report) >= {"groups", "sites", "expect", "faults"}
    assert set(report["groups"]["w"]) == set(simulated.groups["w"].__struct_fields__)
    assert left_behind(folder) == []


def test_what_was_expected_and_did_not_come_is_exit_code_1_with_the_logs_kept(folder: Path) -> None:
    text = (
        ROUGH.partition("[[events]]")[0].replace("jobs = 40", "jobs = 4\nfail_fraction = 0.5") + "[expect]\ndone = 4\n"
    )
    code, report, said = run(text, folder, "--on", "processes")
    wanted = simulate(sc.parse(text), 0).groups["w"]
    assert code == 1 and not report["expect"]["met"]
    assert (report["groups"]["w"]["done"], report["groups"]["w"]["failed"]) == (wanted.done, wanted.failed)
    (kept,) = folder.glob("diana-run-*")
    assert str(kept) in said and list(kept.glob("*-node.log"))
    assert not [path for path in kept.iterdir() if path.is_dir()], "keys and journals are gone"


def test_data_users_orders_and_groups_that_wait_run_as_in_the_simulator(folder: Path) -> None:
    """SPEC U11: the simulator's scenario file on real processes."""
    text = """version = 1
report = ["groups", "sites"]
sites = [
    { name = "a", slots = 3, machines = [{ name = "m1", slots = 2 }] },
    { name = "b", slots = 4 },
    { name = "hidden", slots = 2, dial_only = true },
]
default_link = { latency_s = 0.002, bytes_per_s = 20e6 }
users = [{ name = "ann@lab" }, { name = "bob@lab" }]
datasets = [{ name = "raw", site = "b", files = 8, file_bytes = 300000 }]
[[workload]]
name = "reads"
site = "a"
user = "bob@lab"
jobs = 8
inputs = ["raw"]
file_per_job = true
output_bytes = 500
produces = "cooked"
[[workload]]
name = "after"
site = "a"
user = "bob@lab"
jobs = 4
inputs = ["cooked"]
[[workload]]
name = "held"
site = "a"
jobs = 90
work_s = 1.0
hold_s = 0.5
release_s = 8.0
[[workload]]
name = "dropped"
site = "b"
jobs = 30
work_s = 30.0
cancel_s = 3.0
[[workload]]
name = "planned"
site = "a"
jobs = 6
forced = { b = 3, hidden = 3 }
[expect]
done = 108
"""
    code, report, said = run(text, folder)
    assert code == 0, f"{report}\n{said}"
    groups = report["groups"]
    assert {name: one["done"] for name, one in groups.items()} == {
        "reads": 8,
        "after": 4,
        "held": 90,
        "dropped": 0,
        "planned": 6,
    }
    assert groups["dropped"]["state"] == "cancelled" and groups["planned"]["sites"] == {"b": 3, "hidden": 3}
    assert groups["held"]["makespan_s"] > 8.0
    assert left_behind(folder) == []


def test_a_run_that_is_broken_off_leaves_nothing_behind(folder: Path) -> None:
    (folder / "s.toml").write_text(ROUGH)
    environment = {**os.environ, "PYTHONPATH": str(REPO), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "diana.cli", "scenario", "run", str(folder / "s.toml")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "submitted" not in (line := process.stderr.readline()):
            assert line, "it ended before it had submitted anything"
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 130
    until(lambda: not [one for one in left_behind(folder) if "/" not in one], "all processes have ended", 60.0)


def test_a_speed_up_divides_times_and_the_report_is_in_the_scenarios_seconds(folder: Path) -> None:
    text = ROUGH.partition("[[events]]")[0].replace("work_s = 2.0", "work_s = 60.0")
    began = time.monotonic()
    code, report, said = run(text, folder, "--speed-up", "60")
    assert code == 0, said
    wanted = simulate(sc.parse(text), 0).groups["w"].makespan_s
    took = report["groups"]["w"]["makespan_s"]
    assert report["speed_up"] == 60 and took > wanted * 0.9
    timely(took, wanted * 4, "the group")
    timely(time.monotonic() - began, 100, "the run")
