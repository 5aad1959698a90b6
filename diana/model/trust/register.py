"""The register of a site that has two replicas of its journal: which one leads. It is the one value the site's witness
keeps.

Changed by compare-and-set only, and every change raises the term, so that a term is a version too (PROMISES
section 2, "Standby"). The witness, the replicas and the simulator all use `changed`, so there is one rule.
"""

from __future__ import annotations

import re

import msgspec

MOST_IN_SYNC = 2
_MACHINE = re.compile(r"[a-z0-9-]{1,40}\Z")


class Copy(msgspec.Struct, frozen=True, order=True):
    """One copy of a site's journal, by its machine and the machine's disk. An empty disk is another copy."""

    machine: str
    replica_uuid: str


class Register(msgspec.Struct, frozen=True):
    """The register's value; ValueError when the fields contradict each other."""

    term: int
    leader: str
    """The machine that leads in this term."""
    in_sync: tuple[Copy, ...]
    """The copies that have every acknowledged entry, by machine. Only these may take over. While one of the two
    replicas does not count, only the other is listed."""
    forced: bool = False
    """True once an operator has chosen the leader: entries that only the lost copy had are given up, and workers may
    hold starts of a history nobody has any more."""

    def __post_init__(self) -> None:
        machines = [copy.machine for copy in self.in_sync]
        if self.term < 1:
            raise ValueError(f"register: term = {self.term}: want 1 or more")
        if not 1 <= len(machines) <= MOST_IN_SYNC or machines != sorted(set(machines)):
            raise ValueError(f"register: in_sync = {machines}: want one or two machines, each once, in order")
        for machine in (self.leader, *machines):
            if not _MACHINE.match(machine):
                raise ValueError(f"register: machine {machine!r}: want lower-case letters, digits and hyphens")
        if self.leader not in machines:
            raise ValueError(f"register: the leader {self.leader} is not among those in sync, {machines}")

    def counts(self, copy: Copy) -> bool:
        """True if this very copy, not just its machine, is recorded in sync."""
        return copy in self.in_sync

    def other(self, machine: str) -> Copy | None:
        """The copy in sync beside that of `machine`; None: alone."""
        return next((copy for copy in self.in_sync if copy.machine != machine), None)


def term_of(register: Register | None) -> int:
    """The register's term; 0 where nothing was ever recorded."""
    return 0 if register is None else register.term


def in_order(*copies: Copy) -> tuple[Copy, ...]:
    """Return the copies in the order of `Register.in_sync`."""
    return tuple(sorted(copies))


def changed(now: Register | None, expect_term: int, wish: Register) -> Register | None:
    """Compare-and-set: return `wish` if the register still has the expected term and `wish` a higher one, else `now`.
    The higher term is usually the next one; where the witness lost its register or was restored to an older one, terms
    go on from the highest the replicas know."""
    return wish if term_of(now) == expect_term < wish.term else now
