"""Calls packed, unpacked and carried out by the very file that travels with them, without a node."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diana.client import GridExecutor
from diana.client.calls import packing, remote
from diana.client.calls.gathering import MOST_CALLS, CallGroup, GridFuture, WaitingCalls
from diana.errors import DianaError, Unreachable, UsageError
from diana.model.indexset import IndexSet

THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


def packed(*calls: tuple[Callable[..., Any], list[tuple[Any, ...]]]) -> CallGroup:
    """One job for each function, which is called with each of its argument lists."""
    group = CallGroup("test", whole=True)
    for function, arguments in calls:
        call = packing.packed_calls(function, [(each, {}) for each in arguments])
        group.add(GridFuture(lambda future: False), packing.Call(packing.packed_function(function), call))
    group.payload.finish()
    return group


def carried_out(group: CallGroup, index: int, folder: Path, version: str = THIS) -> subprocess.CompletedProcess[str]:
    """As a site does it: links to the inputs, the command; with a Python that has nothing but its own library."""
    job = packing.job_of("test", group.payload.jobs, [sys.executable, "-I", "-S"], [])
    for entry in job["inputs"]:
        place = folder / entry["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to((group.folder / entry["url"]).resolve())
    words = [word.replace("{index}", str(index)) for word in job["group"]["command"]]
    command = [*words[:-1], version]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    finally:
        group.drop_files()


def outcomes(group: CallGroup, index: int, folder: Path) -> list[packing.Outcome]:
    ran = carried_out(group, index, folder)
    assert ran.returncode == 0, ran.stderr
    return packing.outcomes((folder / f"{remote.RESULT}{index}").read_bytes(), f"alpha-1.{index}")


def test_a_job_calls_its_own_entry_of_the_payload_without_cloudpickle_or_diana_installed(tmp_path: Path) -> None:
    offset = 7
    group = packed((pow, [(2, 3)]), (lambda x: x + offset, [(1,), (2,), (3,)]), (lambda x: x, [(9,)]))
    assert [outcome.result() for outcome in outcomes(group, 1, tmp_path)] == [8, 9, 10]


def test_an_exception_comes_back_as_itself_with_the_remote_traceback_as_cause_and_ends_its_chunk(
    tmp_path: Path,
) -> None:
    class OurOwn(Exception):
        pass

    def picky(x: int) -> int:
        if x == 2:
            raise OurOwn("two", x)
        return x

    first, second = outcomes(packed((picky, [(1,), (2,), (3,)])), 0, tmp_path)
    assert first.result() == 1
    with pytest.raises(OurOwn) as caught:
        second.result()
    assert caught.value.args == ("two", 2)
    assert isinstance(caught.value.__cause__, packing.RemoteTraceback)
    assert "raise OurOwn" in str(caught.value.__cause__) and "Traceback" in str(caught.value.__cause__)


def test_leaving_the_interpreter_is_an_exception_of_the_call_too(tmp_path: Path) -> None:
    (outcome,) = outcomes(packed((sys.exit, [("enough",)])), 0, tmp_path)
    assert isinstance(outcome.error, SystemExit) and outcome.error.args == ("enough",)


def test_a_child_that_a_call_forks_gives_no_outcome_however_it_ends(tmp_path: Path) -> None:
    def parent(how: str) -> str:
        if child := os.fork():
            return f"{how} {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
        if how == "fails":
            raise LookupError("the child's own")
        if how == "leaves":
            sys.exit(5)
        return "child"

    group = packed((parent, [("ends",), ("leaves",), ("fails",), ("ends",)]))
    assert [one.result() for one in outcomes(group, 0, tmp_path)] == ["ends 0", "leaves 5", "fails 1", "ends 0"]


def test_what_cannot_be_pickled_in_the_job_is_told_in_words(tmp_path: Path) -> None:
    class Stubborn(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__("cannot be made of one argument")

    def raises() -> None:
        raise Stubborn(1, 2)

    for index, (function, says) in enumerate(
        (
            (lambda: threading.Lock(), r"alpha-1\.0: .*<lambda> returned a lock that cannot be pickled.*plain data"),
            (raises, r"alpha-1\.0: .*Stubborn: cannot be made of one argument"),
        )
    ):
        (outcome,) = outcomes(packed((function, [()])), 0, tmp_path / str(index))
        with pytest.raises(DianaError, match=says) as caught:
            outcome.result()
        assert "Traceback" in str(caught.value.__cause__)


def test_a_module_the_job_does_not_have_is_named_with_the_way_modules_travel(tmp_path: Path) -> None:
    (outcome,) = outcomes(packed((packed, [()])), 0, tmp_path)
    assert isinstance(outcome.error, ModuleNotFoundError)
    assert "docs/python.md" in "".join(outcome.error.__notes__)


def test_a_result_of_something_not_installed_here_is_an_error_of_that_call_alone() -> None:
    lost = b"V" + (0).to_bytes(8, "little") + (12).to_bytes(8, "little") + b"cno.such\nx\n."
    (outcome,) = packing.outcomes(lost, "alpha-1.4")
    with pytest.raises(DianaError, match=r"alpha-1\.4: its result cannot be unpickled here .*no.*install"):
        outcome.result()
    with pytest.raises(DianaError, match=r"alpha-1\.4: its result file is cut short"):
        packing.outcomes(lost[:-3], "alpha-1.4")


def test_another_python_says_so_in_one_line_that_names_both(tmp_path: Path) -> None:
    ran = carried_out(packed((pow, [(2, 3)])), 0, tmp_path, version="3.7")
    assert ran.returncode == 1 and ran.stderr.count("\n") == 1
    assert f"packed by Python 3.7, and {sys.executable} here is Python {THIS}; install python3.7" in ran.stderr
    assert not list(tmp_path.glob(f"{remote.RESULT}*"))


def test_the_usual_command_takes_the_python_of_the_same_version_else_python3_which_may_refuse(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    for name in (f"python{THIS}", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $*\n")
        (tmp_path / name).chmod(0o755)
    command = [*packing.python_command(None), "call.py", "3"]
    for name in (f"python{THIS}", "python3"):
        ran = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
        assert ran.stdout == f"{name} call.py 3\n"
        (tmp_path / name).unlink()
    ran = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ran.returncode == 127 and "python3" in ran.stderr
    assert packing.python_command("podman run {image} python3") == ["podman", "run", "{{image}}", "python3"]
    with pytest.raises(UsageError, match="python: empty"):
        packing.python_command("")


def test_what_cannot_be_packed_is_refused_by_name_with_the_mend() -> None:
    lock = threading.Lock()

    def holds() -> object:
        return lock

    with pytest.raises(UsageError, match=r"function .*holds cannot be pickled .*inside it"):
        packing.packed_function(holds)
    with pytest.raises(UsageError, match=r"an argument of pow cannot be pickled .*plain data"):
        packing.packed_calls(pow, [((lock,), {})])
    with pytest.raises(UsageError, match="3 cannot be called"):
        packing.packed_function(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["collect", "array", "outputs.to", "sweep.x", "group.command", "stdout"])
def test_options_that_would_take_the_jobs_apart_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"option {name}: not for a GridExecutor"):
        packing.checked_options({name: "x"})
    assert packing.checked_options({"cpus": 2, "outputs.size": "1M"}) == {"cpus": 2, "outputs.size": "1M"}


@pytest.mark.parametrize("name", ["components", "flexible", "components.cpus", "gang.runner", "runner"])
def test_a_call_is_no_gang_and_the_refusal_names_the_client_s_way(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^option {name}: not for a GridExecutor, each call .*; Client\.submit\(.*$"):
        packing.checked_options({name: "3x1"})


def test_local_inputs_are_those_of_the_working_directory_and_datasets_stay_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert packing.checked_inputs(["a/table.csv", "dataset:events", {"url": "x", "path": "y"}]) == [
        {"path": "table.csv", "url": str(tmp_path / "a" / "table.csv")},
        {"url": "dataset:events"},
        {"path": "y", "url": str(tmp_path / "x")},
    ]


def test_an_executor_whose_node_is_not_there_says_so_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=f"no site in {tmp_path}"):
        GridExecutor(tmp_path)


def test_a_function_that_many_calls_share_is_in_the_payload_once() -> None:
    big = b"x" * 100_000
    group = packed(*[(lambda: len(big), [()])] * 50)
    try:
        assert (group.folder / "payload").stat().st_size < 200_000
    finally:
        group.drop_files()
    assert not group.folder.exists()


def test_single_calls_become_one_group_and_a_cancelled_one_is_not_among_them() -> None:
    waiting = WaitingCalls()
    futures = [GridFuture[int](waiting.remove) for _ in range(4)]
    told: list[bool] = []
    futures[2].add_done_callback(lambda future: told.append(future.cancelled()))
    for future in futures:
        waiting.add(future, packing.Call(b"function", b"calls"), "pow", 5.0)
    assert futures[2].cancel() and futures[2].cancel() and told == [True]
    group = waiting.group()
    group.drop_files()
    assert list(group.open.values()) == [futures[0], futures[1], futures[3]] and not waiting
    assert not futures[0].cancel(), "it is not for this test's node to say"


CHILD = """
import os
from concurrent.futures import as_completed, wait
from diana.client.calls.gathering import GridFuture
from diana.errors import UsageError

