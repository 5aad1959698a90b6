"""Processors and memory that control groups leave of a machine, read from trees of files as the kernel shows them, and
from the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diana.adapters.lrm.cgroups import bounds
from diana.adapters.lrm.cgroups.found import UNIFIED, place
from diana.node.config.site_file import load_config

GIB = 1 << 30
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 {0} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1 += "35 31 0:32 {0} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def tree(root: Path, own: str, mounts: str, **files: str) -> Path:
    """`files`: paths below /sys/fs/cgroup, with __ for a slash and ___ for a point."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    (root / "proc/self/mountinfo").write_text("22 1 254:1 / / rw - ext4 /dev/vda rw\n" + mounts)
    (root / "sys/fs/cgroup").mkdir(parents=True)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("___", ".").replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("quota", "count", "told"),
    [
        ("max 100000", 8, 0),
        ("250000 100000", 2, 2.5),
        ("50000 100000", 1, 0.5),
        ("900000 100000", 8, 0),
        ("nonsense", 8, 0),
        ("100000 0", 8, 0),
    ],
)
def test_a_quota_is_rounded_down_and_leaves_one(tmp_path: Path, quota: str, count: int, told: float) -> None:
    root = tree(tmp_path, "0::/a\n", V2, a__cpu___max=quota)
    assert bounds.processors(root) == (count, told)


def test_the_least_quota_of_a_group_and_all_above_it_counts(tmp_path: Path) -> None:
    quotas = {"a__cpu___max": "300000 100000", "a__b__cpu___max": "max 100000", "a__b__c__cpu___max": "700000 100000"}
    root = tree(tmp_path, "0::/a/b/c\n", V2, other__cpu___max="100000 100000", **quotas)
    assert bounds.processors(root) == (3, 3.0)


@pytest.mark.parametrize(("mounted", "own"), [("/", "/docker/x"), ("/docker/x", "/docker/x"), ("/docker/x", "/")])
def test_groups_of_version_1_count_also_where_a_container_sees_but_its_own(
    tmp_path: Path, mounted: str, own: str
) -> None:
    below = "" if mounted != "/" or own == "/" else "docker__x__"
    files = {
        f"cpu,cpuacct__{below}cpu___cfs_quota_us": "150000\n",
        f"cpu,cpuacct__{below}cpu___cfs_period_us": "50000\n",
        f"memory__{below}memory___limit_in_bytes": f"{GIB >> 4}\n",
    }
    root = tree(tmp_path, f"5:memory:{own}\n3:cpu,cpuacct:{own}\n1:name=systemd:/x\n", V1.format(mounted), **files)
    assert bounds.processors(root) == (3, 3.0)
    assert bounds.memory_bytes(root) == GIB >> 4


def test_no_limit_leaves_the_machine(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    none = {"cpu,cpuacct__cpu___cfs_quota_us": "-1\n", "cpu,cpuacct__cpu___cfs_period_us": "100000\n"}
    root = tree(tmp_path / "v1", "5:memory:/\n3:cpu,cpuacct:/\n", V1.format("/"), **none)
    (root / "sys/fs/cgroup/memory").mkdir()
    (root / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert bounds.processors(root) == (8, 0) and bounds.memory_bytes(root) == machine
    root = tree(tmp_path / "v2", "0::/a\n", V2, a__memory___max="max\n")
    assert bounds.memory_bytes(root) == machine
    (tmp_path / "nothing").mkdir()
    assert bounds.processors(tmp_path / "nothing") == (8, 0)
    assert bounds.memory_bytes(tmp_path / "nothing") == machine


def test_the_least_memory_of_a_group_and_all_above_it_counts(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/a/b\n", V2, a__memory___max=f"{GIB >> 3}\n", a__b__memory___max="max\n")
    assert bounds.memory_bytes(root) == GIB >> 3


def test_a_group_is_found_where_the_mount_has_blanks_and_the_group_is_gone(tmp_path: Path) -> None:
    mount = "30 23 0:26 / /sys/fs/cgroup/my\\040own rw - cgroup2 none rw\n"
    root = tree(tmp_path, "0::/a/b (deleted)\n", mount)
    assert place(UNIFIED, root) is None
    (root / "sys/fs/cgroup/my own/a/b").mkdir(parents=True)
    found = place(UNIFIED, root)
    assert found is not None and found.folder == root / "sys/fs/cgroup/my own/a/b"
    (root / "proc/self/cgroup").write_text("0::/../x\n")
    assert place(UNIFIED, root) is None


@pytest.fixture
def limited() -> Iterator[Callable[..., Path]]:
    """Makes a real group of version 1 with a value in a file of it."""
    made: list[Path] = []

    def make(controller: str, name: str, value: str) -> Path:
        own = place(controller)
        if own is None:
            pytest.skip(f"no {controller} hierarchy of cgroup v1 is mounted here")
        folder = own.folder / f"diana-test-{os.getpid()}"
        try:
            folder.mkdir()
            made.append(folder)
            (folder / name).write_text(value)
        except OSError as fault:
            pytest.skip(f"no group can be made in the {controller} hierarchy here: {fault}")
        return folder

    yield make
    for folder in made:
        folder.rmdir()


def init(folder: Path, site: Path, *words: str) -> str:
    """`diana init` typed in a shell within a control group."""
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    command = [sys.executable, "-m", "diana.cli", "init", "alpha", "--data", str(site), *words]
    done = subprocess.run(
        ["sh", "-c", script, str(folder), *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done
    return done.stdout + done.stderr


def test_a_site_made_under_a_real_quota_has_as_many_slots_and_says_why(
    limited: Callable[..., Path], tmp_path: Path
) -> None:
    folder = limited("cpu", "cpu.cfs_quota_us", "150000")
    said = init(folder, tmp_path / "quota")
    assert load_config(tmp_path / "quota/site.toml").settings.slots == 1
    assert "1 slot, since a control group's CPU quota leaves 1.5 processors here; --slots N says otherwise" in said
    said = init(folder, tmp_path / "named", "--slots", "3")
    assert load_config(tmp_path / "named/site.toml").settings.slots == 3 and "quota" not in said


def test_a_site_made_under_a_real_limit_of_memory_has_that(limited: Callable[..., Path], tmp_path: Path) -> None:
    folder = limited("memory", "memory.limit_in_bytes", str(GIB))
    init(folder, tmp_path / "site")
    assert load_config(tmp_path / "site/site.toml").settings.memory_bytes == GIB
