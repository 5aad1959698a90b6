"""Installed performance models: real processes that answer, fail, talk, hang, eat memory or give nothing (SPEC G2)."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from diana.errors import Overloaded, UsageError
from diana.jobfile import ParsedFile, parse_file
from diana.node.api import plug_ins
from tests.entry_points import install

MODELS = """
import subprocess
import time

def cactus(values):
    print("loading tables")
    return {"step_s": f"{values['nx'] * values['job.work_s']} / site.speed", "time_s": "step_s * 2"}

def hangs(values):
    time.sleep(600)

def forks(values):
    child = subprocess.Popen(["sleep", "600"])
    with open(values["pid file"], "w") as file:
        file.write(str(child.pid))
    time.sleep(600)

def fails(values):
    raise RuntimeError("no table for these\\nvalues")

def nothing(values):
    return None

def odd(values):
    return {"time_s": 3.0}

def wrong(values):
    return {"time_s": "site.colour"}

def long(values):
    return {"time_s": "1" * 100_000}

def noisy(values):
    import sys
    for _ in range(1000):
        print("x" * 1_000_000)
    while True:
        sys.stderr.write("x" * 1_000_000)

def hungry(values):
    return {"time_s": str(len(bytearray(8 << 30)))}
"""
ASK = partial(plug_ins.equations, most_s=300.0)
"""However busy the machine is."""
NAMES = ("cactus", "hangs", "forks", "fails", "nothing", "odd", "wrong", "long", "hungry", "noisy")
JOB = b"""
[group]
command = "x {nx}"
[sweep]
nx = [100]
[resources]
work = 3
[package.model]
plugin = "NAME"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with models, as an operator installs one."""
    monkeypatch.syspath_prepend(str(install(tmp_path, "lab_models", MODELS, plug_ins.GROUP, NAMES)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def parsed(name: str) -> ParsedFile:
    job = JOB.replace(b"NAME", name.encode())
    return parse_file(job, "toml", "job", {}, {}, lambda data: "", lambda sha256: b"", ASK)


@pytest.mark.usefixtures("installed")
def test_an_installed_model_gives_the_equations_of_this_group() -> None:
    (group,) = parsed("cactus").groups
    assert group.spec.model == (("step_s", "300.0 / site.speed"), ("time_s", "step_s * 2"))
    assert "lab_models" not in sys.modules, "it runs in a process of its own"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fails", "fails failed: values"),
        ("nothing", "nothing gave no equations; it has to return texts by name"),
        ("odd", "odd gave no equations"),
        ("long", "long gave no equations"),
        ("hungry", "hungry failed: MemoryError"),
        ("noisy", "noisy failed: "),
        ("wrong", "package.model.time_s: 'site.colour' is no name here"),
        ("mars", "'mars' is no model that this site's operator installed; known: cactus, fails"),
    ],
)
def test_a_model_that_gives_no_equations_is_a_mistake_in_one_line(name: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(name)
    assert str(caught.value).startswith("job: package.model.") and why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["hangs", "forks"])
def test_a_model_that_hangs_is_ended_with_all_it_started(name: str, tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    for most_s in (2, 20, 200):
        with pytest.raises(ValueError, match=rf"{name} did not answer within {most_s} s"):
            plug_ins.equations(name, {"pid file": str(noted)}, most_s=most_s)
        # A busy machine may not have come to its start.
        if name == "hangs" or (noted.exists() and noted.read_text()):
            break
    if name == "forks":
        child = Path("/proc") / noted.read_text() / "stat"
        with suppress(FileNotFoundError, ProcessLookupError):
            while child.read_text().split()[2] != "Z":
                time.sleep(0.05)


def test_where_none_is_installed_the_line_says_so() -> None:
    with pytest.raises(UsageError, match=r"'mars' is no model .* known: none is installed"):
        parsed("mars")


def test_equations_beside_a_plug_in_are_refused() -> None:
    job = JOB.replace(b'plugin = "NAME"', b'plugin = "a"\ntime_s = "1.0"')
    with pytest.raises(UsageError, match=r"package.model.plugin: written beside equations; keep one of them"):
        parse_file(job, "toml", "job", {}, {}, lambda data: "", lambda sha256: b"", plug_ins.equations)


@pytest.mark.usefixtures("installed")
def test_no_more_than_two_are_asked_at_once_and_the_rest_are_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really, go = plug_ins._answer, threading.Event()
    begun = threading.Semaphore(0)

    def waits(*asked: Any) -> tuple[int, bytes, bytes]:
        begun.release()
        assert go.wait(60.0)
        return really(*asked)

    monkeypatch.setattr(plug_ins, "_answer", waits)
    values = {"nx": 2.0, "job.work_s": 3.0}
    with ThreadPoolExecutor(2) as pool:
        first = [pool.submit(ASK, "cactus", values) for _ in range(2)]
        for _ in first:
            assert begun.acquire(timeout=60.0)
        with pytest.raises(Overloaded, match="2 models are being asked") as refused:
            ASK("cactus", values)
        assert refused.value.retry_after_s > 0
        go.set()
        assert [each.result()["time_s"] for each in first] == ["step_s * 2"] * 2
    assert ASK("cactus", values)["time_s"] == "step_s * 2"
