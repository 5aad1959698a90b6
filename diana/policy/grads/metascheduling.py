"""Decisions of an origin between its own programs (SPEC G7; papers/grads-scheduling.txt, section 6): whether one that
waits for processors is let in by stopping others at their checkpoints (permission, and pre-emption of what may be), and
at which sites one more would harm running contracts (negotiation)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from diana.model.ids import GroupId, SiteId
from diana.policy.grads.rescheduling import RESTART_S, SAVE_S

HARMED = 0.5
"""Part of an origin's reporting jobs at a site that break their contracts from which on one more is harm to them."""


class YieldingJob(NamedTuple):
    """A running job that may be stopped at a checkpoint for another group."""

    group: GroupId
    job: int
    """Its index."""
    site: SiteId
    processors: int
    remaining_s: float


class WayIn(NamedTuple):
    """Sites where the newcomer may begin: one of an ordinary job, all of a gang's."""

    lacks: tuple[tuple[SiteId, int], ...]
    """Processors that are missing at each; 0 or less: there is room."""
    run_s: float
    wait_s: float
    """Seconds until it begins there if nobody is stopped; infinite: until holders there end."""


class Permission(NamedTuple):
    stop: tuple[YieldingJob, ...]
    """Empty: it waits."""
    gain_s: float
    """Seconds that the newcomer ends sooner, less those that the others lose."""
    reason: str


def permission(ways: Sequence[WayIn], holders: Sequence[YieldingJob], least_gain_s: float) -> Permission:
    """Decide for one job or gang that waits. The largest holders are stopped first, and only where the newcomer gains
    more than `least_gain_s` and more than all that are stopped lose together: each its stop, its restart, and, at
    worst, the whole run of the newcomer."""
    unaided_s = min((_unaided_s(way, holders) + way.run_s for way in ways), default=inf)
    best: Permission | None = None
    for way in ways:
        if all(missing <= 0 for _, missing in way.lacks):
            return Permission((), 0.0, f"there is room at {', '.join(site for site, _ in way.lacks)}")
        some = _stopped(way, holders)
        if not some or way.run_s <= 0:
            continue
        sooner_s = unaided_s - SAVE_S - way.run_s
        lost_s = len(some) * (SAVE_S + RESTART_S + way.run_s)
        names = ", ".join(f"{one.group}.{one.job} at {one.site}" for one in some[:4])
        names += f" and {len(some) - 4} more" if len(some) > 4 else ""
        told = f"it would end {sooner_s:.0f} s sooner, and {names} up to {lost_s:.0f} s later"
        gain_s = sooner_s - lost_s
        stops = sooner_s < inf and sooner_s > least_gain_s and gain_s > 0
        found = Permission(some if stops else (), gain_s, told)
        if best is None or (bool(found.stop), found.gain_s) > (bool(best.stop), best.gain_s):
            best = found
    return best or Permission((), -inf, "no running jobs that yield have the processors it lacks")


def _stopped(way: WayIn, holders: Sequence[YieldingJob]) -> tuple[YieldingJob, ...]:
    """Return the largest holders of each site that free what it lacks, the longest first among equals; none: all
    together do not."""
    some = list[YieldingJob]()
    for site, missing in way.lacks:
        freed = 0
        there = (one for one in holders if one.site == site)
        for one in sorted(there, key=lambda one: (-one.processors, -one.remaining_s, one.group, one.job)):
            if freed >= missing:
                break
            some.append(one)
            freed += one.processors
        if freed < missing:
            return ()
    return tuple(some)


def _unaided_s(way: WayIn, holders: Sequence[YieldingJob]) -> float:
    """Return the seconds until it begins if nobody is stopped: as the sites say, and at the latest when enough of the
    holders have ended."""
    last_s = 0.0
    for site, missing in way.lacks:
        freed, after_s = 0, 0.0
        for one in sorted(holders, key=lambda one: one.remaining_s):
            if freed >= missing:
                break
            if one.site == site:
                freed, after_s = freed + one.processors, one.remaining_s
        last_s = max(last_s, after_s if freed >= missing else inf)
    return min(way.wait_s, last_s)


class ContractsAt(NamedTuple):
    """Contracts of an origin's jobs at one site."""

    kept: int
    slow: int
    worst: float
    """Mean ratio of achieved to foretold time of the slowest."""


def harmed(contracts: Mapping[SiteId, ContractsAt]) -> dict[SiteId, str]:
    """Return the sites where one more job would harm contracts, with a line each."""
    out = {}
    for site, one in sorted(contracts.items()):
        if one.slow and one.slow >= HARMED * (one.slow + one.kept):
            jobs = "a job" if one.slow == 1 else f"{one.slow} jobs"
            out[site] = f"{jobs} of this origin there broke the contract, {one.worst:.1f} times as slow as foretold"
    return out


def refused(harm: Mapping[SiteId, str], able: Iterable[SiteId]) -> dict[SiteId, str]:
    """Return those of the sites which a newcomer is kept from: none of them where it could go nowhere else."""
    some = set(able)
    found = {site: why for site, why in harm.items() if site in some}
    return found if len(found) < len(some) else {}
