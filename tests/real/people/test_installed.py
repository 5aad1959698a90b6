"""diana as it is installed: its wheel in a virtual environment that has nothing but what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.terminal import Terminal
from tests.distribution import build, copy_of_tree, pythons, tried
from tests.e2e.grid import free_port

ROOT = Path(__file__).resolve().parents[3]


def wheel_in(folder: Path) -> tuple[Path, Path]:
    """An environment with the wheel alone: its folder of programs, and that of its packages. No index is asked."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.startswith("diana_grid-")
    bare = folder / "bare"
    venv.create(bare, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(bare / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, timeout=60)
    (packages,) = bare.glob("lib/python*/site-packages")
    return bare / "bin", packages


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment where the wheel was installed; all packages of this one are there."""
    programs, packages = wheel_in(tmp_path_factory.mktemp("installed"))
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "needed.pth").write_text(here + "\n")
    return programs


def needed() -> set[str]:
    """Names of the distributions that the wheel asks for without an extra, and of those they ask for."""
    waiting, found = [(name, "") for name in ("diana-grid",)], set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for text in distribution(name).requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(one.name, more) for more in ("", *one.extras)]
    return {name for name, _ in found} - {"diana-grid"}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the packages that no extra brings."""
    programs, packages = wheel_in(tmp_path_factory.mktemp("bare"))
    for name in needed():
        one = distribution(name)
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            there = packages / top
            if not there.exists():
                there.symlink_to(str(one.locate_file(top)))
    return programs


def run(installed: Path, *words: str, cwd: Path, code: int = 0) -> str:
    environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "DIANA_DATA")}
    ended = subprocess.run(
        [installed / "diana", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == code and "Traceback" not in ended.stderr, ended
    return ended.stdout + ended.stderr


def test_the_wheel_is_what_runs_and_it_has_its_scenarios(installed: Path, tmp_path: Path) -> None:
    python = str(installed / "python")
    ask = "import diana, importlib.metadata as m; print(diana.__file__, m.version('diana-grid') == diana.__version__)"
    place, same = subprocess.run(
        [python, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert Path(place).is_relative_to(installed.parent) and same == "True"
    assert "jobs" in run(installed, "simulate", "two-sites", cwd=tmp_path)
    told = run(installed, "simulate", "nowhere", cwd=tmp_path, code=2)
    assert "scenario nowhere: no such file; of those that come with diana there are: " in told and "two-sites" in told


def test_the_demo_runs_as_installed(installed: Path, tmp_path: Path) -> None:
    run(installed, "demo", "--sites", "2", "--jobs", "6", cwd=tmp_path)
    assert (tmp_path / "demo-out" / "result.json").exists()


EXTRAS = ("cloudpickle", "matplotlib", "textual", "fsspec", "asyncssh", "opentelemetry", "snakemake")


def test_without_extras_work_runs_and_what_wants_one_says_so_in_a_line(bare: Path, tmp_path: Path) -> None:
    lacks = f"import importlib.util as u; assert not [n for n in {EXTRAS!r} if u.find_spec(n)]; import numpy, grpc"
    subprocess.run([bare / "python", "-c", lacks], check=True, timeout=60)
    assert "jobs" in run(bare, "simulate", "two-sites", cwd=tmp_path)
    told = run(bare, "simulate", "two-sites", "--html", "x.html", cwd=tmp_path, code=2)
    assert told == "diana: simulate --html wants the package matplotlib; pip install 'diana-grid[charts]'\n"
    environment = {"PYTHONPATH": "", "DIANA_DATA": str(tmp_path / "site")}
    with Terminal([str(bare / "diana"), "top"], environment=environment) as terminal:
        assert terminal.ended() == 2
        assert terminal.text().splitlines() == [
            "diana: diana top wants the package textual; pip install 'diana-grid[top]'"
        ]
    ask = "import diana.client as c\ntry: c.GridExecutor\nexcept Exception as e: print(e)"
    told = subprocess.run([bare / "python", "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout
    assert told == "GridExecutor wants the package cloudpickle; pip install 'diana-grid[calls]'\n"


def test_a_node_without_extras_runs_jobs_and_refuses_what_it_cannot_do(bare: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "site")
    port = free_port()
    run(bare, "init", "alpha", "--data", data, "--listen", f"127.0.0.1:{port}", "--root-jobs", cwd=tmp_path)
    config = Path(data, "site.toml")
    config.write_text(config.read_text().replace("[staging]\n", '[staging]\nurls = ["s3://lab/"]\n', 1))
    whole = config.read_text()
    config.write_text(whole.replace("[traces]\n", '[traces]\nendpoint = "http://127.0.0.1:1"\n', 1))
    told = run(bare, "node", "--detach", "--data", data, cwd=tmp_path, code=2)
    assert "is missing); pip install 'diana-grid[traces]', or leave the key out" in told
    config.write_text(whole)
    run(bare, "node", "--detach", "--data", data, cwd=tmp_path)
    try:
        told = run(bare, "submit", "--data", data, "--wait", "--", "echo", "{x}", ":::", "1", "2", cwd=tmp_path)
        assert "alpha-1: done, 2 of 2 jobs done" in told
        assert run(bare, "logs", "--data", data, "alpha-1.1", cwd=tmp_path) == "2\n"
        s3 = ("submit", "--data", data, "--wait", "--input", "s3://lab/x", "--", "cat", "x")
        assert "pip install 'diana-grid[urls]'" in run(bare, *s3, cwd=tmp_path, code=2)
    finally:
        run(bare, "stop", "--data", data, cwd=tmp_path)


@pytest.mark.parametrize("python", pythons().values())
@pytest.mark.timeout(900)
def test_each_python_here_installs_the_wheel_by_pip_alone_and_runs_a_site_with_it(python: str, tmp_path: Path) -> None:
    """As `make release` tries it; pip fetches what the wheel wants."""
    (wheel,) = [path for path in build(copy_of_tree(tmp_path / "tree"), tmp_path, "wheel") if path.suffix == ".whl"]
    assert [name for name, _ in tried(python, wheel, tmp_path)] == ["install", "start", "group", "simulate"]
