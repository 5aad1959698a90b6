"""Jobs that a warm parent forks: what they need was loaded once, and every promise made to a job stands."""

from __future__ import annotations

import hashlib
import importlib
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import pytest_asyncio

from diana.adapters.lrm.cgroups.per_job import NOTE
from diana.adapters.lrm.spawner.behind.marks import LOCKS, number_of
from diana.adapters.lrm.spawner.claims.records import Claimed
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Claim, Job
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.lrm.spawner.warm import parents
from diana.adapters.lrm.spawner.warm.parents import Parents, WarmChild
from diana.client.calls import packing, remote
from diana.client.calls.gathering import CallGroup, GridFuture
from diana.model.facts import Outcome, was_out_of_memory
from diana.model.job.spec import Axis, GroupSpec, InputFile, Outputs, Resources, Sweep
from tests.contract.lrm_builders import SUBGROUP, RealSite, Told, alive


def is_given(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


GIVEN = {int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and is_given(int(fd))}
"""Descriptors that whoever runs the tests gives to all that is started."""

HEAVY = """
import os, sys, time, signal, threading

with open(os.environ["LOADS"], "a") as loads:
    loads.write(f"{os.getpid()}\\n")
print("loading")
%s

def about(n):
    print("calling", n, flush=True)
    return {
        "pid": os.getpid(), "ppid": os.getppid(), "group": os.getpgrp(), "session": os.getsid(0), "cwd": os.getcwd(),
        "environ": open("/proc/self/environ").read().split("\\0"), "job": os.environ["DIANA_JOB"],
        "fds": sorted(map(int, os.listdir("/proc/self/fd"))), "file": __file__, "argv": sys.argv,
        "warm": "DIANA_WARM_FD" in os.environ,
    }

def product(n):
    # A multiplication of a child waits for ever for threads that only its parent has.
    return float((SQUARE @ (SQUARE * n))[0, 0]), THREADS > 1

def ends(how):
    print("last words", flush=how == "sleep")
    if how == "exit": os._exit(7)
    if how == "signal": os.kill(os.getpid(), signal.SIGSEGV)
    if how == "memory":
        b = bytes(range(256)) * (200 << 12)
        time.sleep(60)
    if how == "sleep": time.sleep(60)
    if how in ("child", "wiped"):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                told = os.environ["LOADS"] + ".child"
                open(told + ".new", "w").write(str(os.getpid()))
                script = 'mv "$0.new" "$0"; exec sleep 60'
                os.execve("/bin/sh", ["sh", "-c", script, told], os.environ if how == "child" else {})
            os._exit(0)
        while not os.path.exists(os.environ["LOADS"] + ".child"): time.sleep(0.01)
    if how == "thread": threading.Thread(target=lambda: (time.sleep(0.3), print("from a thread"))).start()
    return how
"""


ARRAYS = f"""
sys.path.append({os.path.dirname(os.path.dirname(numpy.__file__))!r})
import numpy
SQUARE = numpy.ones((700, 700))
(SQUARE @ SQUARE).sum()
THREADS = len(os.listdir("/proc/self/task"))
"""
"""Multiplies by threads of the library's own, which it starts as it is loaded."""


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    made = RealSite(tmp_path / "data", slots=2)
    # Without a note of where they are no control groups are made.
    (made.data.spawner / f"{NOTE}.new").mkdir()
    await made.up()
    yield made
    await made.down()


class Calls:
    """Jobs of one group, which call functions of the module `heavy`."""

    def __init__(self, site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also: str = "") -> None:
        self.site, self.loads = site, tmp_path / "loads"
        monkeypatch.setenv("LOADS", str(tmp_path / "packed"))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "heavy", raising=False)
        # Only what is loaded where the calls run may fail.
        (tmp_path / "heavy.py").write_text(HEAVY % "")
        importlib.invalidate_caches()
        self.heavy: ModuleType = importlib.import_module("heavy")
        (tmp_path / "heavy.py").write_text(HEAVY % also)
        self._module = tmp_path / "heavy.py"

    def start(self, function: Callable[..., Any], *arguments: object, memory_bytes: int = 0, time_limit_s: float = 0.0,
              wish: bool = True) -> None:  # fmt: skip
        """A job for each argument."""
        group = CallGroup("heavy", whole=True)
        packed = packing.packed_function(function)
        for each in arguments:
            group.add(
                GridFuture(lambda future: False), packing.Call(packed, packing.packed_calls(function, [((each,), {})]))
            )
        group.payload.finish()
        inputs = []
        for source, path in ((group.folder / "payload", remote.CALLS), (self._module, "heavy.py")):
            data = source.read_bytes()
            sha256 = hashlib.sha256(data).hexdigest()
            blob = self.site.data.staged(SUBGROUP) / "blob" / sha256
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(data)
            inputs.append(InputFile(source=f"blob:{sha256}", path=path))
        group.drop_files()
        environment = (("LOADS", str(self.loads)), *(((packing.WARM, "1"),) if wish else ()))
        spec = GroupSpec(
            argv=(sys.executable, "-I", "-S", remote.CALLS, "{index}", packing.PYTHON),
            environment=environment,
            sweep=Sweep(axes=(Axis(name="n", stop=len(arguments)),)),
            inputs=tuple(inputs),
            outputs=Outputs(collect=(f"{remote.RESULT}{{index}}",)),
            resources=Resources(memory_bytes=memory_bytes, time_limit_s=time_limit_s),
        )
        self.site.start(spec, *range(len(arguments)))

    def outcome(self, index: int) -> packing.Outcome:
        data = (self.site.data.collected(SUBGROUP, 1) / f"{remote.RESULT}{index}").read_bytes()
        return packing.outcomes(data, f"alpha-1.{index}")[0]

    def loaded(self) -> list[str]:
        return self.loads.read_text().splitlines() if self.loads.exists() else []

    async def done(self, count: int) -> dict[int, Told]:
        await self.site.ended(count, 60.0)
        return self.site.by_index()


