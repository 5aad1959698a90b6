"""Scores of forecasts: how long groups took against what was foretold, and the range that follows for the next one.

A forecast rests on groups of the same user, program and site where enough were scored, else on those of the user and
program, else on the user's, else on all. Part of a site's state, folded from its records, bounded whatever happens.
"""

from __future__ import annotations

from collections.abc import Sequence
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
MOST_CLASSES = 400
"""Users, users' programs, and these at one site, with scores of their own: those scored last."""
MOST_OF_CLASS = 40
LEAST_OF_CLASS = 9
"""Fewer of one class have no conformal ranks, and the next wider class is taken."""
LEAST_OF_SITE = 19
"""The same of a class of one site: with as many the ranks are no longer the outermost scores."""
PART = 0.8
"""Part of the groups that the range is to hold."""
PACE = 0.05
"""Part of a miss by which the next ranges are wider."""
LEAST_TAIL, MOST_TAIL = 0.01, 0.5
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
    held: float = 0.0
    """Share of the ranges told that held what came."""
    ranges: int = 0
    """Number of ranges that `held` rests on."""


class PastEnds(msgspec.Struct):
    """Scores of the forecasts made at this origin, by their basis: ln(achieved / uncorrected end)."""

    runs: list[float] = []
    declared: list[float] = []
    told: list[float] = []
    """ln(achieved / told end)."""
    held: list[bool] = []
    """Whether ranges that were told held what came."""
    tail: float = 1.0 - PART
    """Part of the groups that the next range leaves out of the scores: adaptive conformal inference (I. Gibbs and
    E. Candes, Adaptive Conformal Inference Under Distribution Shift, 2021, equation 2). Each range that missed makes
    the next ones wider, each that held a little narrower, so that `PART` of them hold though times change."""
    classes: dict[str, list[float]] = {}
    """`BASIS USER`, `BASIS USER PROGRAM` and `BASIS USER PROGRAM @SITE` -> scores, the class scored last at the end."""

    def add(
        self,
        basis: Basis,
        slowest_s: float,
        told_s: float,
        achieved_s: float,
        *,
        bounds_s: tuple[float, float] = (-1.0, -1.0),
        owner: str = "",
        program: str = "",
        site: str = "",
    ) -> None:
        """Add a group. Times below a millisecond count as a millisecond; what nobody could foretell is not scored.
        `bounds_s`: the range told, negative where none was; `program`: a key of `model/history.py`; `site`: the one
        that most of it was planned for, empty where that was not noted."""
        if basis not in ("runs", "declared") or slowest_s <= 0:
            return
        score = log(max(achieved_s, 1e-3) / max(slowest_s, 1e-3))
        if basis == "runs":
            self.runs = [*self.runs, score][-MOST_SCORES:]
        else:
            self.declared = [*self.declared, score][-MOST_SCORES:]
        for name, _ in _classes(basis, owner, program, site):
            self.classes[name] = [*self.classes.pop(name, ()), score][-MOST_OF_CLASS:]
        while len(self.classes) > MOST_CLASSES:
            del self.classes[next(iter(self.classes))]
        low_s, high_s = bounds_s
        if 0 <= low_s <= high_s:
            holds = low_s <= achieved_s <= high_s
            self.held = [*self.held, holds][-MOST_SCORES:]
            step = PACE * ((1.0 - PART) - (not holds))
            self.tail = min(max(self.tail + step, LEAST_TAIL), MOST_TAIL)
        if told_s > 0:
            self.told = [*self.told, log(max(achieved_s, 1e-3) / max(told_s, 1e-3))][-MOST_SCORES:]

    def correction(self, basis: Basis, owner: str = "", program: str = "", site: str = "") -> Correction:
        for name, least in _classes(basis, owner, program, site):
            if len(own := self.classes.get(name, ())) >= least:
                return corrected(own, self.tail)
        scores = self.runs if basis == "runs" else self.declared if basis == "declared" else []
        return corrected(scores, self.tail)

    def error(self) -> PastError:
        held = sum(self.held) / len(self.held) if self.held else 0.0
        if len(self.told) < LEAST_SCORES:
            return PastError(0.0, 0, held, len(self.held))
        return PastError(median(abs(exp(one) - 1.0) for one in self.told), len(self.told), held, len(self.held))


def _classes(basis: Basis, owner: str, program: str, site: str) -> tuple[tuple[str, int], ...]:
    """Return (name, scores from which it counts) of a group's classes, the narrowest first."""
    if not owner:
        return ()
    found = [(f"{basis} {owner}", LEAST_OF_CLASS)]
    if program:
        found.append((f"{basis} {owner} {program}", LEAST_OF_CLASS))
        if site:
            found.append((f"{basis} {owner} {program} @{site}", LEAST_OF_SITE))
    return tuple(reversed(found))


def corrected(scores: Sequence[float], part_out: float = 1.0 - PART) -> Correction:
    """The factors that past scores, in any order, give the next forecast.

    From nine scores on the range is that of conformal prediction (V. Vovk, A. Gammerman and G. Shafer, Algorithmic
    Learning in a Random World, 2005, section 2.2): between the ranks t (n + 1) and (1 - t) (n + 1), t half of
    `part_out`, which holds the next of n + 1 exchangeable scores with a chance of 1 - `part_out` at least, whatever
    their distribution; the outermost scores where there are no such ranks. Fewer give the prediction interval of a
    normal distribution. The middle is no farther from 1 than the scores prove: their median, less its standard error.
    """
    count = len(scores)
    if count < LEAST_SCORES:
        return UNCORRECTED
    rising = sorted(scores)
    if count in _STUDENT:
        off = _STUDENT[count] * stdev(rising) * sqrt(1.0 + 1.0 / count)
        low, high = fmean(rising) - off, fmean(rising) + off
    else:
        tail = max(1.0, 0.5 * part_out * (count + 1))
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
