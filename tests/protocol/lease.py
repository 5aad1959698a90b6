"""Leases with on_site_lost = "rerun" (PROMISES section 2 "Leases", and 1.7) as a model in discrete time.

One origin O, one job committed to the destination D, whose node may be stopped (SIGSTOP) while its spawner runs on,
and whose whole machine may stand still. A tick is a tenth of a lease or more; in the time that counts, from a renewal
to its end, D's clock loses at most one tick and O's gains at most one. What is assumed of the other models: what is
reassigned has a higher epoch, so that a late result of the old one is put aside; the copy that O reassigns may start
at that instant. A whole machine that stands still runs nothing; what PROMISES 1.7 allows on top (a result that is
written by a job before it is killed, a file written twice) is for DIANA_EPOCH to fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

LEASE, GRACE = 5, 1
"""Ticks from sending a renewal to TERM, and from there to KILL."""
WAIT, MARGIN = 6, 2
"""O's: 1.1 lease, rounded up, and what the 30 s stand for."""


class Renewal(NamedTuple):
    """A renewal D asked for, or was granted, so many ticks of D's clock after it was sent."""

    granted: bool
    age: int


class State(NamedTuple):
    """Everything at one instant."""

    origin: Literal["waits", "reassigned", "done"] = "waits"
    wait: int = WAIT + MARGIN
    """Ticks of O's clock before it may reassign."""
    job: Literal["waiting", "ordered", "running", "dead", "ended"] = "waiting"
    lease: int = LEASE
    """Ticks of D's clock before the spawner says TERM; below zero: since it did."""
    timer: bool = True
    """True if somebody there watches the lease."""
    node: bool = True
    """True if D's node runs: else it is stopped."""
    machine: bool = True
    """True if D's machine runs: else it stands still."""
    o_gains: int = 1
    d_loses: int = 1
    network: frozenset[Renewal] = frozenset()


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    from_sending: bool = True
    """D counts its lease from sending the renewal,"""
    granted: bool = True
    """and only when it was granted."""
    grant_counts_anew: bool = True
    """O counts anew when it receives a renewal, before it grants it,"""
    no_grant_after: bool = True
    """and grants none once it has reassigned."""
    waits_longer: bool = True
    """O waits a tenth longer than the lease, for clocks that differ,"""
    waits_margin: bool = True
    """and 30 s, for TERM, grace and KILL."""
    boot_waits_anew: bool = True
    """An O that boots waits the whole time again: its clock tells nothing of before."""
    timer_beside_job: bool = True
    """The kill timer is beside the job, not in the node;"""
    timer_outlives_spawner: bool = True
    """the deadline is kept with the claim, so that a spawner's successor kills at the same instant;"""
    start_has_deadline: bool = True
    """a START names the lease's end, after which it is refused;"""
    clock_counts_pauses: bool = True
    """the clock goes on while the machine stands still, and a deadline passed meanwhile is met by KILL at once."""


