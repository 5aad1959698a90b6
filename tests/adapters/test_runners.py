"""Runners of gangs that an operator installed: their words stand before each component's command, and none of their
answers is believed (SPEC K6)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.runners import installed
from diana.adapters.lrm.runners.interface import GangToRun, Launch
from diana.adapters.lrm.software import Software
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT
from diana.model.job.components import components_of
from diana.model.job.software import is_runner, lacking, needed, plain, unknown_runner
from diana.model.job.spec import FlexibleSpec, GroupSpec, Resources
from diana.model.layout import DataDir
from tests.adapters.test_mpi_launcher import PART
from tests.entry_points import install

RUNNERS = """
from diana.adapters.lrm.runners.interface import Launch

def told(gang):
    every = ",".join(map(str, gang.every)) or "unknown"
    return Launch(("env", f"EVERY={every}", f"OWN={gang.processors}"), ("env",))

def lacks(gang):
    return Launch(("no-such-launcher", "--go"), ("no-such-launcher",))

def needs(gang):
    return Launch(programs=("no-such-program",))

def raises(gang):
    raise RuntimeError("out of\\nluck")

def text(gang):
    return Launch("mpirun -n 4")

def once(gang):
    return Launch(each for each in ("mpirun", 4))

def looks(gang):
    return Launch(programs=("no-such-launcher",))

def number(gang):
    return Launch(("mpirun", 4))

def zero(gang):
    return Launch(("a\\0b",))

def many(gang):
    return Launch(("x",) * 1000)

def other(gang):
    return ["mpirun"]

def ends(gang):
    raise SystemExit(3)

no_function = 7
"""
NAMES = (
    *("told", "lacks", "looks", "needs", "raises", "text", "once", "number", "zero", "many", "other", "ends"),
    *("no_function", "absent", "mpi"),
)


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with runners, as an operator installs one."""
    monkeypatch.syspath_prepend(str(install(tmp_path, "lab_runners", RUNNERS, installed.GROUP, NAMES)))
    installed.found.cache_clear()
    yield
    sys.modules.pop("lab_runners", None)
    installed.found.cache_clear()


def gang(runner: str) -> GroupSpec:
    return GroupSpec(
        argv=("sh", "-c", 'echo "$EVERY $OWN $1"', "sh", "it's"), components=components_of("1x2+1x1"), runner=runner
    )


def run(spec: GroupSpec, root: Path) -> subprocess.CompletedProcess[str]:
    before = Software().before(spec, PART, DataDir(root / "data"))
    told = {"PATH": "/usr/bin:/bin", "TMPDIR": str(root), "DIANA_JOB": "a-1.0", "DIANA_ATTEMPT": "1"}
    return subprocess.run([*before, *spec.argv], cwd=root, env=told, capture_output=True, text=True, check=False)


def test_the_words_of_a_runner_stand_before_the_command_and_it_knows_all_components(tmp_path: Path) -> None:
    done = run(gang("told"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2,1 1 it's\n", "")


def test_a_runner_of_a_flexible_gang_knows_its_own_processors_alone(tmp_path: Path) -> None:
    spec = GroupSpec(
        argv=("sh", "-c", 'echo "$EVERY $OWN"'),
        flexible=FlexibleSpec(processors=9),
        resources=Resources(processors=5),
        runner="told",
    )
    assert run(spec, tmp_path).stdout == "unknown 5\n"


@pytest.mark.parametrize("name", ["lacks", "looks"])
def test_a_program_that_the_runner_needs_is_looked_for_before_the_command(name: str, tmp_path: Path) -> None:
    done = run(gang(name), tmp_path)
    assert done.returncode == UNREADY_EXIT and not done.stdout
    assert "no-such-launcher, which the gang's runner needs, is not on this machine" in done.stderr


def test_a_runner_without_words_has_its_programs_looked_for_too(tmp_path: Path) -> None:
    done = run(gang("needs"), tmp_path)
    assert done.returncode == UNREADY_EXIT and not done.stdout
    assert "no-such-program, which the gang's runner needs" in done.stderr


@pytest.mark.parametrize("name", ["a\x1b[31m", "told\n", "x" * 100_000, "$(x)"])
def test_a_name_that_no_runner_can_have_is_refused_without_its_text(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be one$") as refused:
        Software().before(gang(name), PART, DataDir(tmp_path))
    assert name not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raises", "failed: RuntimeError: out of luck"),
        ("text", "failed: TypeError: it answered with str in place of words"),
        ("once", "failed: TypeError: it answered with generator in place of words"),
        ("number", "failed: TypeError: it answered with what cannot be words"),
        ("zero", "failed: TypeError: it answered with what cannot be words"),
        ("many", "failed: ValueError: it answered with more than 256 words"),
        ("other", "failed: TypeError: it answered with list, which is no Launch"),
        ("ends", "failed: SystemExit: 3"),
        ("no_function", "it does not load: lab_runners:no_function is no function"),
        ("absent", "it does not load: AttributeError"),
        ("never-heard", "it is not installed here"),
    ],
)
def test_an_answer_of_no_use_is_refused_in_one_line_that_names_the_runner(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"its gang's runner {name}") as refused:
        Software().before(gang(name), PART, DataDir(tmp_path))
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_a_site_offers_those_that_load_and_a_gang_asks_for_its_own_by_the_same_name() -> None:
    offered = Software().offered()
    assert "runner told" in offered and "runner absent" not in offered and "runner no_function" not in offered
    assert "runner mpi" not in offered, "a name of diana's own stays diana's"
    assert "runner told" in needed(gang("told")) and not lacking((*offered, "barrier"), needed(gang("told")))
    assert not any(name.startswith("runner") for name in (*needed(gang("")), *needed(gang("none"))))


def test_a_runner_that_no_site_has_is_told_with_the_nearest_name() -> None:
    offered = Software().offered()
    assert lacking(offered, ("runner tolds",)) == "has no runner tolds"
    assert unknown_runner("tolds", offered).startswith(
        "'tolds': no such runner; did you mean told? Known here: env, mpi"
    )
    assert unknown_runner("mpl", ()) == "'mpl': no such runner; did you mean mpi? Known here: env, mpi, none"
    assert unknown_runner("qqqq", ()) == "'qqqq': no such runner; known here: env, mpi, none"
    assert not unknown_runner("told", offered) and not unknown_runner("none", ()) and not unknown_runner("", ())


def test_a_name_that_cannot_be_a_runner_s_is_no_plain_spec() -> None:
    assert plain(gang("torch-run_2.1")) and not plain(gang("a b")) and not plain(gang("$(x)"))
    assert not is_runner("") and not is_runner("x" * 41)


def test_one_interface_holds_for_all() -> None:
    asked = GangToRun(("true",), 1, (1, 1))
    assert installed.launch("told", asked) == Launch(("env", "EVERY=1,1", "OWN=1"), ("env",))


def test_in_a_container_the_words_run_in_the_image_and_its_programs_are_not_looked_for_here(tmp_path: Path) -> None:
    (tmp_path / "apptainer").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    (tmp_path / "apptainer").chmod(0o755)
    (tmp_path / "image.sif").touch()
    spec = msgspec.structs.replace(gang("lacks"), argv=("solve",), container=str(tmp_path / "image.sif"))
    software = Software(container="apptainer")
    before = software.before(spec, PART, DataDir(tmp_path / "data"))
    told = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path), "DIANA_JOB": "a-1.0", "DIANA_ATTEMPT": "1"}
    done = subprocess.run([*before, "solve"], cwd=tmp_path, env=told, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-4:] == [spec.container, "no-such-launcher", "--go", "solve"]
