"""Messages of the client service about the past. `model/views/past.py` has its groups and its site."""

from __future__ import annotations

from diana.model.views.past import PastGroup, PastRows, PastSite
from diana.wire.client.base import Message


class HistoryRequest(Message, frozen=True):
    from_wall_s: float = 0.0
    """Only groups submitted from then on, in seconds since 1970."""
    to_wall_s: float = 0.0
    """Only groups submitted before then; 0: all."""
    grid: bool = False
    """True: also what other sites tell of theirs."""


class HistoryChunk(Message, frozen=True):
    """One of these: a site first; then a group, and behind it rows of its jobs, in no order. Of a grid the next site
    follows."""

    site: PastSite | None = None
    group: PastGroup | None = None
    rows: PastRows | None = None
    untold: str = ""
    """Another site that does not tell its history, or not to its end: what it told counts for nothing."""
    why: str = ""
    """Why it does not, in one line."""
