"""A group that its origin's journal lost and that peers show again, as a model with a site that lies (PROMISES section
2, "Database lost or restored").

One origin with a group of two jobs, two honest sites and a liar. The group is accepted, its jobs are offered to any of
them and end there, and it is forgotten by its age. The journal is copied at any time and put back, twice at most, the
second time before or after all have told; the origin starts anew once between. Each site then tells what it holds: an
honest one the truth, the liar nothing, with a receipt it was given or one of its own making.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.protocol.search import Step

JOBS = frozenset((0, 1))
HONEST = ("one", "two")
LIAR = "liar"
ALL = frozenset((*HONEST, LIAR))

Part = tuple[int, str]
"""A job and the site that was given it."""


class Journal(NamedTuple):
    """Durable state of the origin."""

    known: bool = False
    """It has the group."""
    numbered: bool = False
    """It has given the group's number, or one above."""
    parts: frozenset[Part] = frozenset()
    done: frozenset[int] = frozenset()
    on_hold: bool = False
    ended: bool = False
    """It has the record that the group was over and is forgotten."""
    lost: bool = False
    """The number is one of those that may have been given since a copy."""
    asks: bool = False
    """Peers are asked to show groups from that number on."""
    expired: bool = False
    recovering: bool = False
    told: frozenset[str] = frozenset()


class State(NamedTuple):
    o: Journal = Journal()
    heard: frozenset[str] = frozenset()
    """Volatile: told, not recorded."""
    rows: frozenset[Part] = frozenset()
    """Volatile: told of the group before it came back."""
    copy: Journal | None = None
    losses: int = 0
    starts: int = 0
    accepted: bool = False
    """Ghost: its user was told so."""
    given: frozenset[Part] = frozenset()
    """Ghost: all offers there were; with each went the receipt."""
    held: frozenset[Part] = frozenset()
    """Open at honest sites."""
    stones: frozenset[Part] = frozenset()
    """Over at honest sites, which have no receipt any more."""
    again: frozenset[Part] = frozenset()
    """Ghost: begun at home while an honest site has it, or had."""


@dataclass(frozen=True)
class Rules:
    """The sentences. All hold; a mutant is the protocol without one."""

    needs_seal: bool = True
    """A group comes back by the origin's own receipt alone."""
    lost_alone: bool = True
    """Only one of a number that may have been given since a copy."""
    never_twice: bool = True
    """One that came back and was forgotten by its age does not come back again."""
    on_hold: bool = True
    """It begins nothing before all have told."""
    keeps_rows: bool = True
    """Rows told of it before it came back count then."""
    records_late: bool = True
    """Who told of a group that is not back is recorded as heard once all have told."""
    earlier_losses: bool = True
    """Peers are asked for groups of an earlier loss too, as long as not all had told then."""


