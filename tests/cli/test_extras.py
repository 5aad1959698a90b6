"""A package that is not installed, because no extra brought it, is told in one line that names the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diana.errors import UsageError, of_extra

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("matplotlib", "textual", "cloudpickle", "mpld3"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without(code: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


CLI = "from diana.cli.main import main; sys.argv[0] = 'diana'; sys.exit(main())"


def test_a_scenario_runs_without_pictures_and_a_page_of_them_is_refused_before_it_runs(tmp_path: Path) -> None:
    ran = without(CLI, tmp_path, "simulate", "two-sites")
    assert ran.returncode == 0 and "digest" in ran.stdout, ran.stderr
    refused = without(CLI, tmp_path, "simulate", "two-sites", "--html", "page.html")
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.strip().endswith(
        "simulate --html wants the package matplotlib; pip install 'diana-grid[charts]'"
    )


def test_python_functions_as_jobs_name_their_extra(tmp_path: Path) -> None:
    ended = without(
        "import diana.client\ntry:\n    diana.client.GridExecutor\nexcept Exception as e: print(e)", tmp_path
    )
    assert ended.stdout == "GridExecutor wants the package cloudpickle; pip install 'diana-grid[calls]'\n", ended.stderr


def test_a_fault_of_another_package_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), of_extra("calls", "GridExecutor"):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
    with pytest.raises(UsageError, match="diana top wants the package textual"), of_extra("top", "diana top"):
        raise ModuleNotFoundError("No module named 'textual.app'", name="textual.app")


def test_the_demo_names_the_extra_of_its_picture_as_pip_wants_it(capsys: pytest.CaptureFixture[str]) -> None:
    from diana.demo.show import DemoProgress

    progress = DemoProgress(False, {})
    progress.line("pip install 'diana-grid[charts]'")
    progress.tell("dataset [red]events[/red]")
    told = capsys.readouterr().out
    assert "pip install 'diana-grid[charts]'\n" in told and "dataset [red]events[/red]\n" in told