async def test_jobs_are_children_of_a_parent_that_loaded_what_they_need_once_for_a_slot(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.about, *range(20))
    ends = await calls.done(20)
    assert {end.outcome for end in ends.values()} == {Outcome.DONE}
    told = [calls.outcome(index).result() for index in range(20)]
    assert 1 <= len(calls.loaded()) <= 2, "once for each slot"
    assert not {str(each["pid"]) for each in told} & set(calls.loaded()), "and not in a job"
    for index, each in enumerate(told):
        assert each["ppid"] == site.spawner_pid()
        assert each["pid"] == each["group"] == each["session"]
        assert each["cwd"] == str(site.data.job(SUBGROUP, 1, index))
        assert each["file"] == f"{each['cwd']}/heavy.py"
        assert each["job"] == f"alpha-1.{index}" and each["argv"][1] == str(index) and not each["warm"]
        (marker,) = [entry for entry in each["environ"] if entry.startswith("DIANA_RUN=")]
        assert marker.endswith(f":{SUBGROUP}:1:{index}:1")
        # The result, and the folder that is being listed.
        assert len({fd for fd in each["fds"] if fd > 2} - GIVEN) <= 2, each["fds"]
        assert site.log(ends[index]) == f"loading\ncalling {index}\n"


async def test_a_job_that_does_not_wish_it_starts_an_interpreter_of_its_own(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.about, *range(3), wish=False)
    await calls.done(3)
    assert (
        calls.loaded() == [str(calls.outcome(index).result()["pid"]) for index in range(3)] or len(calls.loaded()) == 3
    )


async def test_exit_codes_signals_threads_and_logs_are_those_of_a_job_of_its_own(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "exit", "signal", "thread", "fine")
    ends = await calls.done(4)
    assert [(ends[k].outcome, ends[k].exit_code) for k in range(4)] == [
        (Outcome.FAILED, 7), (Outcome.FAILED, 139), (Outcome.DONE, 0), (Outcome.DONE, 0)]  # fmt: skip
    assert "from a thread" in site.log(ends[2]) and site.log(ends[3]).endswith("last words\n")
    assert len(calls.loaded()) <= 2, "a job that dies takes its parent along"


