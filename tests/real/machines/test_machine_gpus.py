"""GPUs of a node and of its member, by real processes: as many jobs at once as there are devices, none with two jobs,
while both are killed and started again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from diana.errors import Unplaceable
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.joining import invited, planned
from tests.real.members import Machine, add_member

JOBS = 20
HAS = {"main": {"0", "1"}, "m1": {"GPU-8932f937"}}


def declare(site: Site, *gpus: str) -> None:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, gpus=gpus))


def job(marks: Path, pause_s: float, gpus: int = 1, jobs: int = JOBS) -> dict[str, object]:
    """Both lines are written while the job has its devices."""
    what = "$DIANA_INDEX $DIANA_ATTEMPT $DIANA_MACHINE $CUDA_VISIBLE_DEVICES"
    script = f'echo "begin {what}" >> {marks}; sleep {pause_s}; echo "end {what}" >> {marks}'
    return {
        "group": {"command": ["sh", "-c", script], "on_crash": "hold"},
        "sweep": {"array": f"0-{jobs - 1}"},
        "resources": {"gpus": gpus, "work": 30.0},
    }


def used(marks: Path) -> tuple[int, dict[str, set[str]]]:
    """(the most devices in use at once, machine -> those that were); AssertionError where one had two jobs."""
    now: dict[tuple[str, str], str] = {}
    most, seen = 0, dict[str, set[str]]()
    for line in marks.read_text().splitlines():
        what, index, _, machine, devices = line.split(" ")
        for device in devices.split(","):
            if what == "begin":
                assert (machine, device) not in now, f"{line}: job {now[machine, device]} has it"
                now[machine, device] = index
                seen.setdefault(machine, set()).add(device)
            else:
                assert now.pop((machine, device)) == index, line
        most = max(most, len(now))
    assert not now
    return most, seen


def begun(marks: Path) -> int:
    return marks.read_text().count("begin") if marks.exists() else 0


def test_each_device_has_one_job_at_a_time_while_the_node_and_its_member_are_killed_and_come_back(grid: Grid) -> None:
    root = grid.add("alpha", slots=8)
    grid.join()
    declare(root, *sorted(HAS["main"]))
    root.start()
    member = add_member(grid, root, "m1", slots=8)
    declare(member, *HAS["m1"])
    member.start()
    marks = grid.root / "marks"
    with root.client() as client:
        group = client.submit(job(marks, 0.4)).group
        until(lambda: begun(marks) >= 5, "some have begun", 20.0)
    root.kill()
    # Jobs run on while nobody counts them here.
    time.sleep(0.2)
    root.start()
    until(lambda: begun(marks) >= 10, "others have begun", 30.0)
    member.kill()
    member.start()
    with root.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
        most, seen = used(marks)
        assert (most, seen) == (3, HAS)
        assert marks.read_text().count("begin") == JOBS

        # Two at once are to be had of the node alone; three nowhere, which is said in one line.
        both = grid.root / "both"
        pair = client.submit(job(both, 0.05, gpus=2, jobs=4)).group
        assert client.wait(pair, timeout_s=30).state == "done"
        assert used(both) == (2, {"main": HAS["main"]})
        with pytest.raises(Unplaceable, match=r"has 2 GPUs for one job, a job needs 3 \(takes it if gpus <= 2"):
            client.submit(job(both, 0.05, gpus=3, jobs=1))

        # A job that is killed gives its devices back.
        last = grid.root / "last"
        long = client.submit(job(last, 60.0, gpus=2, jobs=1)).group
        until(lambda: begun(last) == 1, "it runs", 20.0)
        client.cancel(long)
        again = client.submit(job(both, 0.05, gpus=2, jobs=1)).group
        assert client.wait(again, timeout_s=30).state == "done"


def test_a_site_made_with_what_it_shows_and_a_machine_joined_with_a_number_give_them_to_jobs(grid: Grid) -> None:
    """`--gpus`, by the commands an operator gives."""
    listing = grid.root / "bin" / "nvidia-smi"
    listing.parent.mkdir()
    listing.write_text('#!/bin/sh\necho "GPU 0: NVIDIA T4 (UUID: GPU-8932f937-d72c)"\n')
    listing.chmod(0o755)
    root = planned(grid, "alpha")
    words = ("init", "alpha", "--slots", "4", "--gpus", "auto", "--data", str(root.data), "--listen", root.address)
    made = subprocess.run(
        [sys.executable, "-m", "diana.cli", *words],
        env={**root.environment(), "PATH": f"{listing.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert made.returncode == 0 and ", 4 slots, 1 GPU, at" in made.stdout, made
    root.start()
    member = Machine("m1", grid.root / "m1", 0, grid.mark)
    grid.sites["m1"] = member
    words = ("join", invited(grid, root, "--member", "m1"), "--data", str(member.data), "--slots", "4", "--gpus", "2")
    joined = grid.run(root, *words)
    assert joined.returncode == 0 and joined.stdout.splitlines()[0].endswith(", 2 GPUs"), joined
    member.start()
    marks = grid.root / "marks"
    with root.client() as client:
        until(lambda: client.sites()[0].slots == 8, "both machines are there", 20.0)
        group = client.submit(job(marks, 0.1, jobs=12)).group
        assert client.wait(group, timeout_s=60).state == "done"
    assert used(marks) == (3, {"main": {"0"}, "m1": {"0", "1"}})
    # What was declared there is nowhere on this machine.
    told = grid.run(root, "doctor", "--data", str(member.data))
    assert told.returncode == 1
    assert "fail  gpus" in told.stdout and "2 declared, this machine shows none" in told.stdout, told.stdout
