"""Lines before a job's command make its software ready or say that they cannot: real shells; `tests/clusters` has real
containers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from diana.adapters.lrm.software import Software, check
from diana.adapters.lrm.spawner import runner
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT, UNREADY_FILE
from diana.model.ids import SubgroupId
from diana.model.job.spec import GroupSpec, InputFile
from diana.model.layout import DataDir

PART = SubgroupId("alpha-1/0")
SAYS = ["/bin/sh", "-c", 'echo "$GREETING|$module|$1|$2"', "x", "a  b'c", "$HOME"]


def spec(container: str = "", *modules: str) -> GroupSpec:
    return GroupSpec(argv=("true",), container=container, modules=modules)


def run(before: Sequence[str], argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(cwd), "DIANA_JOB": "alpha-1.0", "DIANA_ATTEMPT": "1"}
    return subprocess.run([*before, *argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_jobs_that_ask_for_nothing_are_left_as_they_are(tmp_path: Path) -> None:
    assert Software(container="podman", modules={"*": "false"}).before(spec(), PART, DataDir(tmp_path)) == []


def test_modules_are_made_ready_in_the_order_they_are_asked_for_and_words_stay_what_they_are(tmp_path: Path) -> None:
    software = Software(modules={"one": "export GREETING=one", "*": 'export GREETING="$GREETING+$module"'})
    done = run(software.before(spec("", "one", "it=2"), PART, DataDir(tmp_path)), SAYS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "one+it=2||a  b'c|$HOME\n"), done.stderr
    # The command becomes the process: what ends it ends all there is.
    killed = run(software.before(spec("", "one"), PART, DataDir(tmp_path)), ["/bin/sh", "-c", "kill -9 $$"], tmp_path)
    assert killed.returncode == -9


def test_what_a_line_changes_of_the_shell_stays_with_it(tmp_path: Path) -> None:
    line = "set -- other words; cd /; IFS=x; set -eu; GREETING=kept; export GREETING"
    before = Software(modules={"a": line}).before(spec("", "a"), PART, DataDir(tmp_path))
    done = run(before, SAYS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "kept||a  b'c|$HOME\n"), done.stderr
    assert run(before, ["pwd"], tmp_path).stdout.strip() == str(tmp_path)


def test_a_command_may_end_with_any_code(tmp_path: Path) -> None:
    before = Software(modules={"a": "true"}).before(spec("", "a"), PART, DataDir(tmp_path))
    assert run(before, ["/bin/sh", "-c", "exit 125"], tmp_path).returncode == UNREADY_EXIT
    assert not list(tmp_path.iterdir())


LINES = (
    *("false", "no-such-command", "(exit 3)", "exit 3", "exit 0", "return 1", ". /no/such/file", ": ${NO_SUCH:?}"),
    *("set -eu; echo $NO_SUCH", "set -e; false; true; exit", "if", "echo 'no end", "export 1=2"),
)
UNSEEN = ("trap - EXIT; exit 0", "exec true", "set -n", "trap : 0; exit 0", "cd /usr; exit 1")


@pytest.mark.parametrize("line", LINES)
def test_a_module_that_cannot_be_made_ready_ends_the_job_before_its_command(tmp_path: Path, line: str) -> None:
    software = Software(modules={"gcc/12": line})
    done = run(software.before(spec("", "gcc/12"), PART, DataDir(tmp_path)), ["touch", "began"], tmp_path)
    assert done.returncode == UNREADY_EXIT and "diana: module gcc/12 could not be made ready" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"{UNREADY_FILE}.alpha-1.0.1"]


@pytest.mark.parametrize("line", UNSEEN)
def test_whatever_a_line_does_the_command_is_known_not_to_have_begun(tmp_path: Path, line: str) -> None:
    before = Software(modules={"a": line}).before(spec("", "a"), PART, DataDir(tmp_path))
    run(before, ["touch", "began"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{UNREADY_FILE}.alpha-1.0.1"]


def test_what_a_site_does_not_have_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"want module root, which software.modules in site.toml does not have"):
        Software(modules={"gcc": "true"}).before(spec("", "gcc", "root"), PART, DataDir(tmp_path))
    with pytest.raises(ValueError, match=r"software.container in site.toml names no program"):
        Software().before(spec("image"), PART, DataDir(tmp_path))


def test_an_image_or_a_program_that_is_not_on_the_machine_ends_the_job_before_its_command(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "find", "readlink", "sed", "sort", "grep", "id"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    read = GroupSpec(
        argv=("true",), container=f"{tmp_path}/image.sif", inputs=(InputFile(source="dataset:d/file", path="file"),)
    )
    before = Software(container="apptainer").before(read, PART, DataDir(tmp_path))
    bare = {"PATH": f"{tmp_path}/bin", "TMPDIR": str(tmp_path / "bin")}
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
        *("--bind", f"{tmp_path}/bin:{tmp_path}/bin"),
        *(f"{tmp_path}/image.sif", "cat", "a b"),
    ]


@pytest.mark.parametrize("modules", [{"": "true"}, {"a\nb": "true"}, {"a": " "}, {"a" * 201: "true"}, {"a b": "true"}])
def test_names_and_lines_that_cannot_stand_are_refused(modules: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="modules"):
        check(Software(modules=modules))


IMAGES = ("--privileged", " a", "a\nb", "x" * 201)


@pytest.mark.parametrize("name", [*IMAGES, "", "a;b", "$(a)", "a b", "*"])
def test_names_that_cannot_be_names_reach_no_command(tmp_path: Path, name: str) -> None:
    """A spec may come from a peer that checks nothing."""
    everything = Software(container="podman", modules={"*": "true"})
    for bad in (spec("", name), *([spec(name)] if name in IMAGES else [])):
        with pytest.raises(ValueError, match="by a name that cannot be one"):
            everything.before(bad, PART, DataDir(tmp_path))


def test_a_data_directory_with_a_colon_cannot_be_seen_in_a_container(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="whose name has a colon"):
        Software(container="podman").before(spec("image"), PART, DataDir(tmp_path / "a:b"))


def test_why_a_job_could_not_begin_is_read_of_no_file_but_one_of_its_own(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_text("no folder\n/data here")
    assert runner._line(str(told)) == "no folder /data here"
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for made in (lambda p: p.hardlink_to(secret), lambda p: p.symlink_to(secret), os.mkfifo):
        told.unlink()
        made(told)
        assert runner._line(str(told)) == ""
