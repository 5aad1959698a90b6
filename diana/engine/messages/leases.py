"""The messages that renew the lease of all work of a pair of sites (PROMISES section 2, "Leases"). None is kept."""

from __future__ import annotations

import msgspec


class Renew(msgspec.Struct, frozen=True, kw_only=True):
    """Executing site to origin: may the receiver's work there with `on_site_lost = "rerun"` go on? One message asks for
    all of it."""

    generation: int
    """Generation of the sender's boot: an older boot's clock says nothing to a later one."""
    sent_s: float
    """The sender's site time, from which it counts the lease; the answer repeats both."""


class Renewed(msgspec.Struct, frozen=True, kw_only=True):
    """Origin to executing site: yes, for `lease_s` from when it was asked. There is no other answer."""

    generation: int
    sent_s: float
    lease_s: float
