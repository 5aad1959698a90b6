"""How the lease of all work of a pair of sites is renewed (PROMISES section 2, "Leases"). None of it is kept."""

from __future__ import annotations

import msgspec


class Renew(msgspec.Struct, frozen=True, kw_only=True):
    """Executing site to origin: may what it has of the receiver's with `on_site_lost = "rerun"` go on? One for all of
    it."""

    generation: int
    """Of the sender's boot: an older boot's clock says nothing to a later one."""
    sent_s: float
    """The sender's site time, from which it counts the lease; the answer repeats both."""


class Renewed(msgspec.Struct, frozen=True, kw_only=True):
    """Yes, for so long from when it was asked. There is no other answer."""

    generation: int
    sent_s: float
    lease_s: float
