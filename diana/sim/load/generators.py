"""Columns of drawn work: when groups come, how large their jobs are, who submits them and where.

Pure: numpy arrays from a numpy Generator that the caller gives. Times in seconds, from 0. All of it is linear in the
number of groups.

The model of parallel jobs is that of U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling
the characteristics of rigid jobs", J. Parallel and Distributed Computing 63(11), 2003, with its published parameters.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kind = Literal["all", "batch", "interactive"]

DAY_S = 86400.0
BUCKETS = 48
"""Half hours of a day."""
BUCKET_S = DAY_S / BUCKETS
FIRST_BUCKET = 10
"""The paper's day begins at 5:00, when the fewest jobs come."""
MAX_LOG_RUN = 12.0
"""Run times end at e^12 s, 45 hours; a longer one is drawn again."""
MAX_LOG_GAP = 13.0
"""Gaps between arrivals in the rush hours end at e^13 s, 5 days."""


class Lublin(NamedTuple):
    """Parameters under the paper's names; U... are logarithms to base 2, of the run time and the gap natural ones."""

    serial_prob: float
    """Share of jobs of one processor."""
    pow2_prob: float
    """Share of jobs of a power of two of them."""
    ulow: float
    uprob: float
    """Share of the first of the two stages, [ulow, umed]; the other one is [umed, uhi]."""
    uhi_below: float
    """uhi lies so far below the logarithm of the machine's size."""
    umed_below: float
    """umed lies so far below uhi."""
    a1: float
    b1: float
    a2: float
    b2: float
    """Shapes and scales of the two gamma distributions of the run time's logarithm."""
    pa: float
    pb: float
    """The first of them is taken with probability pa * processors + pb."""
    aarr: float
    barr: float
    """Shape and scale of the gamma distribution of the gap's logarithm in the rush hours."""
    arar: float
    """Corrects aarr from the rush hours to the whole day."""
    anum: float
    bnum: float
    """Shape and scale, in half hours, of the gamma distribution of arrivals over a day."""


LUBLIN: Final[dict[Kind, Lublin]] = {
    "all": Lublin(
        *(0.244, 0.576, 0.8, 0.86, 0.0, 2.5),
        *(4.2, 0.94, 312.0, 0.03, -0.0054, 0.78),
        *(10.2303, 0.4871, 1.0225, 8.1737, 3.9631),
    ),
    "batch": Lublin(
        *(0.2927, 0.6686, 1.2, 0.875, 0.0, 2.0),
        *(6.57, 0.823, 639.1, 0.0156, -0.003, 0.6986),
        *(6.0415, 0.8531, 1.0519, 6.1271, 5.2740),
    ),
    "interactive": Lublin(
        *(0.1541, 0.625, 1.0, 0.705, 1.5, 2.5),
        *(3.8351, 0.6605, 7.073, 0.6856, -0.0118, 0.9156),
        *(6.5510, 0.6621, 0.9797, 8.9186, 3.6680),
    ),
}


# --- when ------------------------------------------------------------------------------------------------


def poisson_s(rng: np.random.Generator, groups: int, every_s: float) -> Floats:
    """Arrivals of a Poisson process with that mean gap, the first after one gap."""
    return np.cumsum(rng.exponential(every_s, groups))


