"""One machine of this site that runs jobs, as the engine counts with it (`workers.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from diana.engine.given import Lane
from diana.engine.machine_records import Machine
from diana.engine.wants import Want

EXPECTED_BACK_S = 60.0
"""A member machine away for longer counts no more for what this site tells of itself. Until then it does, so that a
restart of anything does not make work go elsewhere; it is given nothing all the same."""

MANY = 1 << 30
"""GPUs where a batch system hands them out: jobs wait for them there."""

Key = tuple[int, int, str]
"""(- free processors, - room for jobs, name): most free first."""


class Worker:
    """One machine. `session` is None while it is away."""

    __slots__ = (
        "ahead",
        "away_since_s",
        "closed",
        "counted",
        "filling",
        "gpus",
        "key",
        "lane",
        "memory_bytes",
        "name",
        "session",
        "shape",
        "sizes",
        "software",
        "trouble",
        "widest",
    )

    def __init__(self, lane: Lane, now: float) -> None:
        self.name = lane.name
        self.lane = lane
        self.session: int | None = None
        self.memory_bytes = 0
        self.widest = 0
        """Processors of the largest machine it stands for; 0: it is one machine."""
        self.gpus = (0, 0)
        """(what one job may want, all there are)."""
        self.software: tuple[str, ...] | None = None
        """What jobs may ask for there; None: as the site's settings say."""
        self.away_since_s = now
        self.key: Key | None = None
        self.ahead = -1
        """Processors' worth of jobs of any length it is given beyond its slots; -1: as the settings say."""
        self.sizes: Counter[int] = Counter()
        self.shape = (0, 0)
        """Of which slots and widest machine `sizes` are."""
        self.counted = (0, 0, 0)
        """Slots, free slots, room: its part in the sums."""
        self.filling = False
        """It was short of jobs, and is given as many as it may have until the round is over."""
        self.closed = ""
        """Why it has no slots for now: it is under maintenance."""
        self.trouble = ""
        """What it, or who watches it, says is wrong."""

    def is_like(self, machine: Machine) -> None:
        self.memory_bytes, self.widest, self.gpus = machine.memory_bytes, machine.widest, machine.gpus
        self.software = machine.software

    def widest_of(self, over_several: bool) -> int:
        """The most processors one job can have there. `over_several`: of all its machines together."""
        return self.lane.slots if over_several else min(self.widest or self.lane.slots, self.lane.slots)

    def pieces(self, slots: int) -> Counter[int]:
        """Of so many slots: how many machines of which size they are, as if all were as large as the largest."""
        if not 0 < self.widest < slots:
            return Counter({slots: 1})
        return Counter({self.widest: slots // self.widest}) + Counter({slots % self.widest: 1})


def lanes_of(sizes: Mapping[int, int], processors: int) -> int:
    """How many jobs of this width run at once on so many machines of each size."""
    return sum(count * (size // processors) for size, count in sizes.items())


def fitting(free: int, room: int, want: Want) -> int:
    """How many such jobs are given at once, by processors."""
    return (room if want.ahead and free <= 0 else max(0, free)) // want.processors
