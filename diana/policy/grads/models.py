"""Performance models given as equations in the job file (SPEC G2; papers/grads-scheduling.txt, section 4.3.2 and figure
1.3): the seconds that one job runs at a site, by the site's values and the group's own, corrected by past runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from diana.model.job.spec import GroupSpec, Sweep
from diana.model.sketch import Quantiles
from diana.policy.requirements.expressions import Constants, Expression, Untold, read
from diana.policy.requirements.group import own_values
from diana.policy.requirements.names import RESERVED, Value
from diana.policy.requirements.swept import swept_values

TIME = "time_s"
"""Name of the equation whose value is the run time of one job, in seconds."""
MOST_EQUATIONS = 16
MOST_S = 1e9
"""No job runs longer."""
LEAST_SEEN = 3
"""Fewer past jobs correct no model."""
HOME = {"link.rtt_s": 0.0, "link.bytes_per_s": 1e13, "link.loss": 0.0}
"""Values of the link between a site and itself: nothing has to cross it."""


class Foreseen(NamedTuple):
    """The run time of one job at a site, in seconds."""

    model_s: float
    """By the equations alone."""
    mean_s: float
    low_s: float
    high_s: float
    """Corrected by past runs; eight of ten jobs are to take `low_s` to `high_s`."""
    seen: int
    """Past jobs that the correction rests on; 0: there is none."""


class EquationModel:
    """The equations of one group, each of which may use those before it."""

    def __init__(self, spec: GroupSpec) -> None:
        """ValueError: one line, with the key, on the first equation that is none."""
        self._own = model_values(spec)
        known = {name: isinstance(value, str) for name, value in self._own.items() if "." not in name}
        if len(spec.model) > MOST_EQUATIONS:
            raise ValueError(f"package.model: {len(spec.model)} equations; want at most {MOST_EQUATIONS}")
        self._equations: list[tuple[str, Expression]] = []
        for name, text in spec.model:
            where = f"package.model.{name}"
            if not name.isidentifier() or name in RESERVED or name in known:
                raise ValueError(f"{where}: the name is taken, or is none; write another")
            constants: Constants = tuple(sorted(known.items()))
            try:
                equation = read(text, "gang_model" if spec.is_gang else "model", constants)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            if equation.result != "double":
                raise ValueError(f"{where}: it gives no number; write seconds, such as job.work_s / site.speed")
            self._equations.append((name, equation))
            known[name] = False
        if not self._equations or self._equations[-1][0] != TIME:
            raise ValueError(f"package.model: its last equation gives the run time of a job; call it {TIME}")

    def component_s(self, values: Mapping[str, Value], processors: int, *, none: bool = False) -> float | Untold:
        """Return the seconds that a component of a gang runs by its values, or why the model gives none. `none`: it
        has no data, and may take no time."""
        found = self._evaluated({**self._own, "job.processors": float(processors), **values})
        if isinstance(found, Untold):
            return found
        return found if found <= MOST_S and (found > 0 or (none and found == 0)) else Untold(f"{TIME} = {found}")

    def seconds(self, values: Mapping[str, Value], *, home: bool) -> float | Untold:
        """Return the seconds that one job runs at a site with these values, those of the link to it included; or why
        the model gives none."""
        found = self._evaluated({**(HOME if home else {}), **values, **self._own})
        if isinstance(found, Untold):
            return found
        return found if 0 < found <= MOST_S else Untold(f"{TIME} = {found}")

    def _evaluated(self, given: dict[str, Value]) -> float | Untold:
        for name, equation in self._equations:
            found = equation.value(given)
            if isinstance(found, Untold):
                return found
            given[name] = float(found)
        seconds = given[TIME]
        assert isinstance(seconds, float)
        return seconds


def model_values(spec: GroupSpec) -> dict[str, Value]:
    """Return the values of the names that speak of the group itself; a swept name of several numbers is their mean."""
    return {**own_values(spec), **swept_values(spec.sweep), **_means(spec.sweep)}


def foreseen(model_s: float, past: Quantiles | None) -> Foreseen:
    """Correct a model's seconds by the ratios of past jobs, achieved over modelled."""
    if past is None or past.seen < LEAST_SEEN:
        return Foreseen(model_s, model_s, model_s, model_s, 0)
    low, high = min(past.low_s, past.mean_s), max(past.high_s, past.mean_s)
    return Foreseen(model_s, model_s * past.mean_s, model_s * low, model_s * high, past.seen)


def ratios(run_s: Sequence[float], model_s: float) -> list[float]:
    """Return achieved over modelled of each job; none where there was no model."""
    return [one / model_s for one in run_s] if model_s > 0 else []


def _means(sweep: Sweep) -> dict[str, Value]:
    """Return the mean of each swept name that has several values, all of them numbers: one model speaks of the whole
    group."""
    out: dict[str, Value] = {}
    for axis in sweep.axes:
        if axis.name in RESERVED or not axis.name.isidentifier():
            continue
        if not axis.values:
            span = range(axis.start, axis.stop, axis.step or 1)
            if len(span) > 1:
                out[axis.name] = (span[0] + span[-1]) / 2
        elif len(set(axis.values)) > 1:
            try:
                out[axis.name] = fmean(map(float, axis.values))
            except ValueError:
                continue
    return out
