"""One machine of this site that runs jobs, as the engine counts with it (`machines.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from diana.engine.journal.state import Machine
from diana.engine.machines.running import Lane
from diana.model.job.resources import GPUS, MEMORY, SCRATCH

EXPECTED_BACK_S = 60.0
"""Seconds; a member machine that is away for longer counts no more in what this site tells of itself. Until then it
does, so that a restart of anything does not send work elsewhere; it is given nothing all the same."""

MANY = 1 << 30
"""Pieces of a resource that count as free where a batch system hands them out: jobs wait for them there."""

MANY_BYTES = 1 << 62
"""Bytes that count as free on a disk that nobody tells of."""

Key = tuple[int, int, str]
"""(- free processors, - room for jobs, name): most free first."""


class Counted(NamedTuple):
    """A machine's part in the sums over all machines of the site, in processors."""

    slots: int
    free_slots: int
    room: int
    """Processors' worth of jobs it may be given now, ahead of its slots included."""


class Worker:
    """One machine, or a cluster that stands for several. `session` is None while it is away."""

    __slots__ = (
        "ahead",
        "away_since_s",
        "closed",
        "counted",
        "filling",
        "key",
        "lane",
        "most",
        "name",
        "scratch_room",
        "session",
        "shape",
        "sizes",
        "software",
        "speed",
        "trouble",
        "whole",
        "widest",
    )

    def __init__(self, lane: Lane, now: float) -> None:
        self.name = lane.name
        self.lane = lane
        self.session: int | None = None
        self.most: dict[str, int] = {}
        """Resource -> the most that one job may want there, as the machine says; as in `ResourceOffer.most`."""
        self.whole: dict[str, int] = {}
        """Resource that it has in whole pieces -> how many in all."""
        self.scratch_room = -1
        """Bytes of that disk that are there for jobs, those that hold some included; -1: not known."""
        self.widest = 0
        """Processors of the largest machine it stands for; 0: it is one machine."""
        self.speed = 0.0
        """Speed of its processors relative to the reference; 0: the site's."""
        self.software: tuple[str, ...] | None = None
        """Software that jobs may ask for there; None: as the site's settings say."""
        self.away_since_s = now
        self.key: Key | None = None
        self.ahead = -1
        """Processors' worth of jobs of any length it is given beyond its slots; -1: as the settings say."""
        self.sizes: Counter[int] = Counter()
        self.shape = (0, 0)
        """(slots, processors of the widest machine) for which `sizes` was made."""
        self.counted = Counted(0, 0, 0)
        """Its part in the sums."""
        self.filling = False
        """True if it was short of jobs: it is given as many as it may have until the round is over."""
        self.closed = ""
        """Why it has no slots for now, being under maintenance; empty: it has."""
        self.trouble = ""
        """Trouble, as told by the machine itself or by whoever watches it; empty: none."""

    def is_like(self, machine: Machine) -> None:
        self.widest, self.software, self.speed = machine.widest, machine.software, machine.speed
        self.most, self.whole = figures(machine)

    def scratch_seen(self, free_bytes: int) -> None:
        """Take over how much of the disk is free just now; negative: nobody can say.

        Of what its jobs were promised they have filled something between nothing and all, so what is there for jobs
        lies between what is free and that with all promises added. Within that range the last figure stands.
        """
        if free_bytes < 0:
            self.scratch_room = -1
            return
        last = free_bytes if self.scratch_room < 0 else self.scratch_room
        self.scratch_room = min(max(last, free_bytes), free_bytes + self.lane.held[SCRATCH])

    def pieces(self, slots: int) -> Counter[int]:
        """Return size -> number of machines that so many slots are, as if all were as large as the largest."""
        if not 0 < self.widest < slots:
            return Counter({slots: 1})
        return Counter({self.widest: slots // self.widest}) + Counter({slots % self.widest: 1})


def lanes_of(sizes: Mapping[int, int], processors: int) -> int:
    """Return how many jobs of this width run at once on so many machines of each size."""
    return sum(count * (size // processors) for size, count in sizes.items())


def fitting(free: int, room: int, processors: int, ahead: bool) -> int:
    """Return how many jobs of this width may be given now, by processors alone. `ahead`: they may wait there."""
    return (room if ahead and free <= 0 else max(0, free)) // processors


def figures(machine: Machine) -> tuple[dict[str, int], dict[str, int]]:
    """Return (the most that one job may want, how many in all) of a machine's resources, as it tells them."""
    each, every = machine.gpus
    declared = dict(machine.resources)
    sizes = {MEMORY: machine.memory_bytes, SCRATCH: machine.scratch_bytes}
    most = {name: count for name, count in {**declared, **sizes, GPUS: each}.items() if count > 0}
    return most, {name: count for name, count in {**declared, GPUS: every}.items() if count > 0}
