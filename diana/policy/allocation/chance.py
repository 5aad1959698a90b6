"""Chance by name: a draw depends on its name alone, in every process and release."""

from __future__ import annotations

import hashlib
from math import exp, floor, log1p, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()
_MANY = 25.0
"""Variance from which a binomial is drawn as a normal distribution."""


def draw(lot: str, number: int) -> int:
    """Draw 64 uniform random bits, the same for the same lot and number."""
    return int.from_bytes(hashlib.blake2b(f"{lot}/{number}".encode(), digest_size=8).digest(), "big")


def fraction(lot: str, number: int) -> float:
    """Draw a number uniformly from (0, 1)."""
    return ((draw(lot, number) >> 12) + 0.5) / 2.0**52


def shares(lot: str, jobs: int, sites: int) -> list[int]:
    """Number of `jobs` that each of `sites` gets when each job goes to a site drawn uniformly. Costs as much as the
    smaller of the two numbers."""
    out = [0] * sites
    if jobs <= sites:
        for number in range(jobs):
            out[draw(lot, number) % sites] += 1
        return out
    for at in range(sites - 1):
        out[at] = _binomial(jobs, 1.0 / (sites - at), fraction(lot, at))
        jobs -= out[at]
    out[-1] += jobs
    return out


def _binomial(trials: int, chance: float, even: float) -> int:
    """The quantile of the binomial distribution at `even`."""
    if chance > 0.5:
        return trials - _binomial(trials, 1.0 - chance, 1.0 - even)
    mean, variance = trials * chance, trials * chance * (1.0 - chance)
    if variance >= _MANY:
        return min(trials, max(0, floor(mean + sqrt(variance) * _NORMAL.inv_cdf(even) + 0.5)))
    ratio, term, hits = chance / (1.0 - chance), exp(trials * log1p(-chance)), 0
    below = term
    while below < even and hits < trials:
        term *= ratio * (trials - hits) / (hits + 1)
        hits += 1
        below += term
        if term == 0.0:
            break
    return hits
