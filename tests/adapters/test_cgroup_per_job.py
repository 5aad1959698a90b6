"""Where groups of jobs are made and what is asked of the kernel there, over trees of files as it shows them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from diana.adapters.lrm.cgroups.per_job import NOTE, JobCgroups, Spent, noted

MIB = 1 << 20


class Machine:
    """A tree in which the kernel's part, the files of a new group, is there beforehand."""

    def __init__(self, root: Path, own: str) -> None:
        self.root, self.spawner = root / "machine", root / "spawner"
        self.spawner.mkdir(parents=True)
        self.top = self.root / "sys/fs/cgroup"
        (self.root / "proc/self").mkdir(parents=True)
        (self.root / "proc/self/cgroup").write_text(f"0::{own}\n")
        (self.root / "proc/self/mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        status = os.stat(self.spawner)
        self.prefix = f"diana-{status.st_dev}-{status.st_ino}."
        self.own = self.group(own, events=own != "/")

    def group(self, path: str, *, events: bool = True, memory: bool = False) -> Path:
        folder = self.top / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (folder / name).write_text("")
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        if events:
            (folder / "cgroup.events").write_text("populated 0\nfrozen 0\n")
        if memory:
            for name, text in (("max", "max\n"), ("swap.max", ""), ("oom.group", "")):
                (folder / f"memory.{name}").write_text(text)
        return folder

    def fit(self, base: str, *, memory: bool = True) -> None:
        """Have the trial in a group find what the kernel would make."""
        self.group(f"{base}/{self.prefix}trial", memory=memory)

    def systemd(self) -> None:
        (self.root / "run/systemd/system").mkdir(parents=True)

    def look(self) -> JobCgroups:
        return JobCgroups(self.spawner, self.root)


@pytest.fixture
def in_unit(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, "/s/unit/node")
    machine.group("/s/unit")
    return machine


def test_the_root_of_all_groups_hands_out_memory_though_it_holds_processes(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/")
    machine.fit("/")
    standing = machine.look().standing
    assert standing == (str(machine.top), True, "") == noted(machine.spawner)
    assert (machine.top / "cgroup.subtree_control").read_text() == "+memory"


def test_the_root_that_a_container_sees_is_no_inner_node(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/")
    machine.group("/")
    machine.fit("/")
    standing = machine.look().standing
    assert (standing.base, standing.held) == (str(machine.top), False)
    assert standing.why == "a group that holds processes hands out no memory"
    assert (machine.top / "cgroup.subtree_control").read_text() == ""


def test_a_unit_that_has_its_node_in_a_group_of_its_own_hands_out_memory(in_unit: Machine) -> None:
    in_unit.fit("/s/unit")
    assert in_unit.look().standing == (str(in_unit.top / "s/unit"), True, "")
    # There and back.
    assert (in_unit.own / "cgroup.procs").read_text() == "0"
    assert (in_unit.top / "s/unit" / f"{in_unit.prefix}trial/cgroup.procs").read_text() == "0"
    assert (in_unit.own / "cgroup.subtree_control").read_text() == ""


def test_a_group_that_systemd_delegated_to_nobody_is_left_alone(in_unit: Machine) -> None:
    in_unit.systemd()
    in_unit.fit("/s/unit")
    standing = in_unit.look().standing
    assert standing == ("", False, f"{in_unit.own} is systemd's own: its unit lacks Delegate=yes")
    assert (in_unit.own / "cgroup.procs").read_text() == ""


def test_a_delegated_unit_is_taken(in_unit: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = in_unit.top / "s/unit"
    marked = {(unit, "user.delegate")}

    def attribute(path: Path, name: str) -> bytes:
        if (path, name) not in marked:
            raise OSError(61, "No data available")
        return b"1"

    monkeypatch.setattr(os, "getxattr", attribute)
    in_unit.systemd()
    in_unit.fit("/s/unit")
    assert in_unit.look().standing.base == str(unit)
    # The unit's own group, where nobody stands between: it must not hand out anything.
    marked = {(in_unit.own, "trusted.delegate")}
    in_unit.fit("/s/unit/node")
    assert in_unit.look().standing[:2] == (str(in_unit.own), False)
    assert (in_unit.own / "cgroup.subtree_control").read_text() == ""


def test_a_node_within_a_job_has_the_groups_of_its_jobs_in_that_of_the_job(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/s/unit/diana-7-8.alpha-1_0.1.0.1")
    for base in ("/s/unit", "/s/unit/diana-7-8.alpha-1_0.1.0.1"):
        machine.group(base)
        machine.fit(base)
    assert machine.look().standing[:2] == (str(machine.own), False)


@pytest.mark.parametrize("lacks", ["controller", "limit"])
def test_without_a_limit_of_memory_membership_is_left(in_unit: Machine, lacks: str) -> None:
    in_unit.fit("/s/unit", memory=lacks != "limit")
    if lacks == "controller":
        (in_unit.top / "s/unit/cgroup.controllers").write_text("cpu pids\n")
    standing = in_unit.look().standing
    assert standing.base == str(in_unit.top / "s/unit") and not standing.held and standing.why


def test_a_limit_is_one_without_swap_that_ends_the_whole_job(in_unit: Machine) -> None:
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    folder = in_unit.group(f"/s/unit/{in_unit.prefix}alpha-1_0.1.0.1", memory=True)
    path = groups.enter("alpha-1_0.1.0.1")
    assert path == str(folder) and groups.leave()
    groups.limit(path, 200 * MIB)
    said = {name: (folder / f"memory.{name}").read_text() for name in ("max", "swap.max", "oom.group")}
    assert said == {"max": str(200 * MIB), "swap.max": "0", "oom.group": "1"}
    # A job without a limit has none.
    other = in_unit.group(f"/s/unit/{in_unit.prefix}alpha-1_0.1.1.1", memory=True)
    groups.limit(groups.enter("alpha-1_0.1.1.1"), 0)
    assert (other / "memory.max").read_text() == "max\n"
    # A kernel without swap has no file for it.
    (folder / "memory.swap.max").unlink()
    groups.limit(path, 100 * MIB)
    assert (folder / "memory.max").read_text() == str(100 * MIB)


def test_a_job_has_no_more_processes_than_it_may_where_the_kernel_counts_them(in_unit: Machine) -> None:
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    groups.most_processes = 300
    counted, other = (in_unit.group(f"/s/unit/{in_unit.prefix}alpha-1_0.1.{index}.1") for index in range(2))
    (counted / "pids.max").write_text("max\n")
    for index in range(2):
        groups.limit(groups.enter(f"alpha-1_0.1.{index}.1"), 0)
    assert (counted / "pids.max").read_text().startswith("300")
    assert not (other / "pids.max").exists()


@pytest.mark.parametrize(
    ("events", "local", "over", "peak_mib"),
    [
        # Its own limit; one that a job set within it; the machine's memory.
        ("oom 1\noom_kill 2\n", "oom 1\noom_kill 2\n", True, 100),
        ("oom 1\noom_kill 2\n", "oom 0\noom_kill 0\n", False, 70),
        ("oom 0\noom_kill 1\n", "oom 0\noom_kill 1\n", False, 70),
        ("oom 1\noom_kill 0\n", "oom 1\noom_kill 0\n", False, 70),
    ],
)
def test_what_the_kernel_counted_of_a_job(in_unit: Machine, events: str, local: str, over: bool, peak_mib: int) -> None:
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    folder = in_unit.group(f"/s/unit/{in_unit.prefix}x")
    assert groups.spent(str(folder)) == Spent(0, over=False)
    (folder / "memory.peak").write_text(f"{100 * MIB}\n")
    (folder / "memory.stat").write_text(f"anon 5\nfile {40 * MIB}\nshmem {10 * MIB}\n")
    (folder / "memory.events").write_text(events)
    (folder / "memory.events.local").write_text(local)
    assert groups.spent(str(folder)) == Spent(peak_mib * MIB, over)
    assert groups.spent("") == Spent(0, over=False)


def test_whatever_fails_a_job_runs_without_a_group_and_one_line_says_so(
    in_unit: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    assert capfd.readouterr().err == ""
    # The kernel made no file: as when there is no room for one.
    assert [groups.enter(f"alpha-1_0.1.{index}.1") for index in range(3)] == ["", "", ""]
    (line,) = capfd.readouterr().err.splitlines()
    assert "a job runs without a control group: " in line and line.endswith("No such file or directory"), line
    assert not (in_unit.top / "s/unit" / f"{in_unit.prefix}alpha-1_0.1.0.1").exists()
    folder = in_unit.group(f"/s/unit/{in_unit.prefix}x")
    groups.limit(groups.enter("x"), MIB)
    assert "a job's memory is sampled alone: " in capfd.readouterr().err and folder.exists()


def test_nothing_is_made_where_nothing_may_be(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    machine = Machine(tmp_path, "/a")
    (machine.root / "proc/self/mountinfo").write_text("")
    groups = machine.look()
    assert groups.standing == ("", False, "no cgroup v2 is mounted here") == noted(machine.spawner)
    assert groups.enter("x") == groups.find("x") == "" and not groups.kill("")
    groups.sweep([], [])
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_names_of_runs_are_names_of_groups_whatever_they_hold(in_unit: Machine) -> None:
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    strange = ("alpha-1_0.1.0.1", "../../x", "a/b", "a\nb", "x" * 400, "")
    paths = {run: Path(groups._path("/base", run)) for run in strange}
    assert len({*paths.values()}) == len(strange)
    for path in paths.values():
        assert path.parent == Path("/base") and path.name.startswith(in_unit.prefix) and len(path.name) < 255


def test_groups_of_an_earlier_place_are_found_and_swept_and_nobody_elses_touched(in_unit: Machine) -> None:
    earlier = in_unit.group("/s/session")
    for name in ("alpha-1_0.1.0.1", "alpha-1_0.1.1.1"):
        (earlier / f"{in_unit.prefix}{name}").mkdir()
    (earlier / f"{in_unit.prefix.replace('.', '0.')}alpha-1_0.1.1.1").mkdir()
    (in_unit.spawner / NOTE).write_text(json.dumps({"bases": [str(earlier), "/gone"], "base": "", "held": False}))
    in_unit.fit("/s/unit")
    groups = in_unit.look()
    kept = groups.find("alpha-1_0.1.0.1")
    assert kept == str(earlier / f"{in_unit.prefix}alpha-1_0.1.0.1") and groups.find("alpha-1_0.1.7.1") == ""
    groups.sweep([kept], [])
    left = sorted(path.name for path in earlier.iterdir() if path.is_dir())
    assert left == sorted([f"{in_unit.prefix}alpha-1_0.1.0.1", f"{in_unit.prefix.replace('.', '0.')}alpha-1_0.1.1.1"])
    bases = json.loads((in_unit.spawner / NOTE).read_text())["bases"]
    assert bases == [str(earlier), str(in_unit.top / "s/unit")]


def test_a_node_that_a_job_started_keeps_its_jobs_below_that_job(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/s/diana-7-8.alpha-1_0.1.0.1")
    machine.group("/s")
    machine.fit("/s")
    machine.fit("/s/diana-7-8.alpha-1_0.1.0.1")
    assert machine.look().standing[:2] == (str(machine.own), False)


@pytest.mark.parametrize("text", ["", "[1]", '{"base": 1}', "{", '{"bases": 7}', '{"bases": [7, null, "\\u0000"]}'])
def test_a_note_that_is_none_is_passed_over(in_unit: Machine, text: str) -> None:
    (in_unit.spawner / NOTE).write_text(text)
    assert noted(in_unit.spawner) is None
    in_unit.fit("/s/unit")
    assert in_unit.look().standing.base == str(in_unit.top / "s/unit")
