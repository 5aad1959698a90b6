"""Whose turn it is, as a model: the reservations that stand at an honest site beside those of a liar, and the calls of
the liar's for an honest group (`diana/engine/dispatch/turns.py`).

An honest origin has a group of one-processor jobs and reserves here. The liar, a site of the VO, reserves for as many
groups of its own as it likes, `standing` at a time, each for a user of its own, and lies about their size, their number
and the time of their submission; it answers calls or not, lets what it offered run for as long as it likes, takes
reservations back and makes others. Elsewhere it was told of the honest group, calls for any number of its jobs and
begins none. A look is also the passage of time. What is lost, doubled or late is `binding.py`'s subject.

The site has `slots` processors. A narrow job fits one, a wide one all of them, and a huge one no site of such machines.
A wide one that stands first and does not fit keeps no place here: in the engine one does, once it has waited for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Literal, NamedTuple

from tests.protocol.search import Invariant, Step

Size = Literal["narrow", "wide", "huge"]
SIZES: tuple[Size, ...] = ("narrow", "wide", "huge")


class Standing(NamedTuple):
    """A reservation, in the order in which they stand."""

    honest: bool
    size: Size = "narrow"
    many: bool = False
    """As many narrow jobs as a message can say."""
    late: bool = False
    """Told long after the honest one stood here, or would have stood."""


HONEST = Standing(True)


class State(NamedTuple):
    queue: tuple[Standing, ...] = ()
    waiting: int = 2
    """Jobs of the honest group that no site has."""
    here: int = 0
    """Those of them that run here."""
    away: int = 0
    """Those that the liar took, and has not begun."""
    theirs: int = 0
    """Processors with jobs of the liar's."""
    room: int = 0
    """Processors kept for what the liar was called for."""
    vain: int = 0
    """Calls in a row that the liar let lapse."""
    age: int = 0
    """Looks for which the honest group stands here."""
    passed: int = 0
    """Looks, since it stands or anything began, that left a processor without a job and did not call it."""
    banned: bool = False
    overtaken: bool = False
    """One that was told long after it was called before it, with a processor free."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    refused_at_once: bool = True
    """What the site could never take is not taken in."""
    misfit_is_no_miss: bool = True
    """One that does not fit while another could ends no look; one for which nothing is free does."""
    date_bounded: bool = True
    """A submission counts as no earlier than first heard here less `lead` looks."""
    in_turn: bool = True
    """The looks of an event are shared among origins."""
    vain_keeps_nothing: bool = True
    """No room is kept for an origin that let several calls in a row lapse."""
    room_lapses: bool = True
    """Room that nothing came for is free again."""
    bears: bool = True
    """A call takes no more than the calling site told that it bears."""
    called_back: bool = True
    """What a site does not begin within its promise comes back."""
    ban_returns: bool = True
    """A ban brings back all that does not run."""


@dataclass(frozen=True)
class Turns:
    standing: int = 2
    slots: int = 2
    looks: int = 2
    """Reservations looked at after an event."""
    misses: int = 1
    lead: int = 1
    most_vain: int = 2
    bears: int = 1
    rules: Rules = field(default_factory=Rules)
    lying: bool = True
    """False: the liar says nothing any more."""

    def initial(self) -> State:
        """A group was submitted and is reserved nowhere."""
        return State()

    @property
    def most_passed(self) -> int:
        """Looks that may pass the honest group by in a row: those with room for calls that the liar lets lapse."""
        return self.most_vain

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        yield Step("the site looks", self.looked(s))
        yield from self.honest(s)
        if self.lying and not s.banned:
            yield from self.lies(s)
            yield Step("an operator bans the liar", self.ban(s))

    # --- the honest -----------------------------------------------------------------------------------

    def honest(self, s: State) -> Iterator[Step[State]]:
        """Reserve, withdraw, end, call back."""
        if s.waiting and HONEST not in s.queue:
            yield Step("the honest group is reserved", s._replace(queue=(*s.queue, HONEST), age=0, passed=0))
        if not s.waiting and HONEST in s.queue:
            # Reserved anew, it is heard anew.
            left = tuple(one._replace(late=False) for one in s.queue if not one.honest)
            yield Step("its reservation is withdrawn", s._replace(queue=left, age=0, passed=0))
        if s.here:
            yield Step("a job of it ends", s._replace(here=s.here - 1))
        if s.theirs:
            yield Step("a job of the liar ends", s._replace(theirs=s.theirs - 1))
        if s.away and self.rules.called_back and not s.banned:
            yield Step("what the liar did not begin is called back", s._replace(away=0, waiting=s.waiting + s.away))

    def ban(self, s: State) -> State:
        """The liar's reservations go with its stream, and what it has not begun comes back."""
        back = s.away if self.rules.ban_returns else 0
        kept = tuple(one for one in s.queue if one.honest)
        return s._replace(queue=kept, room=0, banned=True, away=s.away - back, waiting=s.waiting + back)

    # --- lies -----------------------------------------------------------------------------------------

    def lies(self, s: State) -> Iterator[Step[State]]:
        """Whatever the liar may say."""
        if sum(not one.honest for one in s.queue) < self.standing:
            for size in SIZES:
                if size == "huge" and self.rules.refused_at_once:
                    continue
                for many in (False, True) if size == "narrow" else (False,):
                    for old in (False, True):
                        name = f"the liar reserves {'many' if many else 'one'} {size}{', long ago' * old}"
                        yield Step(name, self.reserved(s, size, many=many, old=old))
        for one in sorted({one for one in s.queue if not one.honest}):
            yield Step(f"the liar takes back {one}", self.without(s, one))
        if s.room:
            yield Step("the liar offers a job", s._replace(room=s.room - 1, theirs=s.theirs + 1, vain=0, passed=0))
        for jobs in range(1, s.waiting + 1):
            taken = min(jobs, max(0, self.bears - s.away)) if self.rules.bears else jobs
            if taken:
                yield Step(f"the liar calls {jobs}", s._replace(waiting=s.waiting - taken, away=s.away + taken))

    def reserved(self, s: State, size: Size, *, many: bool, old: bool) -> State:
        """Put it where its date has it stand: the honest group stands by when it was heard."""
        late = HONEST in s.queue and s.age > self.lead
        one = Standing(False, size, many, late)
        at = len(s.queue)
        if old and HONEST in s.queue and not (late and self.rules.date_bounded):
            at = s.queue.index(HONEST)
        return s._replace(queue=(*s.queue[:at], one, *s.queue[at:]))

    def without(self, s: State, one: Standing) -> State:
        at = s.queue.index(one)
        return s._replace(queue=(*s.queue[:at], *s.queue[at + 1 :]))

    # --- a look ---------------------------------------------------------------------------------------

    def looked(self, s: State) -> State:
        """Time passes: room lapses; then the turns of those that are looked at, best first."""
        if s.room and self.rules.room_lapses:
            s = s._replace(room=0, vain=min(self.most_vain, s.vain + 1))
        called, overtakes, misses = False, False, 0
        for one in self.in_view(s):
            free = self.free(s)
            if not one.honest and s.vain >= self.most_vain and self.rules.vain_keeps_nothing:
                # It is called now and then and nothing is kept for it, which is as if it were not.
                continue
            if one.size != "huge" and free >= self.width(one):
                if one.honest:
                    called = True
                    s = s._replace(waiting=s.waiting - 1, here=s.here + 1)
                else:
                    overtakes |= one.late and not called
                    s = s._replace(room=s.room + (free if one.many else self.width(one)))
            elif not free or not self.rules.misfit_is_no_miss:
                misses += 1
                if misses >= self.misses:
                    break
        stands = HONEST in s.queue and s.waiting > 0
        if called or not stands:
            return s._replace(passed=0, age=min(self.lead + 1, s.age + stands))
        idle = self.slots - s.here - s.theirs > 0
        passed = min(self.most_passed + 1, s.passed + idle)
        return s._replace(passed=passed, age=min(self.lead + 1, s.age + 1), overtaken=s.overtaken or overtakes)

    def in_view(self, s: State) -> list[Standing]:
        """Return the reservations that are looked at, best first."""
        # Of the honest group nothing is called for that its origin has not: that one withdraws is on its way.
        queue = [one for one in s.queue if s.waiting or not one.honest]
        if not self.rules.in_turn:
            return queue[: self.looks]
        each = ([(at, one) for at, one in enumerate(queue) if one.honest is honest] for honest in (True, False))
        turns = [one for one in chain.from_iterable(zip_longest(*each)) if one is not None]
        return [one for _, one in sorted(turns[: self.looks])]

    def free(self, s: State) -> int:
        return self.slots - s.here - s.theirs - s.room

    def width(self, one: Standing) -> int:
        return self.slots if one.size == "wide" else 1


