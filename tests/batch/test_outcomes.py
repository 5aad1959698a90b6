"""What its script does around an attempt, and how that ended, by what it told and by the file system's times."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from diana.adapters.batch.array.folder import ArrayFolder, TaskEnd
from diana.adapters.batch.array.live import outcome_of
from diana.adapters.batch.array.memory import SAID, EndedForMemory, TaskMemory
from diana.adapters.batch.array.script import Dialect, Surroundings, cases, script
from diana.adapters.batch.systems.slurm_text import TOO_MUCH
from diana.adapters.lrm.spawner.identity import machine, wall_s
from diana.adapters.lrm.spawner.protocol import Order
from diana.model.facts import Outcome, was_out_of_memory
from tests.batch.test_book_searched import order


@pytest.mark.parametrize(
    ("exit_code", "ran_s", "outcome"),
    [
        (124, 2.0, Outcome.TIMED_OUT),
        # The file that began it was dated by a later tick of the clock than the run began at.
        (124, 1.9993, Outcome.TIMED_OUT),
        (137, 12.0, Outcome.TIMED_OUT),
        (124, 1.5, Outcome.FAILED),
        (137, 0.1, Outcome.FAILED),
        (1, 2.5, Outcome.FAILED),
        (0, 2.0, Outcome.DONE),
    ],
)
def test_a_run_is_over_its_time_if_its_limit_ended_it_and_it_lasted_as_long(
    exit_code: int, ran_s: float, outcome: Outcome
) -> None:
    end = TaskEnd(exit_code, "-", 1000.0, 1000.0 + ran_s, 0.0, "n1")
    assert outcome_of(end, msgspec.structs.replace(order([0]), time_limit_s=2.0), cancelled=False) == (outcome, "")


@pytest.mark.parametrize(
    ("exit_code", "cancelled", "memory_bytes", "outcome", "said"),
    [
        (137, False, 100 << 20, Outcome.FAILED, "out of memory: it used 99 MiB with its children, memory is 100 MiB;"),
        (1, False, 0, Outcome.FAILED, "out of memory: it used 99 MiB with its children, and its group names no memory"),
        (0, False, 100 << 20, Outcome.DONE, ""),
        (137, True, 100 << 20, Outcome.CANCELLED, ""),
    ],
)
def test_a_command_that_failed_with_a_process_ended_for_its_memory_ran_out_of_memory(
    exit_code: int, cancelled: bool, memory_bytes: int, outcome: Outcome, said: str
) -> None:
    end = TaskEnd(exit_code, "m", 1000.0, 1002.0, 0.0, "n1", 99 << 20)
    found, error = outcome_of(end, msgspec.structs.replace(order([0]), memory_bytes=memory_bytes), cancelled)
    assert found is outcome and (error.startswith(said) if said else not error), error
    assert was_out_of_memory(found, f"alpha-1.0 at site alpha, cluster c: {error}") == bool(said)
    assert not said or f"diana retry --memory {'2x' if memory_bytes else '8G'} alpha-1 gives" in error


@pytest.mark.parametrize(
    ("first", "flag", "peak"),
    [
        ("137 m 1234", "m", 1234),
        ("0 - 77", "-", 77),
        ("0 -", "-", 0),
        ("0 - x", "-", 0),
        (f"1 m {9**300}", "m", 1 << 62),
    ],
)
def test_an_end_tells_the_most_memory_where_its_script_knew_it(
    tmp_path: Path, first: str, flag: str, peak: int
) -> None:
    folder = ArrayFolder(tmp_path / "array")
    folder.make("", "")
    (folder.root / "end" / "0").write_text(f"{first}\n0m0s 0m0s\n0m0s 0m0s\n.\n")
    end = folder.end(0)
    assert end is not None and (end.flag, end.peak_bytes) == (flag, peak)


@pytest.mark.parametrize(
    ("words", "used"),
    [
        ("slurmstepd-n1: error: StepId=1.batch exceeded memory limit (325038080 > 104857600), being killed\n"
         "slurmstepd-n1: error: Exceeded job memory limit\n", 325038080),
        ("slurmstepd: error: Job 5 exceeded memory limit (317420 > 102400), being killed\n", 317420 << 10),
        ("slurmstepd: error: Exceeded step memory limit at some point.\n", 0),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch. Some of your processes may\n", 0),
        ("slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-11-30T05:49:19 ***\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_slurm_writes_of_a_job_that_it_ended_for_its_memory_is_read_in_whatever_unit(
    tmp_path: Path, words: str, used: int | None
) -> None:
    given = msgspec.structs.replace(order([0]), memory_bytes=100 << 20)
    memory = TaskMemory(tmp_path)
    memory.make(given)
    assert memory.too_much(0, given, TOO_MUCH) is None
    (tmp_path / SAID / "0").write_text(words)
    assert memory.too_much(0, given, TOO_MUCH) == (None if used is None else EndedForMemory(used))
    # A batch system that says nothing there is not read.
    assert memory.too_much(0, given, "") is None


@contextmanager
def task(root: Path, given: Order, shell: str = "sh", **of_dialect: bool) -> Iterator[tuple[ArrayFolder, int]]:
    """The only task of an array as a batch system starts it; the pid of its script, which leads a session."""
    folder = ArrayFolder(root / "array")
    said = Dialect(task="K", first=0, job="J", machine="M", **of_dialect)  # type: ignore[arg-type]
    around = Surroundings(site="alpha", cluster="c", dialect=said)
    folder.make(script(given, str(folder.root), str(root), around), cases(given))
    (root / f"lease.{given.lease}").write_text(f"{int(wall_s()) + 600}\n")
    told = {**os.environ, "K": "0", "J": "7", "M": "n1", "TMPDIR": str(root), "ROOT": str(root)}
    process = subprocess.Popen([shell, folder.script], env=told, start_new_session=True)
    try:
        yield folder, process.pid
        process.wait(60)
    finally:
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def session(of: int) -> list[int]:
    """All processes of a task, whose commands may have sessions of their own."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal():
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    found = [of] if of in parents else []
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def appears(path: Path) -> None:
    by_s = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < by_s, f"{path} does not appear"
        time.sleep(0.01)


