"""Runs of this site's jobs that the journal does not have yet, or not as numbers: starts, ends, mean run times."""

from __future__ import annotations

from diana.engine.journal.state import Custody, CustodyKey, SiteState
from diana.model.facts import Facts


class PendingEnds:
    """Ends of one custody's runs that the LRM told and the journal does not have yet; told again if we crash."""

    __slots__ = ("facts", "flushed_s", "indices")

    def __init__(self) -> None:
        self.facts: list[Facts] = []
        self.indices: set[int] = set()
        self.flushed_s = float("-inf")


class RunBook:
    """Volatile. `state` is read for learned run times, never written."""

    def __init__(self, state: SiteState) -> None:
        self._state = state
        self.started_s: dict[CustodyKey, dict[int, float]] = {}
        """Custody -> index -> site time at which the run was given to the LRM, as far as this run of the node knows."""
        self.ended: dict[CustodyKey, PendingEnds] = {}
        self.mean_s: dict[CustodyKey, float] = {}
        """Mean run time of a custody's jobs here, learned."""
        self.counted_s: dict[str, float] = {}
        """Template and user -> the learned run time that waiting work is counted with."""

    def expected_s(self, custody: Custody) -> float:
        """Return the run time of one of its jobs here: as seen of it, else as learned of its template, else as
        declared, else the default."""
        seen = self.mean_s.get(custody.key)
        if seen is not None:
            return seen
        settings = self._state.settings
        learned = self._state.run_times.mean_s(custody.template, custody.owner)
        if learned is not None:
            return learned
        return (custody.spec.resources.work_s or settings.default_work_s) / settings.speed
