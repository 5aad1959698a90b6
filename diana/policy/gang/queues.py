"""The placement queues: four levels of gangs that have no place yet, the order in which they are scanned, and promotion
(Mohamed & Epema, section 5.2; SPEC K4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class GangLevel(StrEnum):
    """Priority of a gang, by which its placement queue is chosen."""

    SUPER_HIGH = "super-high"
    HIGH = "high"
    LOW = "low"
    SUPER_LOW = "super-low"

    @property
    def short(self) -> str:
        """SH, H, L or SL."""
        return "".join(word[0] for word in self.value.split("-")).upper()

    @property
    def rank(self) -> int:
        """0 for the most urgent level."""
        return list(GangLevel).index(self)


@dataclass(frozen=True, slots=True)
class ScanWeights:
    """Scans of each queue in one round. The higher queues (super-high `n1` times, then high `n2` times) are scanned
    `higher` times, then the lower ones (low `n3` times, then super-low `n4` times) `lower` times."""

    higher: int = 1
    lower: int = 1
    n1: int = 1
    n2: int = 2
    n3: int = 1
    n4: int = 1

    def round(self) -> tuple[GangLevel, ...]:
        """Return the levels of one round, in order."""
        high = (GangLevel.SUPER_HIGH,) * self.n1 + (GangLevel.HIGH,) * self.n2
        low = (GangLevel.LOW,) * self.n3 + (GangLevel.SUPER_LOW,) * self.n4
        return high * self.higher + low * self.lower

    def scans(self) -> Iterator[GangLevel]:
        """Yield the level of each scan, without end."""
        return itertools.cycle(self.round())

    def doubts(self) -> list[str]:
        """Return a line for each inequality of the paper that does not hold. They are no mistakes: the paper asks for
        n1 >= n2 and takes 1 and 2 itself."""
        pairs = (
            ("higher", self.higher, "lower", self.lower),
            ("n1", self.n1, "n2", self.n2),
            ("n3", self.n3, "n4", self.n4),
        )
        return [
            f"{a} = {x} is below {b} = {y}, where the paper asks for at least as many" for a, x, b, y in pairs if x < y
        ]


def promoted(level: GangLevel, tries: int, per_level: float) -> GangLevel:
    """Return the level of a gang after a number of placement tries: one up after every `per_level` (P; infinite: never)
    until super-high. Super-low never rises."""
    if level is GangLevel.SUPER_LOW or per_level == float("inf"):
        return level
    return list(GangLevel)[max(0, level.rank - int(tries // per_level))]
