"""What a site knows of leases, given and had. Volatile: clocks of one run of the node say nothing to the next."""

from __future__ import annotations

from diana.engine.state import CustodyKey
from diana.model.ids import SiteId


class LeaseBook:
    def __init__(self, lease_s: float) -> None:
        self.longest_s = lease_s
        """Of those granted in this run or the one before."""
        self.waits: dict[SiteId, float] = {}
        """O: site -> when its work is placed anew, unless it renews before."""
        self.until: dict[SiteId, float] = {}
        """D: origin -> end of the lease its work runs under."""
        self.granted_s: dict[SiteId, float] = {}
        """D: origin -> how long its leases are."""
        self.under: dict[SiteId, set[CustodyKey]] = {}
        """D: origin -> its work that runs under a lease; some of it may be over."""
