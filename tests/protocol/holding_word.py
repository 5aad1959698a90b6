"""A site's word that it holds jobs of an origin that was put back, as a model with a site that lies (PROMISES
section 2, "Database lost or restored"; 5.5).

One origin with a group of two jobs, an honest site and a liar. The origin offers jobs under rising epochs, to either,
takes offers back, and is put back once from a copy made at any time. Then both tell what they hold: the honest one the
truth, the liar any epoch and any jobs, with any seal that was ever given to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from tests.protocol.search import Step

JOBS = ((0,), (1,), (0, 1))


class Part(NamedTuple):
    """Jobs offered to a site under an epoch; also the seal of that offer, and what a site tells of it."""

    epoch: int
    site: str
    jobs: tuple[int, ...]


class Origin(NamedTuple):
    epoch: int = 0
    parts: frozenset[Part] = frozenset()
    """Parts that are elsewhere, as its journal says."""


class State(NamedTuple):
    o: Origin = Origin()
    copy: Origin | None = None
    restored: bool = False
    told: frozenset[str] = frozenset()
    """Sites that were heard out since."""
    held: frozenset[Part] = frozenset()
    """Parts the honest site holds."""
    given: frozenset[Part] = frozenset()
    """Ghost: all that was ever offered; and the seals, for whoever has got hold of them."""


@dataclass(frozen=True)
class Rules:
    """The sentences. All hold; a mutant is the protocol without one."""

    as_the_journal_says: bool = True
    """A part that the journal has is told of by its site alone, under its epoch and of its jobs."""
    needs_seal: bool = True
    """A part that it lacks is told of by whoever shows the origin's seal of the offer."""
    names_site: bool = True
    """The seal names the site."""
    names_epoch: bool = True
    """The seal names the epoch."""
    names_jobs: bool = True
    """The seal names the jobs."""
    later_has_it: bool = True
    """A job that two tell of is with the later offer."""


@dataclass(frozen=True)
class HoldingWord:
    epochs: int = 3
    rules: Rules = field(default_factory=Rules)

    def initial(self) -> State:
        return State()

    def transitions(self, s: State) -> Iterator[Step[State]]:
        if not s.restored:
            yield from self.before(s)
        else:
            if "honest" not in s.told:
                after = s._replace(told=s.told | {"honest"})
                for part in sorted(s.held):
                    after = self.hears(after, part, part)
                yield Step("the honest site tells what it holds", after)
            if "liar" not in s.told:
                for epoch, jobs, seal in product(range(1, self.epochs + 2), JOBS, (None, *sorted(s.given))):
                    name = f"the liar tells of epoch {epoch}, jobs {jobs}, with the seal {seal}"
                    yield Step(name, self.hears(s, Part(epoch, "liar", jobs), seal))
                yield Step("the liar ends its report", s._replace(told=s.told | {"liar"}))

    def before(self, s: State) -> Iterator[Step[State]]:
        away = {job for part in s.o.parts for job in part.jobs}
        if s.o.epoch < self.epochs:
            for jobs, site in product(JOBS, ("honest", "liar")):
                if away.isdisjoint(jobs):
                    part = Part(s.o.epoch + 1, site, jobs)
                    held = s.held | {part} if site == "honest" else s.held
                    o = Origin(part.epoch, s.o.parts | {part})
                    yield Step(f"{part} is offered", s._replace(o=o, held=held, given=s.given | {part}))
        for part in sorted(s.o.parts):
            o = s.o._replace(parts=s.o.parts - {part})
            yield Step(f"{part} is taken back", s._replace(o=o, held=s.held - {part}))
        if s.copy is None:
            yield Step("the origin is copied", s._replace(copy=s.o))
        else:
            yield Step("the origin is put back", s._replace(o=s.copy, copy=None, restored=True))

    def hears(self, s: State, told: Part, seal: Part | None) -> State:
        """`s` once the origin has heard that, which it believes or not."""
        known = next((part for part in s.o.parts if part.epoch == told.epoch), None)
        if known is not None:
            there = known.site == told.site and set(told.jobs) <= set(known.jobs)
            right = there or not self.rules.as_the_journal_says
        else:
            right = not self.rules.needs_seal or (seal is not None and self.fits(seal, told))
        if not right:
            return s
        jobs = set(told.jobs)
        parts = set()
        for part in s.o.parts - {known}:
            if part.epoch > told.epoch and self.rules.later_has_it:
                jobs -= set(part.jobs)
                parts.add(part)
            elif left := tuple(job for job in part.jobs if job not in told.jobs):
                parts.add(part._replace(jobs=left))
        if jobs:
            parts.add(told._replace(jobs=tuple(sorted(jobs))))
        return s._replace(o=Origin(max(s.o.epoch, told.epoch), frozenset(parts)))

    def fits(self, seal: Part, told: Part) -> bool:
        return (
            (seal.site == told.site or not self.rules.names_site)
            and (seal.epoch == told.epoch or not self.rules.names_epoch)
            and (set(told.jobs) <= set(seal.jobs) or not self.rules.names_jobs)
        )


def nobody_has_what_it_was_never_offered(s: State) -> str | None:
    for part in sorted(s.o.parts):
        for job in part.jobs:
            if not any((one.epoch, one.site) == (part.epoch, part.site) and job in one.jobs for one in s.given):
                return f"job {job} is {part.site}'s under epoch {part.epoch}, under which it was never offered it"
    return None


def no_epoch_is_beyond_the_last_that_was_given(s: State) -> str | None:
    last = max((part.epoch for part in s.given), default=0)
    return f"epoch {s.o.epoch}, and the last one given was {last}" if s.o.epoch > last else None


def what_an_honest_site_holds_is_not_taken_from_it(s: State) -> str | None:
    """Once both were heard out: an origin that has it elsewhere runs it twice."""
    if len(s.told) < 2:
        return None
    for part in sorted(s.held):
        for job in part.jobs:
            if not any((one.epoch, one.site) == (part.epoch, part.site) and job in one.jobs for one in s.o.parts):
                return f"the honest site holds job {job} of epoch {part.epoch}, and the origin does not know it"
    return None


HARMS = (
    nobody_has_what_it_was_never_offered,
    no_epoch_is_beyond_the_last_that_was_given,
    what_an_honest_site_holds_is_not_taken_from_it,
)
