"""An explicit-state search: every state a protocol can reach, so that no interleaving is left to luck.

A model says how it begins and which steps lead on; its states are values. The search goes breadth first, so what it
finds is a shortest counterexample, told as a story of named steps. Three questions can be asked: does an invariant
break (`explore`), is there a state from which the goal can no longer be reached (`stuck`), and is there a schedule
that never ends (`endless`).

A step may say of which kind it is, and a model may be searched without some of them: `Faultless` leaves out what
fails, and `Patient` also lets time-outs happen only where nothing else can, and deadlines last. A thing that must not
happen while nothing fails is an invariant of the patient model.

Symmetry and messages that can have no effect any more are the model's business: it hands out states in *normal
form*, one for all that are equal, and the search needs to know nothing of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)
S_co = TypeVar("S_co", bound=Hashable, covariant=True)
Subject = TypeVar("Subject", bound=Hashable)

STATES_AT_MOST = 1_000_000

Kind = Literal["by itself", "time-out", "deadline", "fault", "whim"]
"""A step goes by itself, or when somebody has waited long enough (a deadline is later than all other time-outs), or
something fails, or somebody has a whim (a lie): for a whim nobody waits, and it may never come."""

PATIENCE: tuple[Kind, ...] = ("by itself", "time-out", "deadline")
"""Steps where nothing fails, in the order in which the patient let them happen."""


class Step(NamedTuple, Generic[S_co]):
    """One named thing that may happen, and the state after it."""

    name: str
    state: S_co
    kind: Kind = "by itself"


class Model(Protocol[State]):
    """A model to search."""

    def initial(self) -> State:
        """The state everything begins in, in normal form."""
        ...

    def transitions(self, state: State) -> Iterable[Step[State]]:
        """All that may happen next; states in normal form. A step back to `state` itself does no harm."""
        ...


Invariant = Callable[[State], str | None]
"""A check that must hold in every state: None, or how this one breaks it."""
Rule = Callable[[State, State], str | None]
"""A check that must hold of every step (before, after): None, or how this one breaks it."""


@dataclass(frozen=True)
class Counterexample:
    """A shortest way to something that must not be."""

    broken: str
    how: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        story = "".join(f"\n  {number:2}. {step}" for number, step in enumerate(self.steps, 1))
        return f"{self.broken}: {self.how}, after {len(self.steps)} steps{story}"


@dataclass(frozen=True)
class Explored(Generic[State]):
    """The outcome of a search: how each state was first reached, and the counterexample at which it stopped, if any."""

    reached: Mapping[State, tuple[State, str] | None]
    steps: int
    found: Counterexample | None

    def story(self, state: State) -> tuple[str, ...]:
        """The names of the steps on a shortest way from the beginning to `state`."""
        names: list[str] = []
        while (came := self.reached[state]) is not None:
            state, name = came
            names.append(name)
        return tuple(reversed(names))


def explore(
    model: Model[State],
    invariants: Iterable[Invariant[State]] = (),
    rules: Iterable[Rule[State]] = (),
    states_at_most: int = STATES_AT_MOST,
) -> Explored[State]:
    """Search breadth first until all is seen or the first thing breaks.

    Raises MemoryError when more than `states_at_most` states are reached: a bound that was cut short has shown nothing.
    """
    invariants, rules = tuple(invariants), tuple(rules)
    first = model.initial()
    reached: dict[State, tuple[State, str] | None] = {first: None}
    steps = 0

    def stopped(broken: Callable[..., str | None], how: str, story: tuple[str, ...]) -> Explored[State]:
        return Explored(reached, steps, Counterexample(name_of(broken), how, story))

    for invariant in invariants:
        if how := invariant(first):
            return stopped(invariant, how, ())
    waiting = deque([first])
    while waiting:
        before = waiting.popleft()
        for name, after, _ in model.transitions(before):
            steps += 1
            for rule in rules:
                if how := rule(before, after):
                    return stopped(rule, how, (*Explored(reached, steps, None).story(before), name))
            if after in reached:
                continue
            reached[after] = (before, name)
            for invariant in invariants:
                if how := invariant(after):
                    return stopped(invariant, how, Explored(reached, steps, None).story(after))
            waiting.append(after)
        if len(reached) > states_at_most:
            raise MemoryError(f"more than {states_at_most} states: make the bound smaller")
    return Explored(reached, steps, None)


def stuck(
    model: Model[State],
    starts: Iterable[tuple[Subject, State]],
    goal: Callable[[State], bool],
) -> list[Subject]:
    """The subjects whose start never reaches a state with `goal`, whatever happens.

    A start is searched once, and a search ends where an earlier one went the same way: the cost is that of the
    states met, not of starts times states."""
    reaches: dict[State, bool] = {}
    return [subject for subject, start in starts if not _reaches(model, start, goal, reaches)]


def _reaches(model: Model[State], start: State, goal: Callable[[State], bool], known: dict[State, bool]) -> bool:
    """True if `goal` can be reached from `start`; writes what it learnt on the way into `known`."""
    came: dict[State, State | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if known.get(state) or goal(state):
            on_the_way: State | None = state
            while on_the_way is not None:
                known[on_the_way] = True
                on_the_way = came[on_the_way]
            return True
        if state in known:
            continue
        for _, after, _ in model.transitions(state):
            if after not in came:
                came[after] = state
                waiting.append(after)
    known.update(dict.fromkeys(came, False))
    return False


@dataclass(frozen=True)
class Faultless(Generic[State]):
    """A model without its faults and whims."""

    model: Model[State]

    def initial(self) -> State:
        """As in the model."""
        return self.model.initial()

    def transitions(self, state: State) -> Iterable[Step[State]]:
        """Steps that go by themselves, and time-outs."""
        return [step for step in self.model.transitions(state) if step.kind in PATIENCE]


@dataclass(frozen=True)
class Patient(Generic[State]):
    """A model without its faults, in which a time-out comes only when nothing goes by itself any more, and a deadline
    when no other time-out is left."""

    model: Model[State]
    whims: bool = True
    """Whims may happen at any time; False: they do not."""

    def initial(self) -> State:
        """As in the model."""
        return self.model.initial()

    def transitions(self, state: State) -> Iterable[Step[State]]:
        """Steps that go by themselves, else time-outs, else deadlines; whims besides. None leads back to `state`."""
        steps = [step for step in self.model.transitions(state) if step.kind != "fault" and step.state != state]
        there = {step.kind for step in steps}
        now = next((kind for kind in PATIENCE if kind in there), None)
        return [step for step in steps if step.kind == now or (self.whims and step.kind == "whim")]


def endless(model: Model[State], starts: Iterable[State]) -> tuple[str, ...] | None:
    """The names of the steps of a circle that a schedule may go round for ever, or None if every schedule ends.

    Where every schedule ends, `stuck` says whether it ends well."""
    on_path: dict[State, bool] = {}
    for start in starts:
        if start in on_path:
            continue
        on_path[start] = True
        path = [("", start, iter(model.transitions(start)))]
        while path:
            _, state, steps = path[-1]
            for name, after, _ in steps:
                if on_path.get(after):
                    states = [passed for _, passed, _ in path]
                    return (*(led for led, _, _ in path[states.index(after) + 1 :]), name)
                if after not in on_path:
                    on_path[after] = True
                    path.append((name, after, iter(model.transitions(after))))
                    break
            else:
                on_path[state] = False
                path.pop()
    return None


def name_of(thing: Callable[..., object]) -> str:
    """A function's name as a sentence: `one_leader_in_a_term` reads "one leader in a term"."""
    return getattr(thing, "__name__", repr(thing)).replace("_", " ")
