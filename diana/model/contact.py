"""Where a site was reached: what a restart finds the VO again by."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class KnownAt(msgspec.Struct, frozen=True, array_like=True):
    site: SiteId
    address: str
    """host:port; empty: it can only dial out."""
    via: tuple[SiteId, ...] = ()
    """Sites that had streams to it."""
