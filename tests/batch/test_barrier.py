"""Tasks at their barrier, as their script keeps it: one word decides whether one begins (SPEC K5)."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.batch.array.barrier import LATE, Barrier
from diana.adapters.batch.array.folder import CANCELLED, RECALLED, ArrayFolder
from diana.adapters.batch.array.live import LiveArray
from diana.adapters.batch.array.script import Dialect, Surroundings, script
from diana.adapters.batch.book import Book
from diana.adapters.batch.orders import Orders, together
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import ClusterCapacity, Fate, Seen, Stage
from diana.adapters.lrm.plans import Plans
from diana.adapters.lrm.prepare import Preparer
from diana.adapters.lrm.runas.accounts import Accounts
from diana.adapters.lrm.software import NONE
from diana.adapters.lrm.spawner.identity import wall_s
from diana.adapters.lrm.spawner.protocol import Order
from diana.engine.journal.effects import Start
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.grace import GRACE_S
from diana.model.job.spec import GroupSpec, Resources
from diana.model.layout import DataDir
from tests.batch.test_book_searched import PART, Rough, order
from tests.batch.test_gates_kept import outcomes
from tests.batch.test_rows import book
from tests.runs import SEED

TASKS = 12
MANY_S = 600.0
AROUND = Surroundings(site="alpha", cluster="c", dialect=Dialect(task="K", first=0, job="J", machine="M"))


class Machine:
    """Runs tasks of one array as a batch system does."""

    def __init__(self, root: Path, argv: list[str], wait_s: float, **around: str) -> None:
        self.root, self.marks = root / "array", root / "marks"
        self.marks.mkdir()
        self.scratch = root / "tmp"
        for folder in (root / "jobs", self.scratch):
            folder.mkdir()
        self.folder = ArrayFolder(self.root)
        given = msgspec.structs.replace(order(list(range(TASKS))), argv=argv, barrier_s=wall_s() + wait_s)
        where = msgspec.structs.replace(AROUND, **around)
        self.folder.make(script(given, str(self.root), str(root / "jobs"), where, wait_s), "", holds=True)
        self.tasks: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def barrier(self) -> Barrier:
        return self.folder.barrier

    def start(self, *tasks: int) -> None:
        for task in tasks:
            told = {**os.environ, "K": str(task), "J": "7", "M": "n1", "MARKS": str(self.marks)}
            told["TMPDIR"] = str(self.scratch)
            self.tasks[task] = subprocess.Popen(["sh", self.folder.script], env=told, start_new_session=True)

    def at_barrier(self, *tasks: int) -> None:
        until(lambda: [held.task for held in self.barrier.held()] == sorted(tasks))

    def end(self, task: int) -> str:
        self.tasks[task].wait(60)
        told = self.folder.end(task)
        assert told is not None
        return told.flag

    def began(self) -> set[int]:
        return {int(path.name) for path in self.marks.iterdir()}


def until(happened: Callable[[], bool], within_s: float = 60.0) -> None:
    by_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < by_s
        time.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def make(wait_s: float = MANY_S, command: str = ': > "$MARKS/$DIANA_SLOT"', **around: str) -> Machine:
        made.append(Machine(tmp_path, ["sh", "-c", command], wait_s, **around))
        return made[-1]

    yield make
    for each in made:
        for process in each.tasks.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def test_of_two_who_decide_at_once_one_has_it_and_the_task_does_what_that_one_said(
    machine: Callable[..., Machine],
) -> None:
    """The tasks' time is over about when they are let go, or ended by the node."""
    at, rng = machine(2.0), random.Random(SEED)
    at.start(*range(TASKS))
    said: dict[int, str] = {}
    while len(said) < TASKS:
        task = rng.choice([task for task in range(TASKS) if task not in said])
        if rng.random() < 0.7:
            said[task] = "go" if at.barrier.let_go(task, ()) else "not"
        else:
            said[task] = "not" if at.barrier.close(task, CANCELLED) else "go"
        time.sleep(rng.uniform(0.0, 0.4))
    assert {task: at.end(task) for task in said} == {task: "-" if said[task] == "go" else "b" for task in said}
    assert at.began() == {task for task in said if said[task] == "go"}


def test_what_is_told_with_the_word_reaches_the_job_as_it_is(machine: Callable[..., Machine]) -> None:
    at = machine(command='printf %s "$SAID" > "$MARKS/0"')
    at.start(0)
    at.at_barrier(0)
    hard = """it's "hard" $HOME `id` \\ ; exit 1"""
    assert at.barrier.let_go(0, [("SAID", hard)]) and at.barrier.let_go(0, [("SAID", "again")])
    assert at.end(0) == "-" and (at.marks / "0").read_text() == hard