@dataclass(frozen=True)
class Lease:
    """One job and its lease."""

    rules: Rules = field(default_factory=Rules)
    renewals: int = 2
    """At most so many are on their way."""

    def initial(self) -> State:
        """Committed, under a lease."""
        return State(wait=self.wait)

    @property
    def wait(self) -> int:
        """Ticks of its clock that O waits."""
        return (WAIT if self.rules.waits_longer else LEASE) + (MARGIN if self.rules.waits_margin else 0)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, after)

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """Time passes, O acts, D acts if its machine and its node run."""
        yield from self.ticks(s)
        yield from self.origin_acts(s)
        if s.machine:
            yield from self.spawner_acts(s)
            if s.node:
                yield from self.node_acts(s)
        yield from self.stops_and_goes(s)

    # --- time -----------------------------------------------------------------------------------------

    def ticks(self, s: State) -> Iterator[tuple[str, State]]:
        """A tick passes; O's clock may gain one more, D's may lose this one."""
        for gains in range(s.o_gains + 1):
            for loses in range(s.d_loses + 1):
                after = s._replace(
                    wait=max(0, s.wait - 1 - gains), o_gains=s.o_gains - gains, d_loses=s.d_loses - loses
                )
                counts = not loses and (s.machine or self.rules.clock_counts_pauses)
                drift = f"{', O gains one' if gains else ''}{', D loses it' if loses else ''}"
                yield f"a tick{drift}", self.timed(self.aged(after) if counts else after)

    def aged(self, s: State) -> State:
        """A tick of D's clock."""
        kept = LEASE if self.rules.from_sending else LEASE + 1
        network = frozenset(Renewal(r.granted, r.age + 1) for r in s.network if r.age + 1 < kept)
        return s._replace(lease=max(-GRACE, s.lease - 1), network=network)

    def timed(self, s: State) -> State:
        """KILL at the end of the grace, if there is a timer that runs."""
        watched = s.timer and s.machine and (s.node or self.rules.timer_beside_job)
        return s._replace(job="dead") if s.job == "running" and s.lease == -GRACE and watched else s

    # --- the origin -----------------------------------------------------------------------------------

    def origin_acts(self, s: State) -> Iterator[tuple[str, State]]:
        """Grant what arrives; reassign when the wait is over; boot."""
        for renewal in s.network:
            if not renewal.granted and (s.origin == "waits" or not self.rules.no_grant_after):
                granted = s._replace(network=s.network | {Renewal(True, renewal.age)})
                anew = granted._replace(wait=self.wait) if self.rules.grant_counts_anew else granted
                yield f"O grants a renewal of age {renewal.age}", anew
        if s.origin == "waits" and s.wait == 0:
            yield "O reassigns the job", s._replace(origin="reassigned")
        if s.origin == "waits":
            yield "O boots", s._replace(wait=self.wait if self.rules.boot_waits_anew else 0)
        if s.origin == "waits" and s.job == "ended":
            yield "O hears the result", s._replace(origin="done")

    # --- the destination ------------------------------------------------------------------------------

    def node_acts(self, s: State) -> Iterator[tuple[str, State]]:
        """Renew, hear what is granted, order the start while the lease holds."""
        asked = Renewal(False, 0)
        if sum(not r.granted for r in s.network) < self.renewals and asked not in s.network:
            sent = s._replace(network=s.network | {asked})
            yield "D asks for a renewal", sent if self.rules.granted else sent._replace(lease=LEASE)
        for renewal in s.network:
            left = LEASE - (renewal.age if self.rules.from_sending else 0)
            if renewal.granted and left > s.lease:
                yield f"D hears a grant of age {renewal.age}", s._replace(lease=left)
        if s.job == "waiting" and s.lease > 0:
            yield "D orders the start", s._replace(job="ordered")

    def spawner_acts(self, s: State) -> Iterator[tuple[str, State]]:
        """Start what was ordered, unless its deadline has passed; the job may end."""
        if s.job == "ordered":
            if s.lease > 0:
                yield "the spawner starts the job", s._replace(job="running")
            elif self.rules.start_has_deadline:
                yield "the spawner refuses a START that is late", s._replace(job="dead")
            else:
                yield "the spawner starts the job, for one lease", s._replace(job="running", lease=LEASE)
        if s.job == "running":
            yield "the job ends", s._replace(job="ended")
        if s.job == "running" and s.timer and not self.rules.timer_outlives_spawner:
            yield "the spawner dies, its successor knows no deadline", s._replace(timer=False)

    def stops_and_goes(self, s: State) -> Iterator[tuple[str, State]]:
        """SIGSTOP and SIGCONT of the node; the machine stands still and goes on."""
        if s.machine:
            yield f"D's node {'is stopped' if s.node else 'goes on'}", s._replace(node=not s.node)
            yield "D's machine stands still", s._replace(machine=False)
        else:
            yield "D's machine goes on", self.timed(s._replace(machine=True))


def the_old_copy_is_dead_when_the_new_may_start(s: State) -> str | None:
    """Promise 7, with leases kept: two copies never run at the same time."""
    if s.origin == "reassigned" and s.job == "running" and s.machine:
        return "reassigned, and the old copy runs"
    return None


def the_job_has_an_owner_who_can_end_it(s: State) -> bool:
    """Promise 4: its result is accepted, or another copy may run."""
    return s.origin in ("reassigned", "done")