@dataclass(frozen=True)
class Returning:
    rules: Rules = field(default_factory=Rules)

    def initial(self) -> State:
        return State()

    def transitions(self, s: State) -> Iterator[Step[State]]:
        if not s.losses:
            yield from self.submits(s)
        yield from self.goes_on(s)
        if s.losses < 2:
            if s.copy is None:
                yield Step("the journal is copied", s._replace(copy=s.o))
            else:
                yield Step("the copy is put back", self.put_back(s, s.copy))
        if s.losses and not s.starts:
            yield Step("the origin starts anew", s._replace(heard=frozenset(), rows=frozenset(), starts=1))
        if s.o.recovering:
            for site in sorted(ALL - s.o.told - s.heard):
                if site != LIAR:
                    has = any(at == site for _, at in s.held)
                    yield Step(f"{site} tells", self.tells(s, site, shows=has and s.o.asks))
                else:
                    yield Step("the liar tells nothing", self.tells(s, site, shows=False))
                    sealed = any(at == LIAR for _, at in s.given)
                    if sealed or not self.rules.needs_seal:
                        yield Step("the liar shows the group", self.tells(s, site, shows=True))

    def submits(self, s: State) -> Iterator[Step[State]]:
        if not s.accepted:
            o = s.o._replace(known=True, numbered=True)
            yield Step("the group is accepted", s._replace(o=o, accepted=True))
        if s.o.known:
            for job in sorted(JOBS - {job for job, _ in s.o.parts}):
                for site in sorted(ALL):
                    part = (job, site)
                    held = s.held if site == LIAR else s.held | {part}
                    o = s.o._replace(parts=s.o.parts | {part})
                    yield Step(f"{part} is offered", s._replace(o=o, given=s.given | {part}, held=held))

    def goes_on(self, s: State) -> Iterator[Step[State]]:
        o = s.o
        if not o.known:
            return
        for part in sorted(o.parts):
            if part in s.held or (part[1] == LIAR and part[0] not in o.done):
                after = s._replace(o=o._replace(done=o.done | {part[0]}), held=s.held - {part})
                stones = s.stones | {part} if part in s.held else s.stones
                yield Step(f"{part} ends, and its origin has the result", after._replace(stones=stones))
        if o.done == JOBS:
            over = o._replace(known=False, ended=True, expired=o.expired or o.lost, parts=frozenset(), done=frozenset())
            yield Step("the group is forgotten by its age", s._replace(o=over, stones=frozenset()))
        if o.on_hold and (self.all_told(s) or not self.rules.on_hold):
            free = JOBS - {job for job, _ in o.parts} - o.done
            again = frozenset(part for part in s.held | s.stones if part[0] in free)
            after = s._replace(o=o._replace(on_hold=False, done=o.done | free), again=s.again | again)
            yield Step("its user lets it go on", after)

    def all_told(self, s: State) -> bool:
        return s.o.told | s.heard >= ALL

    def put_back(self, s: State, copy: Journal) -> State:
        open_still = copy.recovering and copy.told != ALL and self.rules.earlier_losses
        o = copy._replace(
            numbered=True,
            lost=copy.lost or not copy.numbered,
            asks=copy.asks if open_still else not copy.numbered,
            on_hold=copy.known,
            recovering=True,
            told=frozenset(),
        )
        return s._replace(o=o, copy=None, losses=s.losses + 1, heard=frozenset(), rows=frozenset())

    def tells(self, s: State, site: str, *, shows: bool) -> State:
        o = s.o
        lost = o.lost or not self.rules.lost_alone
        if shows and not o.known and lost and not (o.expired and self.rules.never_twice):
            o = o._replace(known=True, on_hold=True, parts=s.rows if self.rules.keeps_rows else frozenset())
            s = s._replace(rows=frozenset())
        mine = frozenset(part for part in s.held | s.stones if part[1] == site)
        if o.known:
            o = o._replace(parts=o.parts | mine, told=o.told | {site})
        elif mine and self.rules.records_late:
            s = s._replace(rows=s.rows | mine, heard=s.heard | {site})
        else:
            s, o = s._replace(rows=s.rows | mine), o._replace(told=o.told | {site})
        s = s._replace(o=o)
        if self.all_told(s):
            s = s._replace(o=o._replace(told=ALL), heard=frozenset(), rows=frozenset())
        return s


def no_group_is_there_that_nobody_submitted(s: State) -> str | None:
    return "a group that was never accepted" if s.o.known and not s.accepted else None


def what_the_journal_knows_to_be_over_does_not_come_back(s: State) -> str | None:
    return "a group whose end the journal has" if s.o.known and s.o.ended else None


def nothing_begins_at_home_that_an_honest_site_has(s: State) -> str | None:
    return f"{sorted(s.again)} ran there, and run again at home" if s.again else None


def what_was_accepted_and_an_honest_site_has_is_back_once_all_have_told(s: State) -> str | None:
    if s.o.recovering and s.o.told == ALL and s.held and not s.o.known:
        return f"{sorted(s.held)} are there, and their origin does not know the group"
    return None


HARMS = (
    no_group_is_there_that_nobody_submitted,
    what_the_journal_knows_to_be_over_does_not_come_back,
    nothing_begins_at_home_that_an_honest_site_has,
    what_was_accepted_and_an_honest_site_has_is_back_once_all_have_told,
)
