"""Messages of the client service about links between sites. `model/views/link.py` has the answer."""

from __future__ import annotations

from diana.wire.client.base import Message


class LinksRequest(Message, frozen=True):
    source: str = ""
    """Site whose data come over the links wanted; empty: all links."""
    paths: str = ""
    """Site to which the distances of all others are wanted, too; empty: none."""