async def test_a_library_with_threads_of_its_own_works_in_each_child(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch, also=ARRAYS)
    calls.start(calls.heavy.product, *range(4), time_limit_s=40.0)
    ends = await calls.done(4)
    assert {end.outcome for end in ends.values()} == {Outcome.DONE}
    assert [calls.outcome(index).result() for index in range(4)] == [(700.0 * index, True) for index in range(4)]
    assert 1 <= len(calls.loaded()) <= 2, "once for each slot"


async def test_a_job_whose_time_is_over_and_one_that_is_cancelled_are_ended_with_their_children(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "sleep", "sleep", time_limit_s=3.0)
    await site.shows(1, lambda log: b"last words" in log.data)
    site.kill(1)
    ends = await calls.done(2)
    assert (ends[0].outcome, ends[1].outcome) == (Outcome.TIMED_OUT, Outcome.CANCELLED)


async def test_what_a_job_leaves_behind_in_another_session_dies_with_it(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "child")
    await calls.done(1)
    assert not alive(int((tmp_path / "loads.child").read_text()))


async def test_so_does_what_wiped_its_environment_though_another_job_runs_on(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "sleep", "wiped")
    (end,) = await site.ended(1)
    assert end.run.index == 1
    assert not alive(int((tmp_path / "loads.child").read_text()))


async def test_what_a_job_left_dies_with_it_beside_its_parent_where_no_marks_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = RealSite(tmp_path / "data", slots=1)
    (site.data.spawner / f"{NOTE}.new").mkdir()
    soft, hard = resource.getrlimit(LOCKS)
    # As within a job of another node.
    resource.setrlimit(LOCKS, (number_of(b"outer"), hard))
    try:
        await site.up()
    finally:
        resource.setrlimit(LOCKS, (soft, hard))
    try:
        calls = Calls(site, tmp_path, monkeypatch)
        calls.start(calls.heavy.ends, "wiped")
        await calls.done(1)
        assert not alive(int((tmp_path / "loads.child").read_text()))
        assert alive(int(calls.loaded()[0]))
    finally:
        await site.down()


async def test_a_job_that_uses_too_much_memory_is_ended_and_its_parent_is_not(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "memory", "fine", "fine", memory_bytes=120 << 20)
    ends = await calls.done(3)
    assert was_out_of_memory(ends[0].outcome, ends[0].error)
    assert {ends[1].outcome, ends[2].outcome} == {Outcome.DONE} and len(calls.loaded()) <= 2


async def test_a_function_that_cannot_be_loaded_fails_each_call_with_its_traceback_and_is_tried_once_for_a_slot(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch, also="raise ImportError('no libfoo here')")
    calls.start(calls.heavy.about, *range(30))
    ends = await calls.done(30)
    assert {end.outcome for end in ends.values()} == {Outcome.DONE}
    for index in range(30):
        outcome = calls.outcome(index)
        assert isinstance(outcome.error, ImportError) and "no libfoo here" in str(outcome.error)
        assert "heavy.py" in str(outcome.error.__cause__)
    assert len(calls.loaded()) <= 2


@pytest.mark.parametrize(
    "also", ["os._exit(3)", "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"]
)
async def test_a_parent_that_dies_of_what_it_loads_or_has_threads_leaves_its_jobs_to_start_one_by_one(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also: str
) -> None:
    calls = Calls(site, tmp_path, monkeypatch, also=also)
    calls.start(calls.heavy.ends, *["fine"] * 4)
    ends = await calls.done(4)
    expected = (Outcome.FAILED, 3) if "_exit" in also else (Outcome.DONE, 0)
    assert {(end.outcome, end.exit_code) for end in ends.values()} == {expected}
    assert len(calls.loaded()) >= 4


async def test_a_job_that_runs_is_adopted_by_the_next_spawner_and_the_parents_go_with_theirs(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "sleep", "sleep")
    for index in range(2):
        await site.shows(index, lambda log: b"last words" in log.data)
    warm = [int(pid) for pid in calls.loaded()]
    await site.lose_lrm()
    await site.until(lambda: not any(map(alive, warm)))
    assert not site.ends(), "those that ran run on"
    site.kill(0, 1)
    ends = await calls.done(2)
    assert {ends[0].outcome, ends[1].outcome} == {Outcome.CANCELLED}


