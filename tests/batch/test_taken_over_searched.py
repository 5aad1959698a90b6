"""Two machines of a site before one cluster, by seeds: whoever leads takes over what the other gave, the other goes on
with what it was at when it lost the lead, jobs are called back, killed and given anew meanwhile, and every run is
executed once at most and comes to an end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from diana.adapters.batch.array import rows
from diana.adapters.batch.array.ending import Ending
from diana.adapters.batch.array.rows import ArraysElsewhere
from diana.adapters.batch.book import Book
from diana.adapters.batch.portions import NO_LIMIT, Limit
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import BatchRefused, BatchUnreachable
from diana.adapters.lrm.collect import OutputCollector
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.subgrid.delivery import LogSegments
from diana.engine.journal.events import Run
from diana.errors import StoreFailed
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from tests.batch.test_book_searched import ALPHA, PART, Rough, order, token_of
from tests.runs import SEED, with_fresh

KINDS = (
    "taken unheard",
    "not taken",
    "silent listing",
    "requeue",
    "machine lost",
    "never begins",
    "hidden",
    "refused",
    "ledger refuses",
)
TURNS, QUIET = 3000, 800
"""How many there are at most, and from which on nothing bad happens any more."""


class Machine:
    """One that may lead. `late`: orders that its node had taken and not carried out when it lost the lead."""

    def __init__(self, root: Path, system: Rough, folder: Path) -> None:
        self.data, self.system, self.folder = DataDir(root), system, folder
        self.book: Book | None = None
        self.late: list[Order] = []

    def leads(self, before: str) -> Book:
        if self.book is not None:
            self.book.close()
        segments = LogSegments(self.data.logs_root, "c")
        ending = Ending(ALPHA, "c", segments, OutputCollector(self.data, ALPHA, lambda *_: None), time.monotonic)
        settings = ClusterSettings(kind="rough", settle_s=0.0, folder=str(self.folder))
        self.late, self.book = [], Book(self.data, ALPHA, "c", settings, self.system, ending, before)
        write = self.book.ledger._write

        def refusing(statements: Sequence[tuple[str, tuple[object, ...]]]) -> int:
            if self.system.strikes("ledger refuses"):
                raise StoreFailed("no space left on device")
            return write(statements)

        self.book.ledger._write = refusing  # type: ignore[method-assign]
        return self.book


class Life:
    """The state of it in the site's journal, which both machines keep."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.system = Rough(rng, {kind: rng.choice((0.0, 0.0, 0.1, 0.3)) for kind in KINDS})
        (root / "shared").mkdir(parents=True)
        self.machines = [Machine(root / name, self.system, root / "shared") for name in ("main", "spare")]
        self.leader = 0
        self.jobs, self.given = rng.randint(15, 50), 0
        self.limit = rng.choice((NO_LIMIT, Limit(1), Limit(3), Limit(2, throttles=True)))
        self.attempts: Counter[int] = Counter()
        self.cancelled: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self.indices: dict[str, list[int]] = {}
        self.struck: Counter[str] = Counter()
        self.refused_by_disk = False
        self.book = self.machines[0].leads("")
        self.identity = self.book.identity

    def take_over(self) -> None:
        """Also by the machine that leads: its node starts again."""
        other = self.rng.random() < 0.7
        self.struck["taken over" if other else "restarted"] += 1
        self.leader ^= other
        self.book = self.machines[self.leader].leads(self.identity)
        self.struck["arrays taken over"] += self.book.rows.taken_over
        self.ready()

    def ready(self) -> None:
        """Runs that the journal shows there and nobody has are given anew."""
        self.identity, self.machines[self.leader].late = self.book.identity, []
        known = {(run.index, run.attempt) for run in self.book.known()}
        open_ = sorted(set(range(self.given)) - self.outcomes.keys())
        if gone := [index for index in open_ if (index, self.attempts[index]) not in known]:
            self.give(gone)

    def give(self, some: list[int]) -> None:
        machine = self.machines[self.leader]
        self.attempts.update(some)
        machine.late.append(order(some, [self.attempts[index] for index in some]))
        if self.rng.random() < 0.5:
            self.carry_out(machine)

    def carry_out(self, machine: Machine) -> None:
        """Orders that wait, in the book of a machine that may lead no more."""
        assert machine.book is not None
        while machine.late:
            try:
                machine.book.give(machine.late.pop(0))
            finally:
                self.indices |= {each.token: each.order.indices for each in machine.book.ledger.arrays()}

    def act(self, machine: Machine) -> None:
        book = machine.book
        assert book is not None
        rng = self.rng
        match rng.choice(("carry out", "submit", "submit", "look", "ask", "recall", "kill", "take back")):
            case "carry out":
                self.carry_out(machine)
            case "submit":
                for refused, why in list(book.submit(self.limit)):
                    book.refuse(refused, why)
            case "recall" if self.given and rng.random() < 0.1:
                book.recall(PART, 1, IndexSet.of(rng.sample(range(self.given), rng.randint(1, self.given))))
            case "kill" if self.given and rng.random() < 0.1:
                index = rng.randrange(self.given)
                self.cancelled.add(index)
                book.kill(PART, 1, IndexSet.of([index]))
            case "take back" if rng.random() < 0.2:
                book.take_back()
            case "look":
                book.look()
            case "ask":
                book.ask()

    def turn(self, bad: bool) -> None:
        rng = self.rng
        for _ in range(rng.randint(0, 5)):
            self.system.step()
        old = self.machines[self.leader ^ 1]
        if old.book is not None and rng.random() < 0.3:
            try:
                self.act(old)
            except ArraysElsewhere:
                self.struck["refused by the seal"] += 1
            except (BatchUnreachable, BatchRefused, StoreFailed, OSError):
                # The leader drops what is over.
                pass
        try:
            if bad and rng.random() < 0.06:
                self.take_over()
            elif self.refused_by_disk:
                self.ready()
            self.refused_by_disk = False
            with suppress(BatchUnreachable, BatchRefused):
                if self.given < self.jobs and rng.random() < 0.3:
                    some = list(range(self.given, min(self.jobs, self.given + rng.randint(1, 8))))
                    self.given = some[-1] + 1
                    self.give(some)
                self.act(self.machines[self.leader])
            self.hear()
        except StoreFailed:
            # It is lost, and ready anew.
            self.refused_by_disk = True

    def hear(self) -> None:
        back = set[int]()
        for _, _, facts in self.book.fresh() if self.rng.random() < 0.8 else self.book.told():
            for index, attempt, outcome in zip(facts.indices, facts.attempts, facts.outcomes, strict=True):
                if attempt != self.attempts[index] or index in self.outcomes:
                    continue
                if outcome == Outcome.UNBEGUN:
                    back.add(index)
                else:
                    self.outcomes[index] = Outcome(outcome)
            if self.rng.random() < 0.5:
                with suppress(StoreFailed):
                    self.book.forget(Run(PART, 1, i, a) for i, a in zip(facts.indices, facts.attempts, strict=True))
        if back:
            self.struck["given back"] += len(back)
            self.give(sorted(back))

    def check(self) -> None:
        begun = Counter(self.indices[token_of(folder)][task] for folder, task in self.system.executed.elements())
        twice = [index for index, times in begun.items() if times > 1]
        assert not twice, f"executed twice: {twice}"
        never = {i for i, how in self.outcomes.items() if how in (Outcome.NOT_STARTED, Outcome.CANCELLED)}
        ran = never & begun.keys() - self.cancelled
        assert not ran, f"{ran} ran though they were told not to have begun"
        assert {i for i, how in self.outcomes.items() if how is Outcome.CANCELLED} <= self.cancelled
        done = sum(how is Outcome.DONE for how in self.outcomes.values())
        assert done <= len(self.system.finished)


