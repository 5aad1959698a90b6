"""How long gangs hold and wait on sites that are always full, as a model in ticks (SPEC K5; docs/decisions/gangs.md).

Each site has one processor, and ordinary jobs always wait for it. A gang has a component at every site, claimed at all
of them at once; GO when all are held. Whenever a processor comes free, the best gang that claims there gets it, unless
an ordinary job stands before it in the queue: as many of them as `World.before`, for the place in the queue counts
from the submission and is kept between tries. A gang that holds some and not all gives up after its bound, leaves the
processors alone for as long as it held them, and may then hold for twice as long. An ordinary job runs as long as it
likes, up to `World.run`.

That nothing starts without GO, whatever is lost, late or dead, is the model in `claiming.py`; here no message is late
and nothing dies, and what is asked is that every schedule ends, and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple

from tests.protocol.search import Step


class Waits(NamedTuple):
    """A gang at its origin."""

    phase: Literal["claims", "pauses", "done"] = "claims"
    hold: int = 1
    """Ticks for which this try may hold."""
    held: int = 0
    """Ticks for which it holds some."""
    pause: int = 0
    """Ticks until its next try."""


class Processor(NamedTuple):
    """A site's one processor, and its queue."""

    left: int = 0
    """Ticks that an ordinary job has at most; -1: a gang has it."""
    gang: int = -1
    before: tuple[int, ...] = ()
    """Per gang, the ordinary jobs that yet stand before it."""


class Grid(NamedTuple):
    """Everything at one instant."""

    gangs: tuple[Waits, ...]
    sites: tuple[Processor, ...]


@dataclass(frozen=True)
class HoldingRules:
    """The sentences. All hold; a mutant is the protocol without one."""

    holds_longer: bool = True
    """Each try may hold for twice as long as the one before."""
    yields: bool = True
    """A lesser gang makes way where a better one waits."""
    keeps_its_place: bool = True
    """The place in the queue is kept between tries."""


@dataclass(frozen=True)
class World:
    """Sizes. The longest hold covers the longest job."""

    gangs: int = 1
    sites: int = 2
    run: int = 3
    before: int = 1
    most: int = 8


@dataclass(frozen=True)
class Holding:
    """The gangs of a world under rules. Gang 0 has the best rank."""

    world: World = field(default_factory=World)
    rules: HoldingRules = field(default_factory=HoldingRules)

    def initial(self) -> Grid:
        """All is to be claimed, and every site is full."""
        full = Processor(self.world.run, -1, (self.world.before,) * self.world.gangs)
        return Grid((Waits(),) * self.world.gangs, (full,) * self.world.sites)

    def transitions(self, s: Grid) -> Iterator[Step[Grid]]:
        """A tick passes: ordinary jobs end or go on, as the schedule likes; then origins act."""
        if all(gang.phase == "done" for gang in s.gangs):
            return
        for sites in product(*(self._onward(s, site) for site in s.sites)):
            yield Step("a tick", self._origins(s.gangs, sites))

    def _onward(self, s: Grid, site: Processor) -> list[Processor]:
        if site.gang >= 0:
            return [site]
        out = [site._replace(left=site.left - 1)] if site.left > 1 else []
        claims = [at for at, gang in enumerate(s.gangs) if gang.phase == "claims"]
        if not claims:
            return [*out, site._replace(left=self.world.run)]
        best, before = claims[0], site.before
        if before[best]:
            fewer = tuple(count - (at == best) for at, count in enumerate(before))
            out.append(Processor(self.world.run, -1, fewer))
        return [*out, Processor(-1, best, before)]

    def _origins(self, gangs: tuple[Waits, ...], sites: tuple[Processor, ...]) -> Grid:
        after = list(gangs)
        for at, gang in enumerate(gangs):
            mine = [site for site in sites if site.gang == at]
            if gang.phase == "pauses":
                after[at] = gang._replace(pause=gang.pause - 1, phase="claims" if gang.pause <= 1 else "pauses")
            if gang.phase != "claims" or not mine:
                continue
            if len(mine) == len(sites):
                after[at], sites = Waits("done"), self._freed(sites, at)
            elif gang.held >= gang.hold or (self.rules.yields and any(g.phase == "claims" for g in after[:at])):
                vain = gang.held >= gang.hold
                longer = min(self.world.most, 2 * gang.hold) if vain and self.rules.holds_longer else gang.hold
                after[at], sites = Waits("pauses", longer, 0, max(1, gang.held)), self._freed(sites, at)
            else:
                after[at] = gang._replace(held=gang.held + 1)
        return Grid(tuple(after), sites)

    def _freed(self, sites: tuple[Processor, ...], gang: int) -> tuple[Processor, ...]:
        """The sites when the gang let all its processors go: others' jobs have them."""
        anew = (self.world.before,) * self.world.gangs
        return tuple(
            Processor(self.world.run, -1, site.before if self.rules.keeps_its_place else anew)
            if site.gang == gang
            else site
            for site in sites
        )


def longest(model: Holding) -> int:
    """Ticks of the longest schedule; every schedule must end."""
    known: dict[Grid, int] = {}
    path = [(model.initial(), iter([step.state for step in model.transitions(model.initial())]))]
    while path:
        state, onward = path[-1]
        after = next((one for one in onward if one not in known), None)
        if after is not None:
            path.append((after, iter([step.state for step in model.transitions(after)])))
            continue
        known[state] = max((1 + known[step.state] for step in model.transitions(state)), default=0)
        path.pop()
    return known[model.initial()]
