"""Contracts of running jobs, for their users: how far each is, and whether it keeps to what was foretold of it."""

from __future__ import annotations

from diana.model.ids import SiteId
from diana.model.views.shown import Shown


class JobContract(Shown, frozen=True):
    """A running job that reports its steps."""

    index: int = 0
    attempt: int = 0
    site: SiteId = SiteId("")
    done: float = 0.0
    """Steps done."""
    total: float = 0.0
    """Steps in all."""
    last_ratio: float = 0.0
    """Achieved over foretold seconds of the latest step; 0: nothing was foretold."""
    mean_ratio: float = 0.0
    """The same over the window."""
    state: str = ""
    """kept, slow or fast; empty: nothing was foretold."""
    remaining_s: float = 0.0
    """Seconds that the steps left take at the mean pace."""
    relaxed: str = ""
    """Why it is held against its own pace from then on; empty: it is not."""
