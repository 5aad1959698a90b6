"""A standby takes over its leader's cluster (docs/clusters.md, `adapters/batch/array/rows.py`) as a model: one run,
three leaderships in turn (the second and third take over, from a machine that may be dead, stopped, or only late), each
with a row of numbers in a folder they share.

Whoever led goes on with what it was at, at any later time, and never hears that it leads no more. What is assumed of
others: the journal is replicated and only who leads writes it (the standby's model); the file system makes a name once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

LEADERSHIPS = 3
MOST_NUMBERS = 2
"""Numbers of one row, seals not counted."""


class Array(NamedTuple):
    """The run, as given once. Its tasks are copies in the batch system's hands: once there, there may be more."""

    row: int
    number: int
    gate: Literal["open", "begun", "ended", "closed"] = "open"
    tasks: bool = False
    there: bool = True
    """True while its folder is there."""


class Book(NamedTuple):
    """The knowledge of one leadership's process."""

    ready: bool = False
    read: bool = False
    """It has looked what the others left."""
    order: bool = False
    """The run was given to it and is not published."""
    half: int = 0
    """A number it made and has not filled."""
    next: int = 1
    knows: frozenset[tuple[int, int]] = frozenset()


class State(NamedTuple):
    """Everything at one instant."""

    lead: int = 0
    journal: Literal["pending", "given", "over"] = "pending"
    books: tuple[Book, ...] = (Book(ready=True, read=True), *(Book() for _ in range(LEADERSHIPS - 1)))
    names: tuple[frozenset[int], ...] = (frozenset(),) * LEADERSHIPS
    """Numbers that are taken in each row."""
    sealed: tuple[bool, ...] = (False,) * LEADERSHIPS
    arrays: frozenset[Array] = frozenset()
    started: int = 0


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    seals: bool = True
    """A leadership that takes over takes the next number of each row,"""
    seals_first: bool = True
    """and then looks what stands there;"""
    whole: bool = True
    """what stands there is whole;"""
    next_free: bool = True
    """a number that is taken is not taken by the row's owner again;"""
    numbers_rise: bool = True
    """the newest number stays taken when its array is dropped;"""
    gates: bool = True
    """a task begins if it makes its gate;"""
    adopts: bool = True
    """what stands there is known to who takes over before it says what it knows;"""
    made_once: bool = True
    """and an array that was dropped is not made anew."""


