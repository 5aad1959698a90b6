"""Expected remaining run time of a running job.

After Harchol-Balter and Downey (Exploiting process lifetime distributions for dynamic load balancing, ACM TOCS 1997: a
process that has run for so long runs as long again, in the median) and Tsafrir, Etsion and Feitelson (Backfilling using
system-generated predictions rather than user runtime estimates, IEEE TPDS 2007: a prediction that a job has outlived is
corrected).
"""

from __future__ import annotations

from typing import TypeVar

from diana.model.arrays import Floats

Seconds = TypeVar("Seconds", float, Floats)
"""Seconds of one job, or of many at once."""


def left_s(expected_s: Seconds, ran_s: Seconds) -> Seconds:
    """Seconds still to run of a job that was expected to take `expected_s` and has run for `ran_s`. A job that outlived
    its expectation is expected to go on for as long as it is overdue: if a little late, it ends soon; at ten times the
    expectation nobody should wait for its slot."""
    return abs(expected_s - ran_s)
