"""Groups so heavy that they stand lower: declared work or bytes beyond a VO's thresholds (SPEC D5).

The paper says that such jobs go to a *higher* queue (papers/diana-bulk-scheduling section VII), against its own rule
that long ones come last; here they go down, by half the width of a level.
"""

from __future__ import annotations

from typing import NamedTuple

from diana.model.job.spec import GroupSpec
from diana.model.job.sweep import sweep_size
from diana.model.settings import Settings
from diana.policy.queueing.priority import LEVEL_WIDTH

STEP = LEVEL_WIDTH / 2
"""Taken off the priority of a heavy group, once whatever it exceeds."""


class GroupLoad(NamedTuple):
    """A whole group, however few of its jobs wait here."""

    work_s: float = 0.0
    """Declared work of all its jobs, in seconds at reference speed; 0: not declared."""
    size_bytes: int = 0
    """Bytes of its inputs, as far as they are known, and of the outputs it declares."""


NO_LOAD = GroupLoad()


def load_of(spec: GroupSpec, input_bytes: int) -> GroupLoad:
    """Return the load of the whole group. `input_bytes`: of those of its inputs whose size is known, each once."""
    jobs = sweep_size(spec.sweep)
    return GroupLoad(jobs * spec.resources.work_s, input_bytes + jobs * spec.outputs.size_bytes)


def is_heavy(settings: Settings, load: GroupLoad) -> bool:
    work_s, size_bytes = settings.work_threshold_s, settings.bytes_threshold
    return 0 < work_s < load.work_s or 0 < size_bytes < load.size_bytes


def why(settings: Settings, load: GroupLoad) -> str:
    """Return which threshold the group exceeds; empty: none."""
    if 0 < settings.work_threshold_s < load.work_s:
        return f"declared work {load.work_s:g} s beyond work_threshold_s {settings.work_threshold_s:g}"
    if 0 < settings.bytes_threshold < load.size_bytes:
        return f"{load.size_bytes:,} bytes beyond bytes_threshold {settings.bytes_threshold:,}"
    return ""