@dataclass(frozen=True)
class TakingOver:
    """One run through three leaderships."""

    rules: Rules = field(default_factory=Rules)

    def initial(self) -> State:
        """The first leads, and nothing was given."""
        return State()

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, after)

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The batch system acts, the journal moves on, and every process that ever led."""
        yield from self.tasks(s)
        yield from self.leads(s)
        for who in range(s.lead + 1):
            if s.books[who].ready:
                yield from self.gives(s, who)
                yield from self.closes(s, who)

    # --- the batch system ------------------------------------------------------------------------------

    def tasks(self, s: State) -> Iterator[tuple[str, State]]:
        """They begin if they may, and end."""
        for a in s.arrays:
            name = f"a task of {a.row}.{a.number}"
            if a.tasks and a.there and (a.gate == "open" or (not self.rules.gates and a.gate == "begun")):
                yield f"{name} begins", _with(s, a, gate="begun")._replace(started=min(2, s.started + 1))
            if a.gate == "begun":
                yield f"{name} ends", _with(s, a, gate="ended")

    # --- who leads -------------------------------------------------------------------------------------

    def leads(self, s: State) -> Iterator[tuple[str, State]]:
        """The next takes over; what it finds; what the journal then says."""
        book = s.books[s.lead]
        if s.lead + 1 < LEADERSHIPS and s.journal != "over":
            yield f"{s.lead + 1} leads", s._replace(lead=s.lead + 1)
        if not book.ready:
            yield from self.opens(s)
            return
        if s.journal == "pending" and not book.order and book.next <= MOST_NUMBERS:
            yield f"{s.lead} is given the run", _book(s._replace(journal="given"), s.lead, order=True)
        if s.journal == "given" and not book.order and not book.half and not book.knows:
            yield f"{s.lead} says it does not have it", s._replace(journal="pending")
        for a in s.arrays:
            if (a.row, a.number) in book.knows and a.gate in ("ended", "closed") and a.there:
                over = a.gate == "ended"
                after = _with(s, a, there=False)
                if not self.rules.numbers_rise:
                    after = _names(after, a.row, after.names[a.row] - {a.number})
                after = _book(after, s.lead, knows=book.knows - {(a.row, a.number)})
                yield f"{s.lead} drops {a.row}.{a.number}", after._replace(journal="over" if over else s.journal)

    def opens(self, s: State) -> Iterator[tuple[str, State]]:
        """Seal, look, and then be ready."""
        who, book = s.lead, s.books[s.lead]
        for row in range(who):
            if self.rules.seals and not s.sealed[row] and (book.read or self.rules.seals_first):
                number = max(s.names[row], default=0) + 1
                sealed = tuple(each or at == row for at, each in enumerate(s.sealed))
                yield f"{who} seals row {row}", _names(s, row, s.names[row] | {number})._replace(sealed=sealed)
        all_sealed = all(s.sealed[:who]) or not self.rules.seals
        if not book.read and (all_sealed or not self.rules.seals_first):
            found = frozenset((a.row, a.number) for a in s.arrays if a.there) if self.rules.adopts else frozenset()
            yield f"{who} looks what is there", _book(s, who, read=True, knows=found)
        if book.read and all_sealed:
            yield f"{who} is ready", _book(s, who, ready=True)

    # --- every process that ever led -------------------------------------------------------------------

    def gives(self, s: State, who: int) -> Iterator[tuple[str, State]]:
        """It publishes what it was given, and submits what is published."""
        book, number = s.books[who], s.books[who].next
        if book.half:
            filled = s._replace(arrays=s.arrays | {Array(who, book.half)})
            yield f"{who} fills {who}.{book.half}", _book(filled, who, half=0, knows=book.knows | {(who, book.half)})
        elif book.order and number in s.names[who] and self.rules.next_free:
            yield f"{who} is refused {who}.{number}", _book(s, who, order=False)
        elif book.order:
            named = _book(_names(s, who, s.names[who] | {number}), who, order=False, next=number + 1)
            if self.rules.whole:
                made = named._replace(arrays=named.arrays | {Array(who, number)})
                yield f"{who} publishes {who}.{number}", _book(made, who, knows=book.knows | {(who, number)})
            else:
                yield f"{who} makes {who}.{number}", _book(named, who, half=number)
        for a in s.arrays:
            if (a.row, a.number) in book.knows and not a.tasks and a.there:
                yield f"{who} submits {a.row}.{a.number}", _with(s, a, tasks=True)
            if (a.row, a.number) in book.knows and not a.there and not self.rules.made_once:
                yield f"{who} makes {a.row}.{a.number} anew", _with(s, a, there=True, gate="open")

    def closes(self, s: State, who: int) -> Iterator[tuple[str, State]]:
        """Close the gate of what it was refused, or takes back."""
        for a in s.arrays:
            if (a.row, a.number) in s.books[who].knows and a.there and a.gate == "open":
                yield f"{who} closes the gate of {a.row}.{a.number}", _with(s, a, gate="closed")


def it_starts_once_at_most(s: State) -> str | None:
    """Invariant."""
    return None if s.started < 2 else "it started twice"


def it_came_to_its_end(s: State) -> bool:
    """Goal: the journal says so."""
    return s.journal == "over"


def _with(s: State, a: Array, **changes: object) -> State:
    return s._replace(arrays=s.arrays - {a} | {a._replace(**changes)})  # type: ignore[arg-type]


def _book(s: State, who: int, **changes: object) -> State:
    changed = s.books[who]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(books=(*s.books[:who], changed, *s.books[who + 1 :]))


def _names(s: State, row: int, names: frozenset[int]) -> State:
    return s._replace(names=(*s.names[:row], names, *s.names[row + 1 :]))
