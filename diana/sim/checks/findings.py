"""The violations that the judges of a simulation have found, and those that others report to them."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path

import msgspec

from diana.model.facts import FactsKey
from diana.model.ids import GroupId, SiteId
from diana.sim.checks.stories import Violation
from diana.sim.kernel.clock import Clock
from diana.sim.twins.lrm import Watcher


class Finding(msgspec.Struct, frozen=True):
    """One thing that must not be, as a judge says it."""

    rule: str
    group: GroupId
    index: int
    """Index of the job; -1: the group as a whole."""
    text: str


class Stopped(BaseException):
    """Whoever asked for it has seen enough. No Exception, for the runner takes those for faults of the engine."""


class Findings(Watcher):
    """`found` are the violations, `doubled` the second starts and second results among them."""

    __slots__ = ("_clock", "doubled", "found", "stop_at")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.found: list[Violation] = []
        self.doubled = 0
        self.stop_at: frozenset[str] = frozenset()
        """The first violation of one of these rules ends the run (`Stopped`)."""

    def _fail(self, rule: str, site: SiteId, group: GroupId, index: int, text: str) -> None:
        if rule in ("I1", "I2"):
            self.doubled += 1
        self.found.append(Violation(rule, self._clock.now_s, site, group, index, text))
        if rule in self.stop_at:
            raise Stopped

    def _told(self, site: SiteId, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._fail(finding.rule, site, finding.group, finding.index, finding.text)

    def differs(self, site: SiteId) -> None:
        self._fail("I3", site, GroupId("-"), -1, "snapshot and records give another state than the one that crashed")

    def missing(self, site: SiteId, key: FactsKey) -> None:
        text = f"facts of {key.subgroup} epoch {key.epoch} batch {key.batch} are wanted but not in the store"
        self._fail("I3", site, key.group, -1, text)

    def fell(self, error: Exception) -> None:
        """Engine, fold or simulator raised: an assertion that failed is a violation like any other."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
        self._fail("assert", SiteId("-"), GroupId("-"), -1, f"{type(error).__name__}: {error} ({where})")

    def broken(self, rule: str, site: SiteId, text: str) -> None:
        """Report a violation that another judge found (`sites/replicas.py`)."""
        self._fail(rule, site, GroupId("-"), -1, text)

    def stuck(self, site: SiteId, group: GroupId, text: str) -> None:
        self._fail("I8", site, group, -1, text)
