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
        self.asked: dict[CustodyKey, dict[int, int]] = {}
        """Custody -> index -> attempt that was asked to save before its machine closes."""
        self.ended: dict[CustodyKey, PendingEnds] = {}
        self.mean_s: dict[CustodyKey, float] = {}
        """Mean run time of a custody's jobs here, learned."""
        self.counted_s: dict[str, float] = {}
        """Template and user -> the learned run time that waiting work is counted with."""
        self.moved: dict[CustodyKey, None] = {}
        """Custodies whose `mean_s` changed since those on slots were looked at."""
        self.changes = 0
        """Version counter: rises when an expected run time changes."""

    def ran(self, key: CustodyKey, took_s: float) -> None:
        """Update a custody's mean run time, the newest counting most."""
        known = self.mean_s.get(key)
        self.mean_s[key] = max(0.0, took_s) if known is None else 0.8 * known + 0.2 * max(0.0, took_s)
        self._changed(key)

    def forget(self, key: CustodyKey) -> None:
        """Forget a custody that is no more here."""
        self.started_s.pop(key, None)
        self.asked.pop(key, None)
        self.ended.pop(key, None)
        if self.mean_s.pop(key, None) is not None:
            self._changed(key)

    def _changed(self, key: CustodyKey) -> None:
        self.moved[key] = None
        self.changes += 1

    def learned_s(self, custody: Custody) -> float | None:
        """Return the run time of one of its jobs here, as seen of it or of its template; None: none was seen."""
        seen = self.mean_s.get(custody.key)
        return self._state.run_times.mean_s(custody.template, custody.owner) if seen is None else seen

    def of_kind_s(self, template: str, owner: str, work_s: float) -> float:
        """Return the run time here of a job of this template and user that declared `work_s` (0: nothing)."""
        learned = self._state.run_times.mean_s(template, owner)
        if learned is not None:
            return learned
        settings = self._state.settings
        return (work_s or settings.default_work_s) / settings.speed

    def expected_s(self, custody: Custody) -> float:
        """Return the run time of one of its jobs here: as seen of it, else as learned of its template, else as
        declared, else the default."""
        seen = self.mean_s.get(custody.key)
        if seen is not None:
            return seen
        return self.of_kind_s(custody.template, custody.owner, custody.spec.resources.work_s)
