"""Every message of a hand-over meets every fault (PROMISES sections 2 and 4): each job starts once, none is lost.

The scenario is always the same: twelve long jobs at a small site, most of which go to a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.engine import Engine
from diana.engine.journal.state import encode_state
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from tests.engine.bench import Fate, Grid, Post
from tests.engine.builders import spec

JOBS = 12
MESSAGES = (ms.Prepare, ms.Prepared, ms.Commit, ms.Committed, ms.Result, ms.ResultAck, ms.Progress)
FAULTS = (
    "lose",
    "twice",
    "later",
    "mute",
    "crash-sender",
    "crash-receiver",
    "crash-sender-lose",
    "crash-receiver-lose",
)


def run(fate: Fate | None, outputs: bool = False) -> Grid:
    grid = Grid(alpha=1, beta=4)
    grid.fate = fate
    for site in grid.sites.values():
        site.outputs = ("out",) if outputs else ()
    grid["alpha"].submit(spec(JOBS, work_s=100.0, collect=("out",) if outputs else ()), JOBS)
    grid.finish(count=3)
    return grid


def check(grid: Grid) -> None:
    """I1, I2, I3, I9 and the promise that state is the fold of the journal."""
    group = grid["alpha"].group("alpha-1")
    assert grid.claims() == {("alpha-1", i): 1 for i in range(JOBS)}
    assert group.state == "done"
    assert len(group.done) == JOBS
    assert len(group.unplaced) == 0
    assert not group.gathers
    for site in grid.sites.values():
        assert not site.engine.core.state.custodies, site.name
        journal = Journal(snapshot=None, seq=0, at_s=0.0, records=site.stored)
        again = Engine.restore(journal, site=site.name, keyring=site.keyring, now=grid.now)
        assert again.snapshot() == encode_state(site.engine.core.state)


def one_fault(kind: type, fault: str, which: int) -> Fate:
    """The `which`-th message of this kind meets the fault; everything else arrives."""
    seen = 0

    def fate(grid: Grid, number: int, letter: Post) -> str:
        nonlocal seen
        sender, to, message = letter
        if not isinstance(message, kind):
            return "deliver"
        seen += 1
        if seen != which:
            return "deliver"
        if fault.startswith("crash"):
            grid.sites[sender if "sender" in fault else to].restart()
            return "lose" if fault.endswith("lose") else "deliver"
        return fault

    return fate


def some_faults(data: st.DataObject, most: int = 6) -> Fate:
    """Whatever mixture is drawn, message by message; then all arrives."""
    drawn = st.lists(st.sampled_from(("deliver", "deliver", *FAULTS)), min_size=1, max_size=30)
    faults: Iterator[str] = iter(data.draw(drawn))
    left = most

    def fate(grid: Grid, number: int, letter: Post) -> str:
        nonlocal left
        fault = next(faults, "deliver")
        if fault == "deliver" or not left:
            return "deliver"
        left -= 1
        if fault.startswith("crash"):
            sender, to, _ = letter
            grid.sites[sender if "sender" in fault else to].restart()
            return "lose" if fault.endswith("lose") else "deliver"
        return fault

    return fate


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda k: k.__name__)
def test_one_message_meets_one_fault(kind: type, fault: str) -> None:
    for which in (1, 2):
        check(run(one_fault(kind, fault, which)))


@pytest.mark.parametrize("fault", FAULTS)
def test_outputs_come_home_once_whatever_happens_to_the_messages_around_them(fault: str) -> None:
    for kind in (ms.Result, ms.ResultAck):
        check(run(one_fault(kind, fault, 1), outputs=True))


def test_without_faults_most_of_the_work_is_handed_over_and_every_kind_of_message_is_sent() -> None:
    """Else the faults below would meet nothing."""
    seen: set[type] = set()

    def fate(grid: Grid, number: int, letter: Post) -> str:
        seen.add(type(letter[2]))
        return "deliver"

    grid = run(fate)
    check(grid)
    assert seen >= set(MESSAGES)
    assert len(grid["beta"].started) > JOBS / 2


def test_everything_twice() -> None:
    check(run(lambda grid, number, letter: "twice"))


def test_everything_late() -> None:
    """Each message waits for the rest of the queue once, so that all pairs are turned round."""
    waited: dict[int, Post] = {}

    def fate(grid: Grid, number: int, letter: Post) -> str:
        if id(letter) in waited:
            return "deliver"
        waited[id(letter)] = letter
        return "later"

    check(run(fate))


def test_every_receiver_crashes_after_every_message_it_has_made_durable() -> None:
    count = run(None).delivered
    for number in range(1, count + 1, 2):
        check(run(lambda grid, at, letter, number=number: "mute" if at == number else "deliver"))  # type: ignore[misc]


@settings(max_examples=60)
@given(st.data())
def test_any_mixture_of_faults(data: st.DataObject) -> None:
    """Up to eight faults anywhere in one life; after them the network is well."""
    check(run(some_faults(data, most=8), outputs=data.draw(st.booleans())))
