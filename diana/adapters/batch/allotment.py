"""The part of a cluster that this site's jobs may hold, by what its operator leaves to others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor

from diana.adapters.batch.portions import NO_LIMIT, Limit
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import ClusterCapacity

_PARTITIONED = ("slurm", "gridengine", "pbs")


def processors(settings: ClusterSettings, has: ClusterCapacity) -> int:
    """Return the processors that our jobs may hold at once just now."""
    slots = has.slots - has.others
    if settings.slots:
        slots = min(slots, settings.slots)
    if settings.share < 1:
        slots = min(slots, max(1, floor(settings.share * has.slots + 1e-9)))
    # A cluster that others fill still gives us our turn, unless its operator wants it left to them.
    slots = max(slots, 1 if has.slots else 0)
    return max(0, min(slots, has.slots - has.others - settings.leave_free)) if settings.leave_free else slots


def size(settings: ClusterSettings, has: ClusterCapacity, depth: Callable[[int], int]) -> tuple[int, int]:
    """Return (slots, jobs beyond them). `depth`: the number of jobs beyond so many slots that keeps the cluster from
    idling."""
    slots = processors(settings, has)
    ahead = 0 if leaves(settings) else depth(slots)
    if has.most_jobs:
        slots = min(slots, has.most_jobs)
        ahead = min(ahead, has.most_jobs - slots)
    return slots, ahead


def limit(settings: ClusterSettings, has: ClusterCapacity | None) -> Limit:
    """Return the limit for submissions; none where all processors there are may be ours: nothing is kept back then."""
    most = settings.slots
    return Limit(most, has is not None and has.throttles) if has is None or most < has.slots else NO_LIMIT


def leaves(settings: ClusterSettings) -> bool:
    """True if something is left to others: no job of ours then waits in the batch system, for it would take that as
    soon as it can."""
    return settings.share < 1 or settings.leave_free > 0


def check_together(clusters: Iterable[tuple[str, ClusterSettings]]) -> None:
    """Check that no two tables of one cluster count its processors twice: they must name several partitions of it,
    or send jobs there otherwise. ValueError, `NAME.KEY: what; the mend`."""
    seen: dict[tuple[object, ...], str] = {}
    for name, its in clusters:
        way = (its.kind, its.config, its.partition, its.account, its.qos, its.options)
        if its.kind in _PARTITIONED and (other := seen.setdefault(way, name)) != name:
            what = repr(its.partition) if its.partition else "missing"
            raise ValueError(
                f"{name}.partition: {what}, as in clusters.{other}: its processors would count twice; name another"
            )
