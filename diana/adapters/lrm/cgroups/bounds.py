"""Processors and memory that the control groups of this process leave it of the machine, in either version of groups.

A quota of processors is rounded down, and leaves one at least: a slot stands for a whole processor, and a site whose
slots get three quarters of one each would run everything longer than it estimates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from diana.adapters.lrm.cgroups.found import ROOT, UNIFIED, place


class Processors(NamedTuple):
    """Processors that this process may use, one at least."""

    usable: int
    quota: float
    """The quota of its control groups, in processors, where that left fewer than it could have; 0: it did not."""


def processors(root: Path = ROOT) -> Processors:
    """Return what affinity and quotas leave, the smaller of both."""
    mine = len(os.sched_getaffinity(0))
    quotas = [*_quotas_v2(root), *_quotas_v1(root)]
    least = min(quotas, default=float(mine))
    return Processors(mine, 0.0) if least >= mine else Processors(max(1, int(least)), least)


def memory_bytes(root: Path = ROOT) -> int:
    """Return the machine's memory, or the least that a control group above this process leaves of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [total]
    for hierarchy, name in ((UNIFIED, "memory.max"), ("memory", "memory.limit_in_bytes")):
        at = place(hierarchy, root)
        limits += [number for folder in at.upwards() if (number := _number(folder / name)) > 0] if at else []
    return min(limits)


def _quotas_v2(root: Path) -> list[float]:
    found, at = [], place(UNIFIED, root)
    for folder in at.upwards() if at else ():
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and all(word.isdecimal() and int(word) > 0 for word in words):
            found.append(int(words[0]) / int(words[1]))
    return found


def _quotas_v1(root: Path) -> list[float]:
    found, at = [], place("cpu", root)
    for folder in at.upwards() if at else ():
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota > 0 and period > 0:
            found.append(quota / period)
    return found


def _number(path: Path) -> int:
    """The number in a file; -1: there is none."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else -1


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