@pytest.mark.parametrize("more", [{}, {"lease": "beta"}, {"time_limit_s": 600.0}, {"lease": "beta", "saves": True}])
def test_a_task_that_is_told_to_end_waits_for_its_command_and_leaves_it_to_others_how_it_ended(
    tmp_path: Path, more: Mapping[str, object]
) -> None:
    """As Slurm does it: TERM to all of its processes, and KILL once the script is gone."""
    words = """trap 'sleep 1; echo x > "$ROOT/saved"; exit 0' TERM; : > "$ROOT/up"; while :; do sleep .1; done"""
    given = msgspec.structs.replace(order([0]), argv=["sh", "-c", words], **more)
    with task(tmp_path, given, warns=True) as (folder, pid):
        if given.saves:
            folder.saving.make(given)
        appears(tmp_path / "up")
        for each in session(pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGTERM)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert (tmp_path / "saved").exists()
    assert folder.end(0) is None
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("diana-")] == []


def at_node(boot_id: str) -> Surroundings:
    said = Dialect(task="K", first=0, job="J", machine="M")
    return Surroundings(site="alpha", cluster="c", dialect=said, data="/s/a b", path="/own", boot_id=boot_id)


@pytest.mark.parametrize(
    ("boot_id", "more", "data", "found"),
    [
        ("", {}, "", False),
        ("this", {}, "/s/a b", True),
        ("another", {}, "", False),
        ("this", {"contained": True}, "", False),
        ("this", {"environment": [("DIANA_DATA", "/x")]}, "/x", True),
        ("another", {"environment": [("DIANA_DATA", "/x")]}, "/x", False),
        ("this", {"environments": [[("DIANA_DATA", "/x")]]}, "/x", True),
        ("this", {"environment": [("PATH", "/bin:/usr/bin")]}, "/s/a b", False),
    ],
)
def test_a_task_is_told_of_the_node_on_the_machine_of_that_node_alone(
    tmp_path: Path, boot_id: str, more: Mapping[str, object], data: str, found: bool
) -> None:
    given = msgspec.structs.replace(order([0]), argv=["sh", "-c", 'echo "$DIANA_DATA" "$PATH"'], **more)
    folder = ArrayFolder(tmp_path / "array")
    around = at_node(machine().boot_id if boot_id == "this" else boot_id)
    folder.make(script(given, str(folder.root), str(tmp_path), around), cases(given))
    told = {"PATH": "/bin:/usr/bin", "K": "0", "J": "7", "M": "n1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["sh", folder.script], env=told, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    path = "/bin:/usr/bin:/own" if found else "/bin:/usr/bin"
    assert (folder.root / "out" / "0").read_text() == f"{data} {path}\n"


NAMES = [*"DHGLacdefhiklmnopqrstuwxyz", "gone", "out", "err", "IFS", "OPTIND", "UID", "RANDOM", "PLAIN"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("more", [{}, {"lease": "beta", "saves": True, "time_limit_s": 600.0}])
@pytest.mark.parametrize("varies", [False, True])
def test_a_job_has_its_variables_whatever_its_script_calls_its_own(
    tmp_path: Path, shell: str, more: Mapping[str, object], varies: bool
) -> None:
    rows = [(name, f"my {name}") for name in NAMES]
    rows = {"environments": [rows]} if varies else {"environment": rows}  # type: ignore[assignment]
    argv = ["cp", "/proc/self/environ", str(tmp_path / "env")]
    given = msgspec.structs.replace(order([0]), argv=argv, **more, **rows)
    with task(tmp_path, given, shell) as (folder, _):
        pass
    end = folder.end(0)
    assert end is not None and (end.exit_code, end.flag) == (0, "-")
    found = (tmp_path / "env").read_text().split("\0")
    assert {f"{name}=my {name}" for name in NAMES} <= set(found), found
    assert "DIANA_INDEX=0" in found
