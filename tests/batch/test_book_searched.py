"""Whatever a batch system, its machines and the node do, by seeds: every run is executed once at most, and every run
comes to an end that is told, DONE only where it was executed to its end."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from diana.adapters.batch.array.barrier import GO, LATE, Barrier
from diana.adapters.batch.array.ending import Ending
from diana.adapters.batch.array.folder import LOST, RECALLED
from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.book import Book
from diana.adapters.batch.portions import NO_LIMIT, Limit
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, ClusterCapacity, Seen, Stage
from diana.adapters.lrm.collect import OutputCollector
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.subgrid.delivery import LogSegments
from diana.engine.journal.events import Run
from diana.errors import StoreFailed
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from tests.runs import SEED, with_fresh

ALPHA, PART = SiteId("alpha"), SubgroupId("alpha-1/0")
SETTLE_S = 0.0
BEGAN_S = time.time() - 1.0
KINDS = (
    "taken unheard",
    "not taken",
    "silent listing",
    "requeue",
    "machine lost",
    "never begins",
    "cancelled there",
    "hidden",
    "refused",
    "ledger refuses",
)
GIVEN_BACK = "given back"
CHOICES = ("give", "submit", "look", "ask", "kill", "take back", "recall", "go")


class Rough:
    """A batch system that does what its script says, in steps, and everything a user fears."""

    kind = "rough"
    dialect = Dialect(task="K", first=0, job="J", machine="M")

    def __init__(self, rng: random.Random, faults: dict[str, float]) -> None:
        self.rng, self.faults = rng, faults
        self.tasks: dict[tuple[str, int], tuple[str, Path, Stage]] = {}
        self.numbers = 0
        self.executed: Counter[tuple[Path, int]] = Counter()
        self.finished: set[tuple[Path, int]] = set()
        self.struck: Counter[str] = Counter()
        self.waits: set[tuple[Path, int]] = set()
        """Tasks at their barriers."""

    def strikes(self, fault: str) -> bool:
        if self.rng.random() >= self.faults.get(fault, 0.0):
            return False
        self.struck[fault] += 1
        return True

    def capacity(self) -> ClusterCapacity:
        return ClusterCapacity(version="1", slots=4)

    def submit(self, array: Array) -> str:
        if self.strikes("not taken"):
            raise BatchUnreachable("no answer")
        if self.strikes("refused"):
            raise BatchRefused("no such queue")
        self.numbers += 1
        job, folder = str(self.numbers), Path(array.script).parent
        for task in array.tasks:
            self.tasks[job, task] = (array.token, folder, Stage.WAITING)
        if self.strikes("taken unheard"):
            raise BatchUnreachable("no answer")
        return job

    def listing(self) -> list[Seen]:
        if self.strikes("silent listing"):
            raise BatchUnreachable("no answer")
        # A controller that came back without its memory shows nothing of what it will find again.
        hidden = {job for job, _ in self.tasks if self.strikes("hidden")}
        every = [(job, k, *shown) for (job, k), shown in self.tasks.items() if job not in hidden]
        return [Seen(job, token, IndexSet.of([k]), stage) for job, k, token, _, stage in every]

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        # Also after a restart it is known how far back to look.
        assert jobs and BEGAN_S < since_s <= time.time() + 1.0
        self.struck["history asked"] += 1
        raise BatchUnreachable("keeps none")

    def cancel(self, job: str, tasks: IndexSet) -> None:
        for task in tasks:
            if self.tasks.pop((job, task), None) is not None and self.rng.random() < 0.1:
                raise BatchRefused("said no, but did it")

    def step(self) -> None:
        """One thing happens to one task."""
        if not self.tasks:
            return
        name = self.rng.choice(sorted(self.tasks))
        token, folder, stage = self.tasks[name]
        task = name[1]
        if stage is Stage.WAITING:
            if self.strikes("never begins") or self.strikes("cancelled there"):
                del self.tasks[name]
            elif self.begins(folder, task, name[0]):
                self.tasks[name] = (token, folder, Stage.RUNNING)
            else:
                del self.tasks[name]
        elif self.strikes("requeue"):
            # What ran is killed, and the task starts again some day.
            self.waits.discard((folder, task))
            self.tasks[name] = (token, folder, Stage.WAITING)
        elif (folder, task) in self.waits:
            if self.leaves(folder, task):
                del self.tasks[name]
        else:
            del self.tasks[name]
            if not self.strikes("machine lost"):
                self.finished.add((folder, task))
                # Given up meanwhile, its folder may be gone.
                with suppress(FileNotFoundError):
                    (folder / "out" / str(task)).write_text(f"{task}\n")
                    (folder / "end" / str(task)).write_text("0 -\n0m0.0s 0m0.0s\n0m0.1s 0m0.0s\n.\n")

    def begins(self, folder: Path, task: int, job: str) -> bool:
        try:
            fd = os.open(folder / "run" / str(task), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except (FileExistsError, FileNotFoundError):
            # Begun before, or of an array that is forgotten.
            return False
        os.write(fd, f"{job} machine\n".encode())
        os.close(fd)
        if Barrier(folder).there():
            (folder / "held" / str(task)).write_text("20000 machine\n.\n")
            self.waits.add((folder, task))
        else:
            self.executed[folder, task] += 1
        return True

    def leaves(self, folder: Path, task: int) -> bool:
        """True if a task leaves its barrier for good; one that was let go executes its command."""
        at = Barrier(folder)
        try:
            if self.rng.random() < 0.03:
                at.close(task, LATE)
            word = at.word(task)
            if word is None:
                return False
            self.waits.discard((folder, task))
            self.struck[word.why] += 1
            if word.why == GO:
                self.executed[folder, task] += 1
                return False
            if not self.strikes("machine lost"):
                (folder / "end" / str(task)).write_text("0 b\n0m0.0s 0m0.0s\n0m0.1s 0m0.0s\n.\n")
        except FileNotFoundError:
            # Given up meanwhile, its folder is gone.
            self.waits.discard((folder, task))
        return True


def order(indices: list[int], attempts: list[int] | None = None) -> Order:
    text = {name: "" for name in ("directory", "account", "lease")}
    empty: dict[str, list[object]] = {
        name: [] for name in ("argvs", "environment", "environments", "stdouts", "stderrs", "collects")
    }
    return Order(
        subgroup=PART,
        epoch=1,
        group="alpha-1",
        processors=1,
        time_limit_s=0.0,
        memory_bytes=0,
        log_limit_bytes=1000,
        own_directory=False,
        indices=indices,
        attempts=attempts or [1] * len(indices),
        argv=["true"],
        **text,
        **empty,
    )  # type: ignore[arg-type]


def opened(data: DataDir, system: Rough) -> Book:
    ending = Ending(
        ALPHA, "c", LogSegments(data.logs_root, "c"), OutputCollector(data, ALPHA, lambda *_: None), time.monotonic
    )
    book = Book(data, ALPHA, "c", ClusterSettings(kind="rough", settle_s=SETTLE_S), system, ending)
    write = book.ledger._write

    def refusing(statements: Sequence[tuple[str, tuple[object, ...]]]) -> int:
        if system.strikes("ledger refuses"):
            raise StoreFailed("no space left on device")
        return write(statements)

    book.ledger._write = refusing  # type: ignore[method-assign]
    return book


def token_of(folder: Path) -> str:
    return f"{folder.parent.name}.{folder.name}"


def search(root: Path, seed: int, *, holds: bool = False) -> Rough:
    """Search in the folder `root`, which is new: what another search left there would be told again as this one's.
    `holds`: the jobs are components of gangs."""
    root.mkdir()
    rng = random.Random(seed)
    system = Rough(rng, {kind: rng.choice((0.0, 0.0, 0.1, 0.4)) for kind in KINDS})
    crash, forget = rng.choice((0.0, 0.05, 0.2)), rng.random()
    data = DataDir(root)
    book = opened(data, system)
    limit = rng.choice((NO_LIMIT, Limit(1), Limit(3), Limit(2, throttles=True)))
    outcomes: dict[int, Outcome] = {}
    attempts: Counter[int] = Counter()
    again: list[int] = []
    """Given back unbegun, and to be given anew."""
    given, cancelled, indices = 0, set[int](), dict[str, list[int]]()
    jobs = rng.randint(5, 30)

    gone: set[Run] = set()
    """Runs that were let go."""

    def give(some: list[int]) -> None:
        wanted = order(some, [attempts[index] + 1 for index in some])
        wanted.barrier_s = time.time() + 1e6 if holds else 0.0
        book.give(wanted)
        attempts.update(some)
        last = book.ledger.arrays()[-1]
        indices[last.token] = last.order.indices

    for turn in range(4000):
        if turn > 1000:
            system.faults, crash = {}, 0.0
        for _ in range(rng.randint(0, 6)):
            system.step()
        try:
            match rng.choice(
                ("give", "submit", "look", "ask", "kill", "take back", "recall", *(["go"] if holds else []))
            ):
                case "go":
                    for one in book.at_barrier(new=False):
                        with suppress(FileNotFoundError):
                            if rng.random() < 0.7 and one.barrier.let_go(one.task, ()):
                                gone.add(one.run)
                case "give" if given < jobs:
                    some = list(range(given, min(jobs, given + rng.randint(1, 8))))
                    give(some)
                    given = some[-1] + 1
                case "submit":
                    for refused, why in list(book.submit(limit)):
                        book.refuse(refused, why)
                case "take back" if rng.random() < 0.2:
                    book.take_back()
                case "look":
                    book.look()
                case "ask":
                    book.ask()
                case "give" if again:
                    give(sorted(again))
                    again = []
                case "recall" if given and rng.random() < 0.1:
                    book.recall(PART, 1, IndexSet.of(rng.sample(range(given), rng.randint(1, given))))
                case "kill" if given and rng.random() < 0.1:
                    index = rng.randrange(given)
                    cancelled.add(index)
                    book.kill(PART, 1, IndexSet.of([index]))
        except (BatchUnreachable, BatchRefused, StoreFailed):
            pass
        told = book.fresh()
        if rng.random() < crash:
            # What was told in this turn is told again.
            book.close()
            book = opened(data, system)
            told = book.told()
        for _, _, facts in told:
            for index, attempt, outcome in zip(facts.indices, facts.attempts, facts.outcomes, strict=True):
                if outcome == Outcome.UNBEGUN:
                    assert Run(PART, 1, index, attempt) not in gone, f"seed {seed}: {index} was let go"
                    if attempt == attempts[index] and index not in again and index not in outcomes:
                        again.append(index)
                        system.struck[GIVEN_BACK] += 1
                    continue
                assert outcomes.setdefault(index, Outcome(outcome)) == outcome, (
                    f"seed {seed}: {index} ended in two ways"
                )
            if rng.random() < forget:
                # Refused by the ledger, it is told again at the next start.
                with suppress(StoreFailed):
                    book.forget(
                        Run(PART, 1, index, attempt)
                        for index, attempt in zip(facts.indices, facts.attempts, strict=True)
                    )
        if given == jobs and len(outcomes) == jobs:
            break
    assert len(outcomes) == jobs, f"seed {seed}: {jobs - len(outcomes)} of {jobs} came to no end"
    for _ in range(200):
        system.step()
    begun = Counter(indices[token_of(folder)][task] for folder, task in system.executed.elements())
    assert max(begun.values(), default=1) == 1, f"seed {seed}: executed twice"
    never = {i for i, how in outcomes.items() if how in (Outcome.NOT_STARTED, Outcome.CANCELLED)}
    ran = never & begun.keys() - cancelled
    assert not ran, f"seed {seed}: {ran} ran though they were told not to have begun"
    done = Counter(outcomes.values())[Outcome.DONE]
    assert done <= len(system.finished), f"seed {seed}: done without having run"
    hurt = {Outcome.UNKNOWN, Outcome.NOT_STARTED, Outcome.CANCELLED}
    forgiving = ("machine lost", "requeue", "never begins", "hidden", "refused")
    if not sum(system.struck[kind] for kind in forgiving) and not cancelled:
        assert not hurt & set(outcomes.values()) or system.struck["cancelled there"], f"seed {seed}: {outcomes}"
    assert {i for i, how in outcomes.items() if how is Outcome.CANCELLED} <= cancelled
    book.close()
    return system


def searched(root: Path, seeds: Iterable[int], *, holds: bool = False) -> Counter[str]:
    struck: Counter[str] = Counter()
    for seed in seeds:
        struck.update(search(root / str(seed), seed, holds=holds).struck)
    return struck


def test_a_search_is_the_same_each_time_and_none_goes_on_with_what_another_left(tmp_path: Path) -> None:
    assert search(tmp_path / "one", 5).struck == search(tmp_path / "other", 5).struck
    with pytest.raises(FileExistsError):
        search(tmp_path / "one", 5)


@pytest.mark.wide
def test_every_run_is_executed_once_at_most_and_comes_to_an_end(tmp_path: Path) -> None:
    struck = searched(tmp_path, with_fresh(range(10), 2))
    assert all(struck[kind] for kind in (*KINDS, GIVEN_BACK, "history asked")), struck


@pytest.mark.wide
@pytest.mark.parametrize("first", [0, 1])
def test_so_it_is_under_many_seeds(first: int, tmp_path: Path) -> None:
    struck = searched(tmp_path, range(SEED + 1000 + 60 * first, SEED + 1060 + 60 * first))
    assert all(struck[kind] > 5 for kind in KINDS), struck


@pytest.mark.wide
def test_a_component_is_executed_only_if_it_was_let_go_and_what_was_is_never_told_unbegun(tmp_path: Path) -> None:
    struck = searched(tmp_path, (*range(4), *range(SEED + 2000, SEED + 2004)), holds=True)
    assert all(struck[word] for word in (GO, LATE, RECALLED, LOST)), struck
