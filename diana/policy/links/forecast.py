"""Forecasts of a series of measurements, as the Network Weather Service made them (Wolski, Spring, Hayes: "The Network
Weather Service", FGCS 15, 1999, section 4.2): a family of cheap predictors sees every sample, each is scored by how
wrong it was on this very series, and the one that was least wrong speaks.

Deterministic: ties go to the predictor that stands first. A sample costs the same however many came before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from math import fsum
from statistics import median

import msgspec

FADE = 0.98
"""Factor by which a past error fades with each sample: about the last fifty count, as many as are kept of a link. A
shorter memory chooses worse on steady, wandering, spiky, periodic and stepping series alike."""


class Forecast(msgspec.Struct, frozen=True, gc=False):
    """Forecast of the next value, in the unit of the samples."""

    value: float
    error: float
    """Mean absolute error of this predictor so far, recent ones counting more; negative: fewer than two samples."""
    predictor: str
    samples: int

    @property
    def relative_error(self) -> float:
        """`error` as a share of the value; negative: not known."""
        return self.error / self.value if self.error >= 0 and self.value > 0 else -1.0


Members = tuple[tuple[str, Callable[["_Seen"], float]], ...]


class _Seen:
    """Input of the predictors: the latest samples, oldest first, and one running mean per gain."""

    __slots__ = ("ewma", "latest")

    def __init__(self) -> None:
        self.latest = array("d")
        self.ewma = array("d")

    def add(self, value: float) -> None:
        old = self.ewma if self.latest else [value] * len(GAINS)
        self.ewma = array("d", [m + gain * (value - m) for m, gain in zip(old, GAINS, strict=True)])
        self.latest.append(value)
        if len(self.latest) > LONGEST:
            del self.latest[0]


def _mean(width: int) -> Callable[[_Seen], float]:
    def predict(seen: _Seen) -> float:
        values = seen.latest[-width:]
        return fsum(values) / len(values)

    return predict


def _median(width: int) -> Callable[[_Seen], float]:
    """Median of the latest `width` samples; an outlier moves it no further than to a neighbouring value."""
    return lambda seen: median(seen.latest[-width:])


def _ewma(place: int) -> Callable[[_Seen], float]:
    """Exponentially weighted mean, begun at the first sample."""
    return lambda seen: seen.ewma[place]


LONGEST = 32
GAINS = (0.5, 0.2, 0.05)
_FAMILY: Members = (
    ("last", lambda seen: seen.latest[-1]),
    ("median-5", _median(5)),
    ("median-21", _median(21)),
    *((f"ewma-{gain:g}", _ewma(place)) for place, gain in enumerate(GAINS)),
    ("mean-8", _mean(8)),
    ("mean-32", _mean(LONGEST)),
)
_NO_ERRORS = array("d", [0.0] * len(_FAMILY))
"""Errors before any sample was judged; never changed in place, since each judged sample makes a new array."""
PREDICTORS = tuple(name for name, _ in _FAMILY)
"""Names of the predictors; on ties the first wins."""


class Forecaster:
    """Forecaster of one series. `add` each sample in order of time; finite values of at least 0.

    Nothing is worked out before the second sample: many links have only one, and should cost no more than that.
    """

    __slots__ = ("_errors", "_first", "_seen", "_weight", "samples")

    def __init__(self, samples: Iterable[float] = ()) -> None:
        self._first = 0.0
        self._seen: _Seen | None = None
        self._errors = _NO_ERRORS
        self._weight = 0.0
        self.samples = 0
        for value in samples:
            self.add(value)

    def add(self, value: float) -> None:
        self.samples += 1
        if self.samples == 1:
            self._first = value
            return
        seen = self._looked_at()
        # Each predictor is judged by its forecast from before this sample.
        self._weight = self._weight * FADE + 1.0
        judged = zip(self._errors, _FAMILY, strict=True)
        self._errors = array("d", [old * FADE + abs(value - predict(seen)) for old, (_, predict) in judged])
        seen.add(value)
        self._seen = seen

    def forecast(self) -> Forecast | None:
        """Return the forecast of the predictor with the least error; None: nothing was measured yet."""
        if not self.samples:
            return None
        best = min(range(len(_FAMILY)), key=lambda n: (self._errors[n], n))
        error = self._errors[best] / self._weight if self._weight else -1.0
        name, predict = _FAMILY[best]
        return Forecast(predict(self._looked_at()), error, name, self.samples)

    def opinions(self) -> dict[str, tuple[float, float]]:
        """Predictor -> (its forecast, its error so far; negative: not known). For explanations and tests."""
        if not self.samples:
            return {}
        seen = self._looked_at()
        return {
            name: (predict(seen), error / self._weight if self._weight else -1.0)
            for (name, predict), error in zip(_FAMILY, self._errors, strict=True)
        }

    def _looked_at(self) -> _Seen:
        if self._seen is not None:
            return self._seen
        seen = _Seen()
        seen.add(self._first)
        return seen
