"""Guard against one bad machine: the black hole of a site (SPEC U10) may be one of its machines.

Each machine is judged by itself, per group, as long as some other machine takes the group's jobs. Jobs that it fails
count as lost, but do not speak against the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diana.engine.journal.state import Custody
from diana.engine.machines import requirements
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId
from diana.model.job.sweep import sweep_size
from diana.policy import breaker
from diana.policy.breaker import Breaker, BreakerSettings, EndCounts, Stand

RETRY_S = 3600.0
"""Seconds until a machine that failed all it may of a group is tried again, with one job."""


class MachineGuard:
    """Volatile, as the guard it belongs to."""

    def __init__(self) -> None:
        self.breakers: dict[GroupId, dict[str, Breaker]] = {}
        self.out: dict[GroupId, dict[str, float]] = {}
        """Group -> machine -> site time until which it gets no job of the group; then one at a time until one goes
        well."""
        self.alike: set[GroupId] = set()
        """Groups that every machine failed and none did well: the machines are not the cause."""

    def forget(self, group: GroupId) -> None:
        self.breakers.pop(group, None)
        self.out.pop(group, None)
        self.alike.discard(group)

    def notes(self) -> list[str]:
        return sorted(
            {f"machine {name} fails jobs of {group} at once" for group in self.out for name in self.out[group]}
        )


def caps(core: Context, name: GroupId, custody: Custody) -> Mapping[str, int]:
    """Return machine -> the most further jobs of the group it may get now; machines without a limit are left out."""
    out = core.book(MachineGuard).out.get(name)
    if not out:
        return {}
    held = {machine: len(indices) for machine, indices in custody.by_machine(custody.running).items()}
    return {machine: 0 if until_s > core.now or held.get(machine) else 1 for machine, until_s in out.items()}


def ended(
    core: Context, name: GroupId, custody: Custody, ends: Iterable[tuple[int, EndCounts]], settings: BreakerSettings
) -> int:
    """Judge the machines by jobs that ended here, given as (index, how it ended); return how many of the fast failures
    are a machine's own fault."""
    if len(core.workers.names()) < 2 or name in core.book(MachineGuard).alike:
        return 0
    guard, jobs = core.book(MachineGuard), sweep_size(custody.spec.sweep)
    breakers, out = guard.breakers.setdefault(name, {}), guard.out.setdefault(name, {})
    fast: dict[str, int] = {}
    for machine, some in _by_machine(custody, dict(ends)).items():
        b = breakers.get(machine) or breaker.begin(SiteId(machine), jobs, 0.0, settings)
        b = breakers[machine] = breaker.ended(b, some, core.now, settings)
        fast[machine] = some.fast
        if b.stand in (Stand.TRYING, Stand.TRUSTED):
            out.pop(machine, None)
        elif some.fast:
            out[machine] = b.until_s if b.stand is Stand.PROBATION else core.now + RETRY_S
            core.timers.set(GroupTimer("guard", name), out[machine])
    if out and all(worker.name in out for worker in core.workers.takers(requirements.asked(custody.spec))):
        # No machine does better: the site is at fault, or the work.
        out.clear()
        if not any(b.good for b in breakers.values()):
            guard.alike.add(name)
    return sum(fast[machine] for machine in fast if machine in out)


def _by_machine(custody: Custody, ends: dict[int, EndCounts]) -> dict[str, EndCounts]:
    totals: dict[str, EndCounts] = {}
    left = dict(ends)
    for machine, mine in custody.given.items():
        for index in [index for index in left if index in mine]:
            totals[machine] = _sum(totals.get(machine), left.pop(index))
    for one in left.values():
        totals[MAIN_MACHINE] = _sum(totals.get(MAIN_MACHINE), one)
    return {machine: totals[machine] for machine in sorted(totals)}


def _sum(a: EndCounts | None, b: EndCounts) -> EndCounts:
    return b if a is None else EndCounts(*(x + y for x, y in zip(a, b, strict=True)))
