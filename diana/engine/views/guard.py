"""A view of what the black-hole guard holds back, for those who look at sites: of which group and machine, since when
and why, when it is tried again, and what lifts it."""

from __future__ import annotations

from collections import defaultdict
from math import isinf

from diana.engine.guard.guard import Guard
from diana.engine.guard.machine_guard import MachineGuard
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId
from diana.model.views.site import Guarded
from diana.model.views.views import GuardEntry
from diana.policy.breaker import Breaker, Stand

MOST_ROWS = 20
"""Rows of one site."""


class Held:
    """The rows of all sites, made once for those that are looked at: it costs what is held back, not groups times
    sites."""

    def __init__(self, core: Context) -> None:
        rows: dict[SiteId, list[GuardEntry]] = defaultdict(list)
        if core.book(Guard).settings(core.state.settings) is not None:
            _here(core, rows)
            _elsewhere(core, rows)
        for some in rows.values():
            some.sort(key=lambda row: (-row.since_s, row.shown.group, row.shown.machine))
        self._rows = rows

    def at(self, site: SiteId) -> tuple[tuple[GuardEntry, ...], int]:
        """Return the site's rows, the latest first, and how many there are beyond these."""
        some = self._rows.get(site, [])
        return tuple(some[:MOST_ROWS]), max(0, len(some) - MOST_ROWS)


def _here(core: Context, rows: dict[SiteId, list[GuardEntry]]) -> None:
    guard = core.book(Guard)
    for group in guard.stopped - guard.lifted:
        if guard.keys.get(group):
            rows[core.site].append(_row(group, guard.here[group], core.site))
    for group, machines in core.book(MachineGuard).out.items():
        for machine, until_s in machines.items():
            b = core.book(MachineGuard).breakers[group][machine]
            rows[core.site].append(
                GuardEntry(
                    shown=Guarded(
                        group=group,
                        machine=machine,
                        stand="probation",
                        why=b.reason.partition(": ")[0],
                        lifts=f"one job that does well on {machine}; diana retry {group}",
                    ),
                    since_s=b.since_s,
                    until_s=until_s,
                )
            )


def _elsewhere(core: Context, rows: dict[SiteId, list[GuardEntry]]) -> None:
    """Add rows of other sites: by this site's groups, and by what the latest groups met there."""
    for group, sites in core.book(Guard).shunned.items():
        for site, shunned in sites.items():
            if site == core.site or shunned.until_s <= core.now:
                continue
            barred = isinf(shunned.until_s)
            rows[site].append(
                GuardEntry(
                    shown=Guarded(
                        group=group,
                        stand="barred" if barred else "probation",
                        why=shunned.why.partition(": ")[0],
                        lifts=_lifts(group, site, barred),
                    ),
                    since_s=shunned.since_s,
                    until_s=-1.0 if barred else shunned.until_s,
                )
            )
    for site, b in core.book(Guard).sites.items():
        if b.stand is Stand.PROBATION and b.until_s > core.now:
            rows[site].append(_row(GroupId(""), b, site))


def _row(group: GroupId, b: Breaker, site: SiteId) -> GuardEntry:
    barred = b.stand is Stand.BARRED
    return GuardEntry(
        shown=Guarded(
            group=group,
            stand=b.stand.value,
            why=b.reason.partition(": ")[0] if group else "the latest groups failed there at once",
            lifts=_lifts(group, site, barred),
        ),
        since_s=b.since_s,
        until_s=-1.0 if barred else b.until_s,
    )


def _lifts(group: GroupId, site: SiteId, barred: bool) -> str:
    if not group:
        return f"a group that does well at {site}"
    if barred:
        return f"diana retry {group}, once {site} is mended"
    return f"one job that does well at {site}; diana retry {group}"
