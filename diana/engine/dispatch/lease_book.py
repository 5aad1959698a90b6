"""The leases a site has granted and been granted. Volatile: clocks of one run of the node say nothing to the next."""

from __future__ import annotations

from diana.engine.journal.state import CustodyKey
from diana.model.ids import SiteId


class LeaseBook:
    def __init__(self, lease_s: float) -> None:
        self.longest_s = lease_s
        """Length of the longest lease granted in this run or the one before."""
        self.waits: dict[SiteId, float] = {}
        """O: site -> site time at which its work is placed anew, unless it renews before."""
        self.until: dict[SiteId, float] = {}
        """D: origin -> end of the lease its work runs under."""
        self.granted_s: dict[SiteId, float] = {}
        """D: origin -> length of its latest lease."""
        self.under: dict[SiteId, set[CustodyKey]] = {}
        """D: origin -> its work that runs under a lease; some of it may be over."""
