"""Addresses at which sites were reached; after a restart a site finds the VO again by them."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class KnownAt(msgspec.Struct, frozen=True, array_like=True):
    site: SiteId
    address: str
    """host:port at which the site is reached; empty: it can only dial out."""
    via: tuple[SiteId, ...] = ()
    """Sites that had streams to this one."""
