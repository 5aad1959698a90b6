"""The sentences of claiming as switches, and the worlds they are searched in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from tests.protocol.claiming_state import HOLDS, Job, Message, Part, Place, Row


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    go_kept_first: bool = True
    """GO is durable, in one record for all components, before RELEASE is said."""
    lease_waited_for: bool = True
    """A silent component is taken for dead only when its lease is surely over at its site."""
    epochs: bool = True
    """Claims, releases and answers name the epoch they speak of."""
    abort_ends: bool = True
    """A site that answers ABORT keeps nothing of the component."""
    barrier: bool = True
    """A claimed component waits at the barrier until it is released."""
    claim_kept_first: bool = True
    """A claim is durable before CLAIMED is said."""
    tombstone: bool = True
    """A claim that lapses leaves a tombstone, before its processors are free."""
    all_closed_first: bool = True
    """The next attempt begins when every component of the last one is closed. A CLOSED closes one component."""
    all_results: bool = True
    """A job is done when every component has ended."""
    gate: bool = True
    """A submission that was taken back finds its gate shut when its turn comes."""
    lets_go: bool = True
    """A claim that waits for the rest is given up after a while, by its site and by its origin."""
    ranks: bool = True
    """A better claim that waits for a lesser one at the barrier asks that one's origin to yield."""
    better_first: bool = True
    """No lesser claim begins at a site while a better one waits there."""
    origin_yields: bool = True
    """The origin decides whether its claim yields; a site takes none back by force."""
    gives_up_first: bool = True
    """An origin gives up, of its own accord, before the deadline of its claims: none lapses while its origin waits."""
    avoids_who_failed: bool = True
    """A component that is placed anew does not come to the site that failed it last, if it may have another. (In worlds
    without a liar this is left out: nothing there needs it.)"""
    site_speaks_for_itself: bool = True
    """An origin hears a word on a component from the site that the word names as its place: no site speaks for
    another."""
    epoch_of_now: bool = True
    """A site that had a component under an older epoch has no say in it any more."""
    offered_only: bool = True
    """A claim of what its origin did not place there is no claim."""
    site_hears_the_origin_alone: bool = True
    """A site hears CLAIM, RELEASE and ABORT of a component from that job's origin alone."""


@dataclass(frozen=True)
class World:
    """The jobs, the sites, and what may go wrong."""

    allowed: tuple[tuple[tuple[int, ...], ...], ...]
    """The sites that each component of each job may have. Job 0 has the best rank."""
    processors: tuple[int, ...]
    epochs: int = 2
    """How many epochs a component may have, where messages arrive at any time."""
    late: bool = True
    """Words that were ever said may arrive at any later time, any number of times, or never. False: a message arrives
    while its sender would say it (again), and epochs are numbered anew when they close, so that tries have no bound."""
    clusters: frozenset[int] = frozenset()
    """Sites where a claim stands in a batch queue."""
    atomic: bool = False
    """All components are claimed at once (T = 1), not one by one (T = 0)."""
    preempts: bool = False
    """A YIELD is heard after GO too."""
    local: bool = True
    """Other work takes and leaves processors."""
    faults: bool = True
    liar: int | None = None
    """A site that says what it likes and keeps nothing."""


class Setting:
    """A world under rules, with what is looked up again and again."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.world, self.rules = world, rules
        self.places = tuple(
            Place(job, part, site)
            for job, parts in enumerate(world.allowed)
            for part, sites in enumerate(parts)
            for site in sites
        )
        self.at = {place: number for number, place in enumerate(self.places)}
        starts = [sum(place.job < job for place in self.places) for job in range(len(world.allowed) + 1)]
        self.of_job = [slice(first, end) for first, end in pairwise(starts)]
        sites = range(len(world.processors))
        self.at_site = [[n for n, place in enumerate(self.places) if place.site == site] for site in sites]
        self.better = [
            [n for n, other in enumerate(self.places) if other.site == place.site and other.job < place.job]
            for place in self.places
        ]
        self.lies_about: dict[tuple[int, Job], list[tuple[str, Job]]] = {}
        """Lies that are believed, once each: they depend on the job alone."""
        self.seen_to_hold = HOLDS if rules.claim_kept_first else HOLDS - {"stray"}

    def number(self, m: Message) -> int:
        """The number of the row that a message speaks of."""
        return self.at[Place(m.job, m.part, m.site)]

    def sites_for(self, job: int, part: int, failed: int | None) -> tuple[int, ...]:
        """The sites that a component may have next."""
        allowed = self.world.allowed[job][part]
        return tuple(site for site in allowed if site != failed) or allowed

    def failing(self, job: int, at: int, part: Part) -> Part:
        """`part` with its site as the one that failed it, where that can matter."""
        remembered = self.world.liar is not None and self.rules.avoids_who_failed
        remembered = remembered and len(self.world.allowed[job][at]) > 1
        return part._replace(failed=part.site) if remembered else part

    def free(self, rows: tuple[Row, ...], local: tuple[int, ...], site: int) -> int:
        """Processors of a site that nothing holds, as its node knows it."""
        held = sum(rows[n].state in self.seen_to_hold for n in self.at_site[site])
        return self.world.processors[site] - local[site] - held

    def better_waits(self, rows: tuple[Row, ...], number: int) -> bool:
        """True if a claim of better rank waits where this one is."""
        return any(rows[n].state == "waits" for n in self.better[number])


ONE_JOB = World(allowed=(((0,), (1, 0)),), processors=(2, 1), clusters=frozenset({1}))
"""Two components, of which the second may be at either site; site 1 is a cluster."""
CALM = replace(ONE_JOB, local=False)
THREE_SITES = World(allowed=(((0,), (1,), (2,)),), processors=(1, 1, 1), clusters=frozenset({2}), local=False)
TWO_JOBS = World(
    allowed=(((0,), (1,)), ((0,), (1,))),
    processors=(1, 1),
    clusters=frozenset({1}),
    late=False,
    local=False,
    faults=False,
)
"""Two jobs that both need both sites, which have a processor each."""
A_LIAR = World(allowed=(((0,), (1, 2)),), processors=(1, 1, 0), local=False, liar=2)
"""Two components; the first has an honest site, the second an honest site or the liar."""
TWO_JOBS_AND_A_LIAR = World(
    allowed=(((0,), (1,)), ((0,), (1, 2))), processors=(1, 1, 0), late=False, local=False, faults=False, liar=2
)
"""The better job never is at the liar, the lesser one may be."""
