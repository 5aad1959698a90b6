"""Swept names that are values of a group's expressions."""

from __future__ import annotations

import re

from diana.model.job.spec import Sweep
from diana.policy.requirements.names import RESERVED, Value

_WORD = re.compile(r"[A-Za-z_]\w*")


def swept_values(sweep: Sweep) -> dict[str, Value]:
    """Return the swept names that have one value, the same for all jobs: a number if it reads as one."""
    out: dict[str, Value] = {}
    for axis in sweep.axes:
        if axis.values:
            values = set(axis.values)
        else:
            span = range(axis.start, axis.stop, axis.step or 1)
            values = {str(span[0])} if len(span) == 1 else set()
        if len(values) == 1 and _WORD.fullmatch(axis.name) and axis.name not in RESERVED:
            out[axis.name] = _number_or_text(values.pop())
    return out


def _number_or_text(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text
