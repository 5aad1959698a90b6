"""The answer about sites (`client.proto`)."""

from __future__ import annotations

from diana.model.views.site import Site
from diana.wire.client.base import Message


class SitesResponse(Message, frozen=True):
    sites: tuple[Site, ...] = ()
    more: bool = False
    """True if there are more than one answer holds: these are the first, sites that were met before others."""
