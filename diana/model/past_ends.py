"""Scores of forecasts: how long groups took against what was foretold, and the range that follows for the next one.

Part of a site's state, folded from its records, bounded whatever happens.
"""

from __future__ import annotations

from math import ceil, copysign, exp, floor, log, pi, sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

import msgspec

from diana.model.views.decision import Basis

MOST_SCORES = 100
"""Groups remembered per basis, the latest."""
MOST_ERRORS = 200
LEAST_SCORES = 5
"""Fewer scored groups give no range."""
PART = 0.8
"""Part of the groups that the range is to hold."""
_STUDENT = {5: 1.533, 6: 1.476, 7: 1.440, 8: 1.415}
"""Number of scores -> 90 % point of Student's t with one degree of freedom less."""
_MEDIAN_ERROR = sqrt(pi / 2.0) / 0.6745
"""Standard error of the median of normal values, times the root of their number, over their median deviation."""


class Correction(NamedTuple):
    """Factors on the uncorrected end of a group; low <= middle <= high."""

    low: float
    middle: float
    high: float
    groups: int
    """Number of scores these rest on; 0: too few, the factors are 1."""


UNCORRECTED = Correction(1.0, 1.0, 1.0, 0)


class PastError(NamedTuple):
    """How far told ends were off."""

    median: float
    """Median of |achieved/told - 1|."""
    groups: int
    """Number of groups it rests on; 0: too few, the median means nothing."""


class PastEnds(msgspec.Struct):
    """Scores of the forecasts made at this origin, by their basis: ln(achieved / uncorrected end)."""

    runs: list[float] = []
    declared: list[float] = []
    told: list[float] = []
    """ln(achieved / told end)."""

    def add(self, basis: Basis, slowest_s: float, told_s: float, achieved_s: float) -> None:
        """Add a group. Times below a millisecond count as a millisecond; what nobody could foretell is not scored."""
        if basis not in ("runs", "declared") or slowest_s <= 0:
            return
        score = log(max(achieved_s, 1e-3) / max(slowest_s, 1e-3))
        if basis == "runs":
            self.runs = [*self.runs, score][-MOST_SCORES:]
        else:
            self.declared = [*self.declared, score][-MOST_SCORES:]
        if told_s > 0:
            self.told = [*self.told, log(max(achieved_s, 1e-3) / max(told_s, 1e-3))][-MOST_SCORES:]

    def correction(self, basis: Basis) -> Correction:
        scores = self.runs if basis == "runs" else self.declared if basis == "declared" else []
        return corrected(scores)

    def error(self) -> PastError:
        if len(self.told) < LEAST_SCORES:
            return PastError(0.0, 0)
        return PastError(median(abs(exp(one) - 1.0) for one in self.told), len(self.told))


def corrected(scores: list[float]) -> Correction:
    """The factors that past scores, in any order, give the next forecast.

    From nine scores on the range is that of conformal prediction (V. Vovk, A. Gammerman and G. Shafer, Algorithmic
    Learning in a Random World, 2005, section 2.2): between the ranks 0.1 (n + 1) and 0.9 (n + 1), which holds the next
    of n + 1 exchangeable scores with a chance of `PART` at least, whatever their distribution. Fewer have no such
    ranks: then it is the prediction interval of a normal distribution. The middle is no farther from 1 than the scores
    prove: their median, less its standard error.
    """
    count = len(scores)
    if count < LEAST_SCORES:
        return UNCORRECTED
    rising = sorted(scores)
    if count in _STUDENT:
        off = _STUDENT[count] * stdev(rising) * sqrt(1.0 + 1.0 / count)
        low, high = fmean(rising) - off, fmean(rising) + off
    else:
        tail = 0.5 * (1.0 - PART) * (count + 1)
        low, high = rising[floor(tail + 1e-9) - 1], rising[ceil(count + 1 - tail - 1e-9) - 1]
    center = median(rising)
    error = _MEDIAN_ERROR * median(abs(one - center) for one in rising) / sqrt(count)
    middle = min(max(copysign(max(0.0, abs(center) - error), center), low), high)
    return Correction(exp(low), exp(middle), exp(high), count)


class Errors(msgspec.Struct):
    """ln(achieved / predicted) of the last groups that were placed by release 0.1.0 and ran as they were planned. Its
    journals and snapshots come to the same state here; no forecast rests on it, since its predictions were others."""

    logs: list[float] = []

    def add(self, predicted_s: float, achieved_s: float) -> None:
        self.logs = [*self.logs, log(max(achieved_s, 1e-3) / max(predicted_s, 1e-3))][-MOST_ERRORS:]
