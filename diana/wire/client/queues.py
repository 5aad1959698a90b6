"""Messages of the client service about queues. `model/views/queue.py` has the answer."""

from __future__ import annotations

from diana.wire.client.base import Message


class QueueReadRequest(Message, frozen=True):
    site: str = ""
    """The site asked about; empty: the node's own."""
