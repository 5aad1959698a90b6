"""The lease of one claimed component in ticks: why its origin may believe that the lease is surely over (K7, I4).

The site counts from sending what was granted, the origin from granting, a tenth longer and with a margin for TERM,
grace and KILL. Each clock may be off by a tick. At the barrier the claim ends with the lease; a released component ends
after the grace. `lease.py` has the lease of an ordinary job, with the spawner's half of it; here it is the barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple

from tests.protocol.search import Step

LEASE, GRACE, LONGER, MARGIN = 3, 1, 1, 2


class Renewal(NamedTuple):
    """A renewal that the site asked for, or was granted, so many ticks of its clock after it was sent."""

    granted: bool
    age: int


class Claim(NamedTuple):
    """Everything at one instant."""

    origin: Literal["waits", "may start anew"]
    wait: int
    """Ticks of the origin's clock before it takes the component for dead."""
    component: Literal["stands", "runs", "closed"] = "stands"
    lease: int = LEASE
    """Ticks of the site's clock; below zero: the grace."""
    node: bool = True
    """True if the site's node runs: else it is stopped."""
    origin_gains: int = 1
    site_loses: int = 1
    network: frozenset[Renewal] = frozenset()


@dataclass(frozen=True)
class LeaseRules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    origin_waits_longer: bool = True
    """The origin waits longer than the lease, by what clocks may differ, and TERM, grace and KILL take."""
    timer_beside_task: bool = True
    """The barrier has a timer of its own, beside the task and not in the node."""
    from_sending: bool = True
    """The site counts from sending the renewal, not from hearing the grant."""
    boot_waits_anew: bool = True
    """An origin that boots waits the whole time anew."""


@dataclass(frozen=True)
class ClaimsLease:
    """One component and its lease."""

    rules: LeaseRules = field(default_factory=LeaseRules)

    @property
    def wait(self) -> int:
        """Ticks of its clock that the origin waits."""
        return LEASE + (LONGER + MARGIN if self.rules.origin_waits_longer else 0)

    def initial(self) -> Claim:
        """Claimed, under a lease."""
        return Claim("waits", self.wait)

    def transitions(self, s: Claim) -> Iterator[Step[Claim]]:
        """All that may happen next."""
        yield from self.ticks(s)
        yield from self.site_acts(s)
        yield from self.origin_acts(s)

    def ticks(self, s: Claim) -> Iterator[Step[Claim]]:
        """A tick passes; the origin's clock may gain one more, the site's may lose this one."""
        for gains, loses in product(range(s.origin_gains + 1), range(s.site_loses + 1)):
            left = max(-GRACE, s.lease - 1 + loses)
            aged = s.network if loses else frozenset(Renewal(r.granted, r.age + 1) for r in s.network if r.age < LEASE)
            late = (s.component == "stands" and left <= 0) or (s.component == "runs" and left <= -GRACE)
            after = s._replace(
                wait=max(0, s.wait - 1 - gains),
                component="closed" if late and (s.node or self.rules.timer_beside_task) else s.component,
                lease=left,
                origin_gains=s.origin_gains - gains,
                site_loses=s.site_loses - loses,
                network=aged,
            )
            yield Step("a tick", after, "time-out")

    def site_acts(self, s: Claim) -> Iterator[Step[Claim]]:
        """Asks for renewals, hears grants, is released however late, ends; its node stops and goes on."""
        asked = Renewal(False, 0)
        if s.node and asked not in s.network and len(s.network) < 2 and s.component != "closed":
            yield Step("the site asks for a renewal", s._replace(network=s.network | {asked}))
        for renewal in s.network:
            if renewal.granted and s.node and s.component != "closed":
                until = LEASE - (renewal.age if self.rules.from_sending else 0)
                heard = s._replace(lease=max(s.lease, until), network=s.network - {renewal})
                yield Step(f"the site hears a grant of age {renewal.age}", heard)
        if s.node and s.component == "stands":
            yield Step("RELEASE arrives, however late", s._replace(component="runs"))
        if s.component == "runs":
            yield Step("the component ends", s._replace(component="closed"))
        yield Step(f"the node {'is stopped' if s.node else 'goes on'}", s._replace(node=not s.node), "fault")

    def origin_acts(self, s: Claim) -> Iterator[Step[Claim]]:
        """Grants and counts anew; takes the component for dead; boots."""
        if s.origin != "waits":
            return
        for renewal in s.network:
            if not renewal.granted:
                granted = s.network - {renewal} | {Renewal(True, renewal.age)}
                after = s._replace(wait=self.wait, network=granted)
                yield Step(f"the origin grants a renewal of age {renewal.age}", after)
        if s.wait == 0:
            yield Step("the lease is over at the origin", s._replace(origin="may start anew"), "time-out")
        yield Step("the origin boots", s._replace(wait=self.wait if self.rules.boot_waits_anew else 0), "fault")


def what_is_taken_for_dead_neither_stands_nor_runs(s: Claim) -> str | None:
    """I4, K7: when the origin may start the component anew, the old one holds nothing."""
    if s.origin == "may start anew" and s.component != "closed":
        return f"taken for dead, and it {s.component}"
    return None