# --- what must hold ---------------------------------------------------------------------------------------


def invariants(model: Turns) -> tuple[Invariant[State], ...]:
    """What must hold in every state."""

    def nobody_starves(s: State) -> str | None:
        """While a processor has no job, and a group that fits it waits and is reserved, it is called within so many
        looks."""
        return f"{s.passed} looks passed it by" if s.passed > model.most_passed else None

    def a_site_holds_no_more_than_it_bears(s: State) -> str | None:
        """Of what it has not begun."""
        return f"{s.away} jobs lie where {model.bears} may" if s.away > model.bears else None

    return (
        nobody_starves,
        a_site_holds_no_more_than_it_bears,
        nobody_who_came_long_after_is_called_before,
        what_stands_here_could_begin_here,
    )


def nobody_who_came_long_after_is_called_before(s: State) -> str | None:
    """Whatever time of submission it told."""
    return "one that was told long after was called first" if s.overtaken else None


def what_stands_here_could_begin_here(s: State) -> str | None:
    """Quotes count what stands here as before a newcomer: else they tell for ever that nothing is free."""
    return "something stands here that no machine takes" if any(one.size == "huge" for one in s.queue) else None


def all_begun(s: State) -> bool:
    """Every job of the honest group had its turn."""
    return not s.waiting and not s.away
