"""The faults of a whole site: its disk is slow, full or broken, its wall clock jumps, its node stops, all is gone.

Every length is drawn before it is asked whether the fault strikes, so that leaving one out shifts no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from diana.model.ids import SiteId
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.kernel.trace import Trace
from diana.sim.sites.replicas import ReplicaPair
from diana.sim.sites.site import SimulatedSite

_DATABASES = ("database_lost", "database_old", "backup_restored")
HEARD_S = 60.0
"""Seconds until a site that was put back has surely met those who remember it."""
UNHEARD_S = 8.0
"""Least age in seconds of a copy that nothing beside it tells of. Peers do not know yet what the site told its users
alone more lately than that, so nobody would notice a younger copy."""
LIFT_S = 15.0
"""Seconds until users have noticed."""
KINDS = ("disk_slow", "disk_full", "disk_error", "clock_jump", "stall", "site_loss", *_DATABASES)


class Outages:
    """Faults of sites that one node leads; those with a standby have faults of their own (`sites/replicas.py`)."""

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        trace: Trace,
        sites: Mapping[SiteId, SimulatedSite | ReplicaPair],
        lift: Callable[[SiteId, float], None] | None = None,
    ) -> None:
        """`lift`: has the users of a site let their groups go on at that time, after its database was put back."""
        self._sites = sites
        self._lift = lift
        self._put_back_s = self._untold_s = -math.inf
        """Times when a database was put back last, and when one was that nothing beside it told of."""
        self._forgetful: SiteId | None = None
        """The site whose database was put back. No promise covers two sites that lost their memory of each other."""
        self._clock = clock
        self._faults = faults
        self._trace = trace

    def strike(self, kind: str, site: SimulatedSite) -> None:
        length_s = self._faults.length_s(kind)
        other = self._faults.pick(2) == 1
        if not self._faults.strikes(kind, site.site):
            return
        self._trace.note(site.site, self._clock.now_s, f"{kind} {length_s:.3f} s")
        now_s = self._clock.now_s
        match kind:
            case "disk_slow":
                site.storage.slow_until_s = now_s + length_s
            case "disk_full":
                self._fill(site, length_s, other)
            case "disk_error":
                site.storage.breaks = other
            case "clock_jump":
                site.wall_off_s = length_s if other else -length_s
            case "stall":
                site.stall()
                self._clock.after(length_s, site.go_on, site.stalls)
            case "site_loss":
                site.lose(length_s)
            case "database_lost":
                self._put_back(site, kind, True)
            case "database_old" | "backup_restored":
                # Only one copy is kept of each site.
                site.store.keep_copy()
                self._clock.after(length_s, self._put_back, site, kind, other or length_s < UNHEARD_S)

    def _put_back(self, site: SimulatedSite, kind: str, marked: bool) -> None:
        """Put a database back, if no other site's was. Where nothing beside a copy tells that it is one, the other
        sites must: they may not have lost their memory too."""
        now_s = self._clock.now_s
        marked = marked or self._put_back_s > -math.inf or not self._remembered(site)
        if self._faults.on and now_s - self._untold_s > HEARD_S and self._forgetful in (None, site.site):
            self._forgetful = site.site
            self._put_back_s, self._untold_s = now_s, self._untold_s if marked else now_s
            site.put_back(kind, marked)
            if self._lift is not None and marked:
                self._lift(site.site, max(self._clock.now_s + LIFT_S, self._faults.rates.until_s))

    def _remembered(self, site: SimulatedSite) -> bool:
        """True if all others are there and have heard that the journal went beyond the copy."""
        return all(
            isinstance(other, SimulatedSite) and other.has_heard_of(site.site) > site.store.copied_seq
            for other in self._sites.values()
            if other is not site
        )

    def _fill(self, site: SimulatedSite, length_s: float, fails: bool) -> None:
        site.storage.full_until_s = self._clock.now_s + length_s
        if fails:
            site.storage.breaks = False
        site.look_for_room()
        self._clock.after(length_s, site.look_for_room)

    def heal(self, sites: Iterable[SimulatedSite]) -> None:
        for site in sites:
            site.storage.heal()
            site.wall_off_s = 0.0
            site.come_back()
            site.go_on(site.stalls)
            site.look_for_room()
