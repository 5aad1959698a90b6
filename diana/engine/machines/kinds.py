"""Kinds of machines of this site, as its quotes tell them (SPEC G4): machines that are alike are one row with a count,
however many there are."""

from __future__ import annotations

from collections.abc import Iterator

from diana.engine.machines.machine import Worker
from diana.engine.machines.machines import Workers
from diana.engine.messages.messages import MachineKind
from diana.model.job.resources import GPUS, MEMORY
from diana.model.job.software import platforms_in
from diana.model.settings import Settings

MOST_KINDS = 16
"""Kinds that a quote tells, those of most processors."""


def kinds(workers: Workers, settings: Settings) -> tuple[MachineKind, ...]:
    """Return the kinds of machines that are here or soon will be, those of most processors first. Of a cluster, whose
    machines it does not name, all are as large as the largest, and its idle processors lie together."""
    alike: dict[tuple[int, float, int, int, str], tuple[int, int]] = {}
    for worker in workers.expected():
        offer = workers.offers.of(worker)
        platform = next(iter(sorted(platforms_in(offer.capabilities))), "")
        speed = worker.speed or settings.speed
        for size, count, idle in _machines(worker):
            key = (size, speed, offer.most.get(MEMORY, 0), offer.most.get(GPUS, 0), platform)
            had = alike.get(key, (0, 0))
            alike[key] = (had[0] + count, had[1] + idle)
    found = [
        MachineKind(count, size, speed, memory_bytes, gpus, platform, idle)
        for (size, speed, memory_bytes, gpus, platform), (count, idle) in alike.items()
    ]
    found.sort(key=lambda kind: (-kind.count * kind.processors, -kind.processors, -kind.speed, *_rest(kind)))
    return tuple(found[:MOST_KINDS])


def _rest(kind: MachineKind) -> tuple[int, int, str]:
    return -kind.memory_bytes, -kind.gpus, kind.platform


def _machines(worker: Worker) -> Iterator[tuple[int, int, int]]:
    """Yield (processors of a machine, machines, idle processors of them) of a worker."""
    idle = worker.counted.free_slots
    for size, count in sorted(worker.sizes.items(), reverse=True):
        had = min(idle, size * count)
        idle -= had
        yield size, count, had
