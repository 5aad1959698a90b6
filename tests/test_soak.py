"""`make soak` goes on past a failure, and each line of its table is repeated by the command below it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.packages import NEEDED
from tests.runs import with_fresh

TESTS = """
import os

def test_by_seed():
    assert os.environ["DIANA_SEED"] == "17"

def test_that_fails():
    assert False

def test_that_hangs():
    import time
    if "hang" in os.environ:
        time.sleep(60)
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two parts, tests and a command, in a folder of their own."""
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "test_some.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    parts = {"some": soak.Part(("some",)), "none": soak.Part(command=("false",)), "fine": soak.Part(command=("true",))}
    monkeypatch.setattr(soak, "PARTS", parts)
    return tmp_path


def test_it_goes_on_past_a_failure_and_tells_how_each_is_repeated(
    room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--seed", "17"]) == 1
    shown = capsys.readouterr().out
    table = {line.split()[0]: line.split()[1:3] for line in shown.splitlines()[-6:-2]}
    assert table == {"part": ["passed", "failed"], "some": ["2", "1"], "none": ["0", "1"], "fine": ["1", "0"]}
    *_, failing, command = shown.splitlines()
    assert command == "none: DIANA_SEED=17 false"
    words = shlex.split(failing.removeprefix("some: "))
    assert words[0] == "DIANA_SEED=17" and words[-1].endswith("test_some.py::test_that_fails")
    again = subprocess.run(["env", *words], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "1 failed" in again.stdout


def test_parts_that_are_named_run_alone_and_one_without_a_failure_ends_with_0(
    room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--seed", "17", "fine"]) == 0
    assert "none" not in capsys.readouterr().out


def test_a_part_that_time_ends_is_told_as_such_and_fails_the_run(
    room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("hang", "1")
    assert soak.main(["--seed", "17", "--minutes", "0.02", "some", "fine"]) == 1
    assert "(time was over)" in capsys.readouterr().out


def test_an_interrupt_ends_the_part_at_hand_and_tells_what_was_run(
    room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "trap 'echo over > ended; exit' INT; echo > begun; while :; do sleep 0.1; done"
    monkeypatch.setitem(soak.PARTS, "long", soak.Part(command=("sh", "-c", long)))

    def interrupt() -> None:
        while not (room / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # In the background a shell ignores SIGINT, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        assert soak.main(["--seed", "17", "fine", "long"]) == 130
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert (room / "ended").exists() and "fine" in capsys.readouterr().out.splitlines()[-1]


def test_an_interrupt_while_a_part_begins_ends_it(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "trap 'echo over > ended; exit' INT; echo > begun; while :; do sleep 0.1; done"
    monkeypatch.setitem(soak.PARTS, "long", soak.Part(command=("sh", "-c", long)))

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            while not (room / "begun").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert soak.main(["--seed", "17", "--minutes", "0.2", "long"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert (room / "ended").exists()


def test_a_part_that_is_none_is_refused(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        soak.main(["som"])
    assert "no part 'som'; the parts are some, none, fine" in capsys.readouterr().err


def test_each_part_names_packages_that_are_known() -> None:
    assert {kind for part in soak.PARTS.values() for kind in part.packages} <= set(NEEDED)


def test_a_test_that_passes_at_its_second_try_is_named(tmp_path: Path) -> None:
    conftest = "from tests.conftest import pytest_terminal_summary\n"
    (tmp_path / "conftest.py").write_text(conftest)
    once = "tried = []\ndef test_late():\n    tried.append(1)\n    assert len(tried) == 2\ndef test_fine():\n    pass\n"
    (tmp_path / "test_once.py").write_text(once)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    ended = subprocess.run(
        [*words, "--reruns", "1", str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stdout
    late = [line for line in ended.stdout.splitlines() if line.startswith("FLAKY")]
    assert late == ["FLAKY: test_once.py::test_late"] and "assert len(tried) == 2" in ended.stdout


@pytest.mark.parametrize("seed", range(12))
def test_written_seeds_and_fresh_ones_are_different(seed: int) -> None:
    assert with_fresh((0, 1, 3, 9), 2, seed)[:4] == (0, 1, 3, 9)
    assert len(set(with_fresh((0, 1, 3, 9), 2, seed))) == 6