def bursts_s(rng: np.random.Generator, groups: int, every_s: float, burst: int, gap_s: float) -> Floats:
    """Bursts of `burst` groups `gap_s` apart, their first ones a Poisson process; mean gap over all `every_s`."""
    heads = poisson_s(rng, -(-groups // burst), every_s * burst)
    number = np.arange(groups)
    return np.sort(heads[number // burst] + gap_s * (number % burst))


def day_weights(anum: float, bnum: float) -> Floats:
    """Share of the day's arrivals in each half hour from midnight, as a multiple of the mean one."""
    # Simpson's rule over the density; its constant factor goes with the mean.
    at = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS)
    left: Floats = np.arange(BUCKETS + 1, dtype=np.float64) + (FIRST_BUCKET + 0.5)
    ends, middles = _gamma_shape(left, anum, bnum), _gamma_shape(left[:-1] + 0.5, anum, bnum)
    weights: Floats = np.empty(BUCKETS)
    weights[at % BUCKETS] = ends[:-1] + 4.0 * middles + ends[1:]
    shares: Floats = weights / weights.mean()
    return shares


def lublin_arrivals_s(rng: np.random.Generator, groups: int, model: Lublin, start_hour: float = 0.0) -> Floats:
    """Arrivals with the daily cycle, seconds after `start_hour`.

    The paper's process: each gap buys points, e^gamma(aarr arar, barr) of them, and a second of a half hour costs its
    weight. So an arrival is where the day's running sum of weights meets the running sum of points."""
    points = np.cumsum(np.exp(_gamma_below(rng, groups, model.aarr * model.arar, model.barr, MAX_LOG_GAP)))
    at_s = np.arange(BUCKETS + 1) * BUCKET_S
    paid = np.concatenate([[0.0], np.cumsum(day_weights(model.anum, model.bnum))]) * BUCKET_S
    start_s = start_hour * 3600.0
    points += np.interp(start_s, at_s, paid)
    days = np.floor(points / DAY_S)
    times_s: Floats = days * DAY_S + np.interp(points - days * DAY_S, paid, at_s) - start_s
    return times_s


def scaled_to_load(times_s: Floats, span_s: float, offered_s: float, capacity: float, load: float) -> Floats:
    """Times stretched alike so that `offered_s` seconds of work come in load * capacity per second over their span."""
    return times_s * (offered_s / (load * capacity * span_s))


# --- how large -------------------------------------------------------------------------------------------


def lublin_processors(rng: np.random.Generator, groups: int, model: Lublin, most: int) -> Ints:
    """Sizes for machines of `most` processors: 1, a power of two, or any; two-stage uniform over the logarithm."""
    kind = rng.random(groups)
    first = rng.random(groups) <= model.uprob
    place = rng.random(groups)
    hi = max(0.0, math.log2(most) - model.uhi_below)
    low = min(model.ulow, hi)
    med = min(max(low, hi - model.umed_below), hi)
    log = np.where(first, low + place * (med - low), med + place * (hi - med))
    # The rounding may not lead beyond the machine.
    whole = np.minimum(np.floor(log + 0.5), math.floor(math.log2(most)))
    log = np.where(kind <= model.serial_prob + model.pow2_prob, whole, log)
    sizes = np.floor(np.exp2(log) + 0.5).astype(np.int64)
    return np.where(kind <= model.serial_prob, 1, np.minimum(sizes, most))


def lublin_run_s(rng: np.random.Generator, processors: Ints, model: Lublin) -> Floats:
    """Run times: e to a hyper-gamma whose mixing depends on the size."""
    share = np.clip(model.pa * processors + model.pb, 0.0, 1.0)
    log = np.empty(len(processors))
    wanted = np.arange(len(processors))
    while len(wanted):
        short = rng.random(len(wanted)) <= share[wanted]
        shape, scale = np.where(short, model.a1, model.a2), np.where(short, model.b1, model.b2)
        log[wanted] = rng.gamma(shape, scale)
        wanted = wanted[log[wanted] > MAX_LOG_RUN]
    return np.exp(log)


# --- who and where ---------------------------------------------------------------------------------------


def zipf_weights(count: int, exponent: float) -> Floats:
    """k ** -exponent for k = 1 .. count."""
    weights: Floats = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return weights


def chosen(rng: np.random.Generator, draws: int, weights: Floats) -> Ints:
    """Places of `weights`, each with a probability in proportion to its weight; one of weight 0 never."""
    upto = np.cumsum(weights)
    places: Ints = np.searchsorted(upto, rng.random(draws) * upto[-1], side="right").astype(np.int64)
    return places


def _gamma_shape(x: Floats, shape: float, scale: float) -> Floats:
    """The density of a gamma distribution but for a constant factor."""
    density: Floats = np.exp((shape - 1.0) * np.log(x) - x / scale)
    return density


def _gamma_below(rng: np.random.Generator, draws: int, shape: float, scale: float, most: float) -> Floats:
    """Values of a gamma distribution; one above `most` is drawn again."""
    values = rng.gamma(shape, scale, draws)
    while len(above := np.flatnonzero(values > most)):
        values[above] = rng.gamma(shape, scale, len(above))
    return values