def search(root: Path, seed: int) -> Life:
    life = Life(root / str(seed), seed)
    try:
        for turn in range(TURNS):
            if turn == QUIET:
                life.system.faults = {}
            life.turn(turn < QUIET)
            if life.given == life.jobs and len(life.outcomes) == life.jobs:
                break
        for _ in range(200):
            life.system.step()
        life.check()
        assert len(life.outcomes) == life.jobs, f"{life.jobs - len(life.outcomes)} of {life.jobs} came to no end"
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}: {fault}; {dict(life.struck)}") from None
    finally:
        for machine in life.machines:
            if machine.book is not None:
                machine.book.close()
    return life


def searched(root: Path, seeds: Iterable[int]) -> Counter[str]:
    struck: Counter[str] = Counter()
    for seed in seeds:
        struck.update(search(root, seed).struck)
    return struck


@pytest.mark.wide
def test_every_run_is_executed_once_at_most_whoever_takes_over_from_whom(tmp_path: Path) -> None:
    struck = searched(tmp_path, with_fresh((0, 3, 7, 9, 12, 14), 2))
    wanted = ("taken over", "restarted", "arrays taken over", "refused by the seal", "given back")
    assert all(struck[kind] for kind in wanted), struck


@pytest.mark.wide
@pytest.mark.parametrize("first", [0, 1, 2])
def test_so_it_is_under_many_seeds(first: int, tmp_path: Path) -> None:
    struck = searched(tmp_path, range(SEED + 1000 + 30 * first, SEED + 1030 + 30 * first))
    assert struck["refused by the seal"] > 5, struck


def test_without_the_seal_runs_are_executed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Life.turn

    def goes_on(life: Life, bad: bool) -> None:
        # Each takes folders away from under the other.
        with suppress(OSError):
            turn(life, bad)

    monkeypatch.setattr(rows, "_seal", lambda row: None)
    monkeypatch.setattr(Life, "turn", goes_on)

    def doubles(seed: int) -> bool:
        try:
            search(tmp_path, seed)
        except AssertionError as fault:
            return "executed twice" in str(fault)
        return False

    assert any(doubles(seed) for seed in range(40))


def test_who_kills_what_it_took_over_ends_it(tmp_path: Path) -> None:
    life = Life(tmp_path, 1)
    life.given, life.machines[0].late = 3, [order([0, 1, 2], [1, 1, 1])]
    life.carry_out(life.machines[0])
    life.system.faults = {}
    list(life.book.submit())
    life.book = life.machines[1].leads(life.identity)
    life.book.kill(PART, 1, IndexSet.span(0, 3))
    (told,) = life.book.fresh()
    assert set(told[2].outcomes) == {Outcome.CANCELLED}
    for _ in range(50):
        life.system.step()
    assert not life.system.executed