async def test_a_job_that_is_taken_back_while_its_parent_loads_never_runs(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    calls = Calls(site, tmp_path, monkeypatch, also=f"while not os.path.exists({str(go)!r}): time.sleep(0.02)")
    calls.start(calls.heavy.ends, "fine")
    await site.until(lambda: bool(calls.loaded()))
    assert (await site.log_of(0)).stand == "waits"
    site.recall(0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.UNBEGUN
    go.touch()
    await site.until(lambda: not any(alive(int(pid)) for pid in calls.loaded()))
    assert not (site.data.job(SUBGROUP, 1, 0) / f"{remote.RESULT}0").exists()


@pytest.mark.wide
async def test_idle_parents_end(site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(site, tmp_path, monkeypatch)
    calls.start(calls.heavy.ends, "fine")
    await calls.done(1)
    (pid,) = map(int, calls.loaded())
    assert alive(pid)
    await site.until(lambda: not alive(pid), parents.IDLE_S + 60.0)


RECORD = Claimed(
    number=1, subgroup=SUBGROUP, epoch=1, group="alpha-1", processors=1, time_limit_s=0.0, log_limit_bytes=1,
    own_directory=True, indices=[0], attempts=[1], collects=[],
)  # fmt: skip


def order(**more: object) -> Order:
    plain: dict[str, Any] = dict(
        subgroup=SUBGROUP, epoch=1, group="alpha-1", processors=1, time_limit_s=0.0, memory_bytes=0,
        log_limit_bytes=1, own_directory=True, directory="", indices=[0], attempts=[], argv=["x"], argvs=[],
        environment=[("DIANA_WARM", "1")], environments=[], stdouts=[], stderrs=[], collects=[],
    )  # fmt: skip
    return Order(**(plain | more))


@pytest.mark.parametrize("apart", [
    {"account": "ann"}, {"before": ["podman"]}, {"contained": True}, {"gpus": 1}, {"mpi": True}, {"barrier_s": 9.0},
    {"stdouts": ["out"]}, {"environment": []}, {"environment": [("DIANA_WARM", "2")]},
])  # fmt: skip
def test_only_what_the_spawner_starts_itself_may_be_warm(apart: dict[str, object]) -> None:
    assert Claim(RECORD, order(), {}).warm
    assert not Claim(RECORD, order(**apart), {}).warm


class Asleep:
    """A launcher whose parents do nothing: what they say is said by the test."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.ends: list[int] = []
        self.children: list[int] = []

    def environment(self, job: Job, scratch: str) -> dict[bytes, bytes]:
        return {b"DIANA_RUN": b"x"}

    def marker(self, job: Job) -> bytes:
        return b"DIANA_RUN=x"

    def mark_of_parent(self, job: Job) -> int:
        return 0

    def launch_parent(self, job: Job, environment: dict[bytes, bytes], folder: str, asks: int) -> int:
        self.ends.append(os.dup(asks))
        self.pids.append(os.posix_spawn("/bin/sleep", ["sleep", "600"], {}, setsid=True))
        return self.pids[-1]

    def child(self, mark: str = "DIANA_RUN=x") -> int:
        """A process such as a parent gives, or one of another mark."""
        name, _, value = mark.partition("=")
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {name: value}, setsid=True)
        self.children.append(pid)
        while mark.encode() not in Path(f"/proc/{pid}/environ").read_bytes():
            # Its program begins a moment after it does.
            time.sleep(0.001)
        return pid

    def says(self, pid: int) -> None:
        os.write(self.ends[-1], pid.to_bytes(4, "big"))


def waiting(group: str, slot: int = 0) -> Job:
    record = Claimed(
        number=1, subgroup=f"{group}/0", epoch=1, group=group, processors=1, time_limit_s=0.0, log_limit_bytes=1,
        own_directory=True, indices=[0], attempts=[1], collects=[],
    )  # fmt: skip
    job = Job(Claim(record, None, {}), 0, 1)
    job.slots, job.argv = [slot], ["python3", "calls", "0", "3.11"]
    return job


class Warm:
    def __init__(self) -> None:
        self.launcher = Asleep()
        self.parents = Parents(self.launcher, select.epoll())  # type: ignore[arg-type]

    def begin(self, job: Job) -> bool:
        return self.parents.begin(job, 1, 2, "/", "/tmp")

    def hears(self, pid: int) -> tuple[WarmChild | None, Job | None]:
        self.launcher.says(pid)
        (fd,) = self.parents._by_fd
        return self.parents.heard(fd)


@pytest.fixture
def warm() -> Iterator[Warm]:
    made = Warm()
    yield made
    made.parents.end_all()
    for pid in made.launcher.children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for fd in made.launcher.ends:
        os.close(fd)


@pytest.mark.parametrize("ready", [False, True])
def test_a_parent_that_loads_for_ever_or_gives_no_child_is_given_up_with_its_whole_group(
    warm: Warm, ready: bool
) -> None:
    job = waiting("alpha-1")
    assert warm.begin(job)
    if ready:
        assert warm.hears(0) == (None, None) and job.started_s > 0
    assert warm.parents.jobs() == [job] and warm.parents.late(boot_s() + parents.COMES_WITHIN_S - 1) == []
    assert warm.parents.late(boot_s() + parents.COMES_WITHIN_S) == [job]
    assert not alive(warm.launcher.pids[0]) and warm.parents.pids == set()
    assert not warm.begin(waiting("alpha-1", slot=1)), "the group's jobs start one by one"
    assert warm.begin(waiting("alpha-2"))


@pytest.mark.parametrize("named", ["init", "itself", "gone", "another run's"])
def test_a_parent_that_names_another_process_than_the_runs_child_is_not_believed(warm: Warm, named: str) -> None:
    job = waiting("alpha-1")
    assert warm.begin(job)
    warm.hears(0)
    pids = {"init": 1, "itself": warm.launcher.pids[0], "gone": 2**22 + 1, "another run's": 0}
    assert warm.hears(pids[named] or warm.launcher.child("DIANA_RUN=y")) == (None, job)
    assert not warm.begin(waiting("alpha-1", slot=1)), "the group's jobs start one by one"


def test_a_slot_that_goes_on_with_another_group_has_another_parent(warm: Warm) -> None:
    assert warm.begin(waiting("alpha-1"))
    warm.hears(0)
    begun, _ = warm.hears(warm.launcher.child())
    assert begun is not None
    os.close(begun.go)
    assert warm.begin(waiting("alpha-2"))
    first, second = warm.launcher.pids
    assert not alive(first) and alive(second)


@pytest.mark.parametrize("grows", [False, True])
def test_a_parent_is_renewed_after_many_children_and_sooner_if_it_grows(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    monkeypatch.setattr(parents, "MOST_CHILDREN", 3)
    if grows:
        monkeypatch.setattr(parents, "LOOK_EVERY", 2)
        monkeypatch.setattr(parents, "MOST_GROWTH_BYTES", -1)
    job = waiting("alpha-1")
    assert warm.begin(job)
    warm.hears(0)
    lasts = 2 if grows else 3
    for child in range(1, lasts + 1):
        assert alive(warm.launcher.pids[0])
        pid = warm.launcher.child()
        begun, left = warm.hears(pid)
        assert begun is not None and (begun.job, begun.pid, left) == (job, pid, None)
        os.close(begun.go)
        if child < lasts:
            assert warm.begin(job)
    assert not alive(warm.launcher.pids[0]) and warm.parents.pids == set()
    assert warm.begin(job) and len(warm.launcher.pids) == 2


def test_what_a_withdrawn_job_would_read_its_word_from_is_closed(warm: Warm) -> None:
    job = waiting("alpha-1")
    assert warm.begin(job)
    warm.hears(0)
    with socket.socket(fileno=os.dup(warm.launcher.ends[0])) as asked:
        _, fds, _, _ = socket.recv_fds(asked, 1 << 16, 3)
    warm.parents.withdraw(job)
    assert os.read(fds[2], 1) == b"", "its child ends without having done anything"
    for fd in fds:
        os.close(fd)
