"""Predicted starts of what waits here."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from diana.engine import load
from diana.engine.context import Context
from diana.engine.queues import Standing
from diana.engine.state import CustodyKey
from diana.policy import forecast

MOST_LOOKED_AT = 20_000
"""Entries; beyond them no predictions are made just to learn."""


def next_starts(core: Context, standing: Iterable[Standing]) -> dict[tuple[CustodyKey, bool], float]:
    """(custody, demoted) -> seconds until its next job starts, by the order in which jobs would start if nothing more
    came; inf: not foreseen. Every one that is to come is kept, to be compared with what happens."""
    out: dict[tuple[CustodyKey, bool], float] = {}
    slots, ahead_s = _slots(core)
    for one in sorted(standing, key=lambda s: (-s.priority, not s.key.bound, s.entry.order, s.key.demoted)):
        entry = one.entry
        custody = core.state.custodies[entry.key]
        wait_s = slots.starts_s(entry.processors, ahead_s) if core.lrm_session is not None else inf
        out[(entry.key, one.key.demoted)] = wait_s
        if entry.ready and (not one.key.demoted or not entry.plain):
            core.predictions.predicted(entry.key, wait_s, core.now)
        ahead_s += one.jobs * entry.processors * load.expected_s(core, custody)
    return out


def learn(core: Context, arrived: CustodyKey) -> None:
    """Now and then, predict for what just came."""
    count = len(core.queues)
    if arrived in core.queues.entries and count <= MOST_LOOKED_AT and core.predictions.sample_due(arrived, core.now):
        next_starts(core, core.queues.standing())


def _slots(core: Context) -> tuple[forecast.Slots, float]:
    """The site's processors as they come free, and the work given to the LRM ahead of them (processor-seconds)."""
    free, ahead_s, claimed = core.state.settings.slots, 0.0, False
    ends: list[tuple[float, int]] = []
    for _, run_s, left_s, width in sorted(load.given(core)):
        # The LRM starts jobs in the order it is given them.
        claimed = claimed or width > free
        if claimed:
            ahead_s += run_s * width
        else:
            free -= width
            ends.append((left_s, width))
    return forecast.Slots(free, ends), ahead_s