def test_its_machine_and_a_free_port_are_told(machine: Callable[..., Machine]) -> None:
    at = machine(address="echo n1.cluster")
    at.start(0)
    at.at_barrier(0)
    (held,) = at.barrier.held()
    assert held.host == "n1.cluster" and 20_000 <= held.port < 65_536


def test_a_task_that_is_told_to_end_leaves_and_cannot_be_let_go_any_more(machine: Callable[..., Machine]) -> None:
    at = machine()
    at.start(0, 1)
    at.at_barrier(0, 1)
    os.killpg(at.tasks[0].pid, signal.SIGTERM)
    assert at.end(0) == "b" and not at.barrier.let_go(0, ())
    assert at.barrier.let_go(1, ()) and at.end(1) == "-"
    assert at.began() == {1}


def test_a_task_says_its_end_however_often_it_is_told_to_end(
    machine: Callable[..., Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal reaches each process that the script has just then, as a batch system sends it."""
    bin = tmp_path / "bin"
    bin.mkdir()
    often = "for x in 1 2 3 4 5 6 7 8; do kill -TERM 0; sleep 0.00$x; done"
    (bin / "stat").write_text(f'#!/bin/sh\ntrap "" TERM\n{shutil.which("stat")} "$@"\n({often}) >/dev/null 2>&1 &\n')
    (bin / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    at = machine()
    at.start(*range(TASKS))
    assert {at.end(task) for task in range(TASKS)} == {"b"} and not at.began()


def test_a_scratch_directory_goes_with_the_task_that_leaves(machine: Callable[..., Machine]) -> None:
    at = machine()
    at.start(0)
    at.at_barrier(0)
    assert list(at.scratch.iterdir())
    assert at.barrier.close(0, RECALLED) and at.end(0) == "b"
    assert not list(at.scratch.iterdir())


@pytest.mark.parametrize("made_before_s, leaves", [(3600.0, True), (-3600.0, False)])
def test_the_time_it_waited_in_the_queue_counts_by_the_file_systems_clock_alone(
    machine: Callable[..., Machine], made_before_s: float, leaves: bool
) -> None:
    """The machine's own clock may be an hour away from the node's."""
    at = machine(1800.0 if leaves else 1.0)
    made_s = at.folder.made_s() - made_before_s
    os.utime(at.folder.script, (made_s, made_s))
    at.start(0)
    if leaves:
        assert at.end(0) == "b"
    else:
        at.at_barrier(0)
        time.sleep(1.5)
        assert [held.task for held in at.barrier.held()] == [0]


# --- what the book makes of it -------------------------------------------------------------------------------


def held(at: Book, *tasks: int) -> ArrayFolder:
    """As scripts do that reach their barriers."""
    (token,) = [array.token for array in at.ledger.arrays()]
    folder = at.rows.folder(token)
    for task in tasks:
        (folder.root / "run" / str(task)).write_text("1 n1\n")
        (folder.root / "held" / str(task)).write_text("20000 n1\n.\n")
    return folder


def waiting(count: int = 1) -> Order:
    return msgspec.structs.replace(order(list(range(count))), barrier_s=wall_s() + MANY_S)


def test_a_machine_that_is_lost_at_the_barrier_lost_nothing_that_began(tmp_path: Path) -> None:
    with book(tmp_path) as at:
        at.give(waiting(2))
        list(at.submit())
        folder = held(at, 0, 1)
        at.look()
        assert [one.run.index for one in at.at_barrier(new=True)] == [0, 1] and not at.at_barrier(new=True)
        assert folder.barrier.let_go(1, ())
        system: Rough = at._system  # type: ignore[assignment]
        seen = [
            Seen("1", at.ledger.arrays()[0].token, IndexSet.span(0, 2), Stage.OVER, "NODE_FAIL", fate=Fate.MACHINE_LOST)
        ]
        system.listing = lambda: seen  # type: ignore[method-assign]
        at._judge._settings = ClusterSettings(kind="rough", settle_s=0.0)
        at.ask()
        at.ask()
        assert outcomes(at) == {0: Outcome.UNBEGUN, 1: Outcome.INTERRUPTED}
        (error,) = [error.text for _, _, facts in at.told() for error in facts.errors if error.index == 0]
        assert error.endswith("rough ended it on n1 before its gang was let go (NODE_FAIL)")
        assert not folder.barrier.let_go(0, ())


def test_who_takes_over_finds_what_waits_and_lets_it_go(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with book(tmp_path / "main", shared) as old:
        old.give(waiting(3))
        list(old.submit())
        held(old, 0, 1, 2)
        old.look()
        first, second, _ = old.at_barrier(new=False)
        assert first.barrier.let_go(0, ()) and second.barrier.close(1, LATE)
        with book(tmp_path / "spare", shared, old.identity) as new:
            new.look()
            assert [one.run.index for one in new.at_barrier(new=False)] == [2]
            new.kill(PART, 1, IndexSet.of([0, 1, 2]))
            assert outcomes(new) == {1: Outcome.CANCELLED, 2: Outcome.CANCELLED}
            assert not first.barrier.let_go(2, ())


def test_a_decision_is_on_the_disk_before_it_is_written_down_that_a_task_never_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, at_writing, fsync = set[str](), list[set[str]](), os.fsync

    def seen(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.name == "go":
            on_disk.update(name for name in os.listdir(path) if name.isdecimal())
        fsync(fd)

    with book(tmp_path) as at:
        at.give(waiting())
        list(at.submit())
        folder = held(at, 0)
        at.look()
        ended = at.ledger.ended
        monkeypatch.setattr(os, "fsync", seen)
        monkeypatch.setattr(at.ledger, "ended", lambda *row: at_writing.append(set(on_disk)) or ended(*row))
        # The task's own word, which no disk has yet.
        (folder.root / "go" / "0").write_text(f"b={LATE}\n")
        (folder.root / "end" / "0").write_text("0 b\n0m0.0s 0m0.0s\n0m0.1s 0m0.0s\n.\n")
        at.look()
        assert outcomes(at) == {0: Outcome.UNBEGUN} and at_writing == [{"0"}]


def test_the_batch_systems_time_limit_leaves_room_for_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with book(tmp_path) as at:
        at.give(msgspec.structs.replace(waiting(), time_limit_s=60.0))
        asked: list[float] = []
        monkeypatch.setattr(at._system, "submit", lambda array: asked.append(array.time_limit_s) or "1")
        list(at.submit())
    assert len(asked) == 1 and 60.0 + MANY_S - 60.0 < asked[0] <= 60.0 + MANY_S


def test_a_task_has_the_grace_of_its_order_and_the_batch_systems_time_limit_leaves_room_for_it(tmp_path: Path) -> None:
    given = msgspec.structs.replace(order([0]), time_limit_s=60.0, grace_s=90.0)
    assert " timeout -k 90 60 " in script(given, str(tmp_path), str(tmp_path), AROUND)
    asked: list[float] = []
    with book(tmp_path) as at:
        at.give(given)
        at._system.submit = lambda array: asked.append(array.time_limit_s) or "1"  # type: ignore[method-assign]
        list(at.submit())
    assert asked == [60.0 + 90.0 - GRACE_S]


def test_a_task_whose_time_limit_and_grace_are_more_than_the_cluster_allows_is_refused(tmp_path: Path) -> None:
    preparer = Preparer(DataDir(tmp_path), SiteId("alpha"), Accounts({}), most_grace_s=65.0)
    orders = Orders(Plans(DataDir(tmp_path), NONE), preparer, "c")
    spec = GroupSpec(argv=("x",), resources=Resources(time_limit_s=60.0), grace_s=3600.0)
    start = Start(worker="c", session=1, subgroup=PART, epoch=1, owner="u@vo", spec=spec, indices=IndexSet.span(0, 1))
    (given,), none = orders.of(start, [0], ClusterCapacity(version="1", slots=1, time_limit_s=120.0))
    assert (given.grace_s, none) == (65.0, [])
    none, (refused,) = orders.of(start, [0], ClusterCapacity(version="1", slots=1, time_limit_s=100.0))
    assert none == [] and refused.text.endswith(
        "on cluster c a job has at most 100 s, its time limit is 60 s with 60 s of grace more"
    )


def test_orders_of_one_part_with_other_deadlines_are_other_arrays() -> None:
    """A script has one deadline for all its tasks."""
    start = Start(
        worker="c", session=1, subgroup=PART, epoch=1, owner="u@vo", spec=GroupSpec(), indices=IndexSet.span(0, 1)
    )
    later = msgspec.structs.replace(start, indices=IndexSet.span(1, 2), barrier_s=50.0)
    same = msgspec.structs.replace(later, indices=IndexSet.span(2, 3))
    assert [each.indices for each in together([start, later, same])] == [IndexSet.span(0, 1), IndexSet.span(1, 3)]


def test_a_task_that_runs_by_the_listing_and_was_not_let_go_has_begun_nothing() -> None:
    """Also one that is not at its barrier yet: its script begins before it says that it waits."""
    array = LiveArray(1, "t", msgspec.structs.replace(order([0, 1]), barrier_s=wall_s() + 60.0))
    running = [Seen("7", "t", IndexSet.of([0, 1]), Stage.RUNNING)]
    array.shown(running, 5.0, 5.0)
    assert not array.running_since
    array.held, array.decided = {1}, {0}
    array.shown(running, 6.0, 6.0)
    assert array.running_since == {0: 6.0}
    plain = LiveArray(2, "t", order([0, 1]))
    plain.shown(running, 6.0, 6.0)
    assert plain.running_since == {0: 6.0, 1: 6.0}