ended, left = (GridFuture(lambda future: False) for _ in range(2))
ended.end(7)
if child := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert wait([ended]).done == {ended} and next(as_completed([ended])).result() == 7
try:
    wait([left])
except UsageError as error:
    print(error)
"""


def test_a_forked_child_waits_for_futures_that_have_ended_and_is_told_of_others() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and "forked this one; make a GridExecutor here" in done.stdout, done


@pytest.mark.wide
def test_plenty_of_calls_do_not_wait_for_more() -> None:
    waiting = WaitingCalls()
    for _ in range(MOST_CALLS):
        assert not waiting.full
        waiting.add(GridFuture[int](waiting.remove), packing.Call(b"", b""), "pow", 0.0)
    assert waiting.full


def test_the_client_brings_no_cloudpickle_until_an_executor_is_asked_for() -> None:
    code = (
        "import sys, diana.client; print({'cloudpickle', 'asyncio', 'concurrent.futures'} & set(sys.modules));"
        "diana.client.GridExecutor; print('grpc' in sys.modules, 'cloudpickle' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "set()\nFalse True\n"


def test_calls_that_were_packed_apart_are_one_jobs_work_and_their_time_is_told(tmp_path: Path) -> None:
    group = CallGroup("test", whole=True)
    apart = b"".join(packing.packed_calls(pow, [((k, 2), {})]) for k in range(4))
    group.add(GridFuture(lambda future: False), packing.Call(packing.packed_function(pow), apart))
    group.payload.finish()
    assert carried_out(group, 0, tmp_path).returncode == 0
    data = (tmp_path / f"{remote.RESULT}0").read_bytes()
    assert [outcome.result() for outcome in packing.outcomes(data, "alpha-1.0")] == [0, 1, 4, 9]
    assert 0 < (packing.spent_s(data, "alpha-1.0") or 0) < 5


def test_jobs_that_are_lost_sight_of_are_counted_though_their_futures_have_failed() -> None:
    group = packed((pow, [(2, 3)]), (pow, [(2, 4)]), (pow, [(2, 5)]))
    group.drop_files()
    group.fail_stuck(IndexSet.parse("0"), "no node answers")
    group.fail(Unreachable("no node answers"))
    assert (len(group.open), group.lost) == (0, 3)
