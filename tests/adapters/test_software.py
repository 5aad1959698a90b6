"""What stands before a job's command makes it ready or says that it cannot: real shells; `tests/clusters` has real
containers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from diana.adapters.lrm.software import Software, check
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT
from diana.model.ids import SubgroupId
from diana.model.layout import DataDir
from diana.model.spec import GroupSpec

PART = SubgroupId("alpha-1/0")
SAYS = ["/bin/sh", "-c", 'echo "$GREETING|$module|$1|$2"', "x", "a  b'c", "$HOME"]


def spec(container: str = "", *modules: str) -> GroupSpec:
    return GroupSpec(argv=("true",), container=container, modules=modules)


def run(before: Sequence[str], argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(cwd)}
    return subprocess.run([*before, *argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_jobs_that_ask_for_nothing_are_left_as_they_are(tmp_path: Path) -> None:
    assert Software(container="podman", modules={"*": "false"}).before(spec(), PART, DataDir(tmp_path)) == []


def test_modules_are_made_ready_in_the_order_they_are_asked_for_and_words_stay_what_they_are(tmp_path: Path) -> None:
    software = Software(modules={"one": "export GREETING=one", "*": 'export GREETING="$GREETING+$module"'})
    done = run(software.before(spec("", "one", "it's/2"), PART, DataDir(tmp_path)), SAYS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "one+it's/2||a  b'c|$HOME\n"), done.stderr
    # The command becomes the process: what ends it ends all there is.
    assert run(software.before(spec("", "one"), PART, DataDir(tmp_path)), ["/bin/sh", "-c", "kill -9 $$"], tmp_path)


@pytest.mark.parametrize("line", ["false", "no-such-command", "(exit 3)"])
def test_a_module_that_cannot_be_made_ready_ends_the_job_before_its_command(tmp_path: Path, line: str) -> None:
    software = Software(modules={"gcc/12": line})
    done = run(software.before(spec("", "gcc/12"), PART, DataDir(tmp_path)), ["touch", "began"], tmp_path)
    assert done.returncode == UNREADY_EXIT and "diana: module gcc/12 could not be made ready" in done.stderr
    assert not (tmp_path / "began").exists()


def test_what_a_site_does_not_have_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"want module root, which software.modules in site.toml does not have"):
        Software(modules={"gcc": "true"}).before(spec("", "gcc", "root"), PART, DataDir(tmp_path))
    with pytest.raises(ValueError, match=r"software.container in site.toml names no program"):
        Software().before(spec("image"), PART, DataDir(tmp_path))


def test_an_image_or_a_program_that_is_not_on_the_machine_ends_the_job_before_its_command(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "find", "readlink", "sed", "sort", "grep", "id"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    before = Software(container="apptainer").before(spec(f"{tmp_path}/image.sif"), PART, DataDir(tmp_path))
    bare = {"PATH": f"{tmp_path}/bin"}
    done = subprocess.run([*before, "true"], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (UNREADY_EXIT, "diana: apptainer is not on this machine\n")
    # A program by that name that shows what it is told: the words a real one gets.
    (tmp_path / "bin" / "apptainer").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    done = subprocess.run([*before, "true"], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (UNREADY_EXIT, f"diana: {tmp_path}/image.sif is not on this machine\n")
    (tmp_path / "image.sif").write_text("")
    apart = tmp_path / "a part"
    apart.mkdir()
    (apart / "file").write_text("")
    work = DataDir(tmp_path).job(PART, 1, 0)
    work.mkdir(parents=True)
    (work / "file").symlink_to(apart / "file")
    done = subprocess.run([*before, "cat", "a b"], cwd=work, env=bare, capture_output=True, text=True, check=False)
    jobs = DataDir(tmp_path).jobs(PART)
    assert done.stdout.splitlines() == [
        *("exec", "--pwd", str(work)),
        *("--bind", f"{jobs}:{jobs}:ro", "--bind", f"{apart}:{apart}:ro", "--bind", f"{work}:{work}"),
        *(f"{tmp_path}/image.sif", "cat", "a b"),
    ]


@pytest.mark.parametrize("modules", [{"": "true"}, {"a\nb": "true"}, {"a": " "}, {"a" * 101: "true"}])
def test_names_and_lines_that_cannot_stand_are_refused(modules: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="modules"):
        check(Software(modules=modules))
